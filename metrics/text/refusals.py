"""Find the sentences of an answer that refuse it, and those that claim something.

`refusal`, `lexical_context_utilization` and the citation scores call this; the wordings are in
`refusal_rules`.  A sentence refuses only by a wording that a rule knows: some refusals are missed,
and few answers are taken for one.
"""

import re
from functools import cache
from typing import NamedTuple

from .analysis import Analysis
from .characters import HAN
from .function_words import has_cyrillic
from .refusal_rules import (
    ADVERBS,
    CHINESE,
    COURTEOUS,
    COURTESIES,
    ENGLISH,
    HINTS,
    REFUSING,
    RUSSIAN,
)

__all__ = ["LANGUAGES", "SentenceKind", "asks_back", "greets", "sentence_kinds"]

LANGUAGES = ("en", "ru", "zh")
"""Languages in which a refusal is recognised."""

_RULES = {"en": ENGLISH, "ru": RUSSIAN, "zh": CHINESE}
_LETTERS = {
    "en": re.compile("[a-z]{2}|n/a"),
    "ru": re.compile("[а-я]{2}"),
    "zh": re.compile(f"[{HAN}]"),
}
_LOOKED_AT = 600
"""Characters of a sentence; what stands beyond them is no refusal."""
_LONGEST_MATCH = 120
_LAYOUT = re.compile(r"[\s*_`#]+")
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "´": "'", "ё": "е"})
_WRITTEN_OUT = (
    (re.compile(r"\bcan'?t\b|\bcannot\b"), "can not"),
    (re.compile(r"\bwon'?t\b"), "will not"),
    (re.compile(r"n't\b|(?<=\bdo)nt\b|(?<=\bdoes)nt\b|(?<=\bdid)nt\b|(?<=\bis)nt\b"), " not"),
    (re.compile(r"\bi'?m\b"), "i am"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"\b(it|that|there|this|what)'s\b"), r"\1 is"),
)
# What comes under a condition is not so now; and what is quoted somebody else says.
_CONDITION = re.compile(
    r"^\W*(?:(?:if|when|whenever|unless|in case|once|если|когда|как только)\b|如果|假如|要是|"
    r"若(?!干)|当(?![前时地下中日年])|當(?![前時]))[^,，]*[,，]?"
)
# What is said to be the answer is judged by itself, as in: the answer to the question is: unable to say.
_ANSWER_IS = re.compile(
    r"^.{0,120}?\b(?:answer|reply|respond|response|ответ|отвечу)\b[^:]{0,80}:[\s\"“«'*]*|^.{0,40}?(?:答案|回答)[^：:]{0,20}[：:]\s*"
)
_GREETING = re.compile(
    r"^\W*(?:(?:sure|ok|okay|great|хорошо|好的?)\W+)?(?:(?:hello|hi|hey|greetings|"
    r"good (?:morning|afternoon|evening|day|night)|welcome|"
    r"you(?: are|'re) (?:very |most )?welcome|my pleasure|(?:it was )?a pleasure|no problem|"
    r"no worries|any ?time|cheers|"
    r"(?:glad|happy|pleased)(?: i could| to have)? (?:to )?(?:help|hear|assist|be of)\w*|nice to meet|"
    r"(?:have|enjoy) (?:a|your|the rest of)|take care|all the best|good luck|"
    r"(?:good)?bye|see you|thank(?:s| you)|привет|здравствуй(?:те)?|добр(?:ый|ое|ой) (?:день|утро|вечер|ночи)|"
    r"доброго (?:дня|времени|вечера|утра)|пожалуйста|не за что|спасибо|благодар\w+|обращайтесь|удачи|"
    r"(?:всего|хорошего|приятного) \w+|рад[аы]? (?:был[аи]? )?(?:вам )?(?:помочь|слышать|знакомству)|приятно|"
    r"до (?:свидания|встречи))(?:\W+\w+){0,4}|"
    r"(?:(?:你好|您好|大家好|不客气|不用谢|谢谢|感谢|再见|早上好|下午好|晚上好|晚安|很高兴|祝[您你]|不用客气|没关系)"
    r"[^，。,.]{0,10}[，,！!]?){1,3})\W*\Z"
)
_QUESTION = re.compile(r"[?？]\W*\Z")
_CLARIFYING = re.compile(
    r"^\W*(?:(?:please |kindly )(?:specify|clarify|tell me|let me know|provide|share|state|"
    r"indicate|name|confirm)|"
    r"(?:just )?(?:let me know|tell me|specify|clarify) (?:which|what|when|where|who|whether|how)\b|"
    r"(?:could|can|would) you (?:please )?(?:specify|clarify|tell)|"
    r"уточните|подскажите|пожалуйста\W+(?:укажите|назовите|напишите|сообщите|опишите|поясните|скажите)|"
    r"(?:укажите|назовите|напишите|сообщите|опишите|поясните|скажите),? пожалуйста|"
    r"(?:烦?请您?再?|麻烦您?)(?:问|明确|说明|指明|具体|告诉|提供|补充|描述|确认))"
)
_OFFER = re.compile(
    r"^\W*(?:would you like|do you (?:want|need)|is there anything|anything else|shall i|should i|"
    r"want me|need (?:any|more)|(?:how |what )?(?:else )?can i|may i|"
    r"хотите|нужн|могу ли|чем (?:ещё|еще|я)|需要我|还有什么|要不要|是否需要)"
)
_QUOTED = re.compile('"[^"]{1,200}"|“[^”]{1,200}”|«[^»]{1,200}»|「[^」]{1,200}」')


