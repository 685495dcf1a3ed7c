"""Words of an answer that claim nothing: about the given texts, the question and the answer itself.

"Based on the provided passages, here is my answer" can be in no chunk and is not invented.  `claims` leaves
these words out, and with them English function words beyond `stems.STOP_WORDS`, which stay in the tokens
because other scores are defined by them.  To add a word, add it to the list whose language fits.
"""

import re
from functools import lru_cache

from .analysis import Analysis
from .function_words import russian_function_stems
from .refusals import sentence_kinds
from .stems import stem
from .terms import compared_terms, terms_of_line
from .tokens import has_han

__all__ = ["claim_terms", "without_labels"]

_FUNCTION = (
    "all both every either neither much many more less few little lot own same such only just even "
    "still yet already too very quite rather really well how when where why what whose while because "
    "since although though unless until whether than once my mine your yours his hers him them theirs "
    "ours us me myself yourself himself herself itself themselves one ones someone anyone everyone "
    "somebody anybody everybody something anything everything through throughout across within without "
    "among amongst against along around toward towards upon onto off out up down behind beside besides "
    "beyond despite per via due like unlike except near must shall let get got make made take have "
    "having able however therefore thus hence otherwise instead meanwhile moreover furthermore "
    "additionally similarly likewise overall finally lastly first second third next always often "
    "usually typically generally sometimes ever never s t re ve ll d m etc"
)
_FRAMING = (
    "passage provide given based answer question mention accord summary summarize information context "
    "document source text state article excerpt follow conclusion conclude here describe discuss "
    "suggest indicate specify specific note please sure hope help helpful retrieve search result "
    "paragraph chunk snippet above below directly explicitly explain refer regard respectively "
    "highlight emphasize brief briefly reply respond отрывок отрывка отрывке отрывки отрывков фрагмент "
    "предоставленный приведенный данный данных информация ответ вопрос согласно основа основание основании "
    "контекст документ источник текст указать указано указывается говорится сказано упоминается следующий "
    "следующие итак образом описано сообщается статья вывод отвечать"
)
_HAN_FRAMING = re.compile(
    "(?:根据|依据|基于|按照)?(?:所|您|我|上述|以上|已|给定|给出|提供|检索到|的|这些|该|本){0,6}"
    "(?:资料|文档|文件|内容|信息|上下文|片段|段落|文章|材料|参考|文本)(?:的内容|中|里|内|显示|表明|指出|提到|提及|可知|所述|来看){0,2}"
    "|(?:综上(?:所述)?|总之|因此|所以|总的来说|总而言之|以下是|如下|答案是?|回答|问题|请注意|需要注意的是)"
)
_DIGIT = re.compile(r"\d")
_LABELS = re.compile(
    r"^\W{0,4}\d{1,3}(?:[.):、．](?!\d)|\)|\s*[-–]\s)|"
    r"(?<!\w)(?:passages?|steps?|options?|sources?|documents?|docs?|chunks?|paragraphs?|contexts?|excerpts?|snippets?|"
    r"examples?|methods?|points?|items?|tips?|ways?|reasons?|questions?|answers?|отрыв\w+|фрагмент\w*|шаг\w*|пункт\w*|"
    r"документ\w*|источник\w*|абзац\w*|пример\w*|вариант\w*|способ\w*)\s(?:no\.? ?|№ ?|#)?\d{1,3}"
    r"(?:(?:,| and| or| &|-|–| и)\s?\d{1,3}(?!\w))*(?!\w)|"
    r"第\s?\d{1,3}\s?(?:步|段|条|点|个?步骤|篇)|(?:步骤|段落|文档|资料|片段|来源|选项|示例|方法)\s?\d{1,3}",
    re.IGNORECASE,
)
"""Numbers that only count: of a list's item, a step, a passage."""


@lru_cache(maxsize=1)
def _claimless() -> frozenset[str]:
    return frozenset(map(stem, f"{_FUNCTION} {_FRAMING}".split())) | russian_function_stems()


def without_labels(sentence: str) -> str:
    """Return a sentence without the numbers that only count."""
    return _LABELS.sub(" ", sentence)


def claim_terms(known: Analysis) -> list[list[str]]:
    """Return, of each sentence of an answer, the terms that claim something; none of one that refuses.

    To be used as ``known.kept(claim_terms)``.
    """
    claimless = _claimless()
    found: list[list[str]] = []
    kinds = known.kept(sentence_kinds)
    for terms, text, kind in zip(known.kept(compared_terms), known.sentences, kinds, strict=True):
        if kind.refuses is not None:
            found.append([])
            continue
        bare = without_labels(text) if _DIGIT.search(text) else text
        if has_han(bare):
            bare = _HAN_FRAMING.sub("，", bare)
        said = terms if bare == text else terms_of_line(bare)
        found.append([term for term in said if term not in claimless])
    return found
