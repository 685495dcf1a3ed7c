"""Russian words that say nothing about a topic, as `stems.STOP_WORDS` are for English.

`content_tokens` keeps them: the definitions of many scores rest on its tokens.  The metrics that
compare an answer or a question with chunks leave them out, by stem.
"""

import re
from functools import lru_cache

from .stems import stem

__all__ = ["RUSSIAN_FUNCTION_WORDS", "has_cyrillic", "russian_function_stems"]

_CYRILLIC = re.compile("[\u0400-\u04ff]")

RUSSIAN_FUNCTION_WORDS = frozenset(
    # prepositions
    "в во на с со к ко о об обо у по за из изо от ото до для без над под при про через перед между "
    "ради кроме вокруг около после среди против вместо вдоль "
    # conjunctions and particles
    "и а но да или либо то не ни же бы ли ведь вот ну уж уже еще лишь только даже если чтобы чтоб "
    "хотя пока раз пусть так тоже также как что нет там тут здесь тогда потом теперь сейчас "
    # personal and possessive pronouns
    "я меня мне мной ты тебя тебе тобой он его ему им нем она ее ей ею ней него нему оно мы нас "
    "нам нами вы вас вам вами они их ими них ним ними себя себе собой мой моя мое мои моего моей "
    "моему моим моих мою твой твоя твое твои свой своя свое свои своего своей своему своим своих "
    "своими свою наш наша наше наши нашего нашей нашему нашим наших нашу ваш ваша ваше ваши вашего "
    "вашей вашему вашим ваших вашу "
    # demonstratives, relatives, quantifiers
    "этот эта это эти этого этой этому этим этом этих этими эту тот та те того той тому тем том "
    "тех теми ту такой такая такое такие такого таких "
    "весь вся все всего всей всему всем всех всеми всю который которая которое которые которого "
    "которой которому которым котором которую которых которыми чей чья чье чьи чьего кто кого кому "
    "кем ком чего чему чем какой какая какое какие какого какому каким каком каких какими какую "
    "каков какова каково каковы где куда откуда когда почему зачем сколько ничто ничего "
    # to be, to be able, to have to
    "быть есть был была было были будет будут будем буду бывает может могут мочь можно нужно надо "
    "нужен нужна нужны должен должна должно должны".split()
)
"""Casefolded, ё as е."""


@lru_cache(maxsize=1)
def russian_function_stems() -> frozenset[str]:
    """Return the stems of `RUSSIAN_FUNCTION_WORDS`."""
    return frozenset(map(stem, RUSSIAN_FUNCTION_WORDS))


def has_cyrillic(text: str) -> bool:
    """Return whether `text` has a Cyrillic letter."""
    return not text.isascii() and _CYRILLIC.search(text) is not None