class SentenceKind(NamedTuple):
    """What a sentence of an answer does."""

    refuses: str | None
    """The words by which it refuses; None when it does not."""
    claims: bool
    """Whether it says something: it neither refuses nor only apologises, offers or points elsewhere."""


_CLAIM = SentenceKind(None, claims=True)


@cache
def _rules(language: str) -> tuple[re.Pattern[str], tuple[re.Pattern[str], ...]]:
    return re.compile(HINTS[language]), tuple(map(re.compile, _RULES[language]))


@cache
def _courtesies() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(COURTESIES), re.compile(rf" (?:{'|'.join(ADVERBS.split())})(?= )")


def sentence_kinds(known: Analysis) -> list[SentenceKind]:
    """Return what each sentence of an answer does.  To be used as ``known.memoize(sentence_kinds)``."""
    if known.has_han or has_cyrillic(known.text):
        return list(map(_kind, known.sentences))
    return [
        _CLAIM if _surely_claims(words) else _kind(sentence)
        for sentence, words in zip(known.sentences, known.sentence_tokens, strict=True)
    ]


def _surely_claims(words: list[str]) -> bool:
    """Return whether an English sentence has no word that a refusal or a courtesy cannot do without."""
    return bool(words) and words[0] not in COURTEOUS and REFUSING.isdisjoint(words)


def _kind(sentence: str) -> SentenceKind:
    text = _LAYOUT.sub(" ", sentence[:_LOOKED_AT].casefold().translate(_APOSTROPHES)).strip()
    plain = _plain(text)
    refusing = _refusing_words(_own_words(plain))
    if refusing is None and (":" in plain or "：" in plain):
        said = _ANSWER_IS.sub("", plain)
        refusing = _refusing_words(said) if said != plain else None
    courtesy, _ = _courtesies()
    polite = courtesy.match(plain) is not None or _GREETING.match(plain) is not None
    return SentenceKind(refusing, refusing is None and not polite)


def greets(known: Analysis) -> bool:
    """Return whether an answer begins with a greeting or thanks, and claims and refuses nothing."""
    kinds = known.memoize(sentence_kinds)
    return (
        bool(kinds)
        and not any(kind.claims or kind.refuses for kind in kinds)
        and _GREETING.match(known.sentences[0].casefold()) is not None
    )


def asks_back(known: Analysis) -> bool:
    """Return whether an answer only asks: it ends with a question and claims nothing but one sentence at most.

    A question that only offers more ("Would you like ...?") asks nothing back beside a claim.
    """
    sentences = known.sentences
    if not sentences:
        return False
    last = sentences[-1].casefold()
    if not (_QUESTION.search(last) or _CLARIFYING.match(last)):
        return False
    others = [
        sentence
        for sentence, kind in zip(sentences[:-1], known.memoize(sentence_kinds), strict=False)
        if kind.claims and not _QUESTION.search(sentence)
    ]
    return len(others) <= 1 and not (others and _OFFER.match(last))


def _own_words(text: str) -> str:
    """Leave out quotations, unless all is one, and the condition that a sentence begins with."""
    if not _QUOTED.match(text):
        text = _QUOTED.sub(" x ", text)
    return _CONDITION.sub("", text)


def _refusing_words(text: str) -> str | None:
    for language, letters in _LETTERS.items():
        if language != "en" and text.isascii():
            break
        if letters.search(text) is None:
            continue
        hint, rules = _rules(language)
        if hint.search(text) is None:
            continue
        for rule in rules:
            found = rule.search(text)
            if found is not None:
                return found.group().strip()[:_LONGEST_MATCH]
    return None


def _plain(text: str) -> str:
    """Write out contractions and leave out adverbs of an English sentence in small letters."""
    if "'" in text or "nt" in text or "cannot" in text or "im " in text:
        for contraction, whole in _WRITTEN_OUT:
            text = contraction.sub(whole, text)
    _, adverbs = _courtesies()
    return adverbs.sub("", text)
