"""Tell in which language a text is written, well enough to tell apart the users of one application.

By script; among languages that share one, by a few small words and letters of their own.  No model and no
word lists of any size: a short text without such a word counts as the most common language of its
script.
"""

import re
from collections.abc import Mapping

from .analysis import Analysis
from .scripts import script_of

__all__ = ["language_of"]

_READ_CHARACTERS = 2_000
_KANA = re.compile("[\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f]")
_UKRAINIAN = re.compile("[ґєії]", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_OF_SCRIPT: Mapping[str, str] = {
    "cyrillic": "ru",
    "greek": "el",
    "armenian": "hy",
    "hebrew": "he",
    "arabic": "ar",
    "devanagari": "hi",
    "bengali": "bn",
    "gurmukhi": "pa",
    "gujarati": "gu",
    "tamil": "ta",
    "telugu": "te",
    "kannada": "kn",
    "malayalam": "ml",
    "sinhala": "si",
    "thai": "th",
    "lao": "lo",
    "tibetan": "bo",
    "burmese": "my",
    "georgian": "ka",
    "hangul": "ko",
    "ethiopic": "am",
    "khmer": "km",
    "han": "zh",
    "latin": "en",
}
"""The most common language of each script."""
_SMALL_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the of and to is are was were what which who how why when where does do did can could "
        "should will would has have had be been in on at for with from by an this that these those it "
        "its my your our their not you we they there about",
        "de": "der die das den dem des ein eine einen einem einer und oder ist sind war wie wer wo wann "
        "warum welche welcher welches für mit von zu zum zur auf nicht ich wir sie kann muss haben hat "
        "wird werden auch bei nach aus über im am",
        "fr": "le la les des du un une et ou est sont qui que quoi quel quelle quels quelles comment "
        "pourquoi quand où pour avec dans sur pas je nous vous il elle mon ma mes notre votre peut faut "
        "au aux ce cette ces",
        "es": "el la los las un una y o es son qué que quién cómo cuándo dónde cuál por para con en del "
        "al no se mi mis su sus puedo puede hay está este esta estos cuánto",
        "it": "il lo la gli un una e è sono che chi come quando dove perché quale quali per con nel nella "
        "del della dei delle di da non si mio mia posso può questo questa quanto",
        "pt": "o os as um uma e é são que quem como quando onde qual quais por para com em no na nos nas "
        "do da dos das não se meu minha posso pode este esta isto quanto",
        "nl": "de het een en of is zijn wat wie hoe waar wanneer waarom welke voor met van naar op niet ik "
        "wij je kan moet heeft worden wordt bij uit ook dit dat",
        "pl": "i w z na do nie jest są co kto jak gdzie kiedy dlaczego czy który która które dla od po "
        "się mój moja mogę może ten ta to",
        "tr": "ve bir bu şu ne nasıl nerede neden hangi kim için ile mi mı mu mü değil var yok olarak "
        "kadar çok daha",
        "sv": "och är det att en ett som på för med av inte jag vi hur var när varför vilken vilket kan "
        "ska har till från den",
    }.items()
}


def language_of(text: str) -> str | None:
    """Return the language a text is written in, as ISO 639-1 has it; None when it has no letter.

    Related languages that share a script count as its most common one: Cyrillic is ``ru``, or ``uk`` with
    letters that only Ukrainian has; Arabic script is ``ar``, Devanagari ``hi``.  Latin script is read by
    small words; without one it is ``en``.
    """
    known = Analysis(text[:_READ_CHARACTERS])
    text, script = known.text, script_of(known)
    if script is None:
        return None
    if script == "latin":
        return _of_small_words(text)
    if script == "han" and _KANA.search(text):
        return "ja"
    if script == "cyrillic" and _UKRAINIAN.search(text):
        return "uk"
    return _OF_SCRIPT[script]


def _of_small_words(text: str) -> str:
    words = [word.casefold() for word in _WORD.findall(text)]
    found = {
        language: sum(word in small for word in words) for language, small in _SMALL_WORDS.items()
    }
    # Of equally good ones the first: English.
    return max(found, key=found.__getitem__)
