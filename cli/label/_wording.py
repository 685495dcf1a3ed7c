"""What a rater reads, in English, Russian and Chinese: the question, the keys, what became of them.

One `Wording` per language; a score without a question of its own gets the general one.  No layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["LANGUAGES", "WORDINGS", "Language", "Wording"]

Language = Literal["en", "ru", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "ru", "zh")


@dataclass(frozen=True, slots=True)
class Wording:
    """All words of one language."""

    question: str
    contexts: str
    answer: str
    nothing: str
    asked: Mapping[str, str]
    """By score: what is asked of the rater."""
    asked_of_any: str
    """The same of any other score, with its name."""
    grades: Mapping[str, tuple[str, str]]
    """By score: what 1 and 5 mean."""
    grades_of_any: tuple[str, str]
    yes: str
    no: str
    keys: str
    more: str
    place: str
    unknown: str
    saved: str
    mean: str
    early: str
    done: str
    volunteered: str
    rate: str
    early_rate: str


WORDINGS: Mapping[Language, Wording] = {
    "en": Wording(
        question="Question",
        contexts="Retrieved contexts",
        answer="Answer",
        nothing="(none)",
        asked={
            "faithfulness": "Is everything the answer says supported by the contexts?",
            "answer_relevancy": "Does the answer address the question?",
            "context_relevancy": "Are the contexts about the question?",
            "context_sufficiency": "Do the contexts suffice to answer the question?",
            "context_utilization": "Are the contexts that the answer needs ranked first?",
        },
        asked_of_any="How would you rate “{score}”?",
        grades={"faithfulness": ("nothing", "everything")},
        grades_of_any=("not at all", "fully"),
        yes="yes",
        no="no",
        keys="s cannot say · b back · m more text · q quit",
        more="… {hidden} more characters: m",
        place="{number} of {count}",
        unknown="Not a key: {key}",
        saved="{count} labels of {rater} in {path}",
        mean="Mean according to you so far: {mean} ± {half}, whenever you stop",
        early="Not enough to say anything yet: {count} of at least {least}",
        done="All {count} requests that were drawn are labelled.",
        volunteered="Picked for low scores: these labels find faults and enter no estimate.",
        rate="Verdict “{word}”: people call {share} of {n} bad [{lower}, {upper}]",
        early_rate="The meter and the page say so from {least} labels on; there are {count}.",
    ),
    "ru": Wording(
        question="Вопрос",
        contexts="Найденные фрагменты",
        answer="Ответ",
        nothing="(нет)",
        asked={
            "faithfulness": "Всё ли в ответе подтверждается фрагментами?",
            "answer_relevancy": "Отвечает ли ответ на вопрос?",
            "context_relevancy": "Относятся ли фрагменты к вопросу?",
            "context_sufficiency": "Достаточно ли фрагментов, чтобы ответить на вопрос?",
            "context_utilization": "Стоят ли нужные для ответа фрагменты первыми?",
        },
        asked_of_any="Как вы оцениваете «{score}»?",
        grades={"faithfulness": ("ничего", "всё")},
        grades_of_any=("совсем нет", "полностью"),
        yes="да",
        no="нет",
        keys="s не могу сказать · b назад · m весь текст · q выход",
        more="… ещё {hidden} знаков: m",
        place="{number} из {count}",
        unknown="Нет такой клавиши: {key}",
        saved="Оценок ({rater}): {count}, файл {path}",
        mean="Среднее по вашим оценкам: {mean} ± {half}, когда бы вы ни остановились",
        early="Пока мало, чтобы судить: {count} из {least} или больше",
        done="Все отобранные запросы ({count}) оценены.",
        volunteered="Выбраны за низкие оценки: помогают найти ошибки, в средние не входят.",
        rate="Вердикт «{word}»: люди считают плохими {share} из {n} [{lower}, {upper}]",
        early_rate="Страница сообщает об этом от {least} оценок; сейчас {count}.",
    ),
    "zh": Wording(
        question="问题",
        contexts="检索到的片段",
        answer="回答",
        nothing="(无)",
        asked={
            "faithfulness": "回答中的内容是否都有片段支持?",
            "answer_relevancy": "回答是否回应了问题?",
            "context_relevancy": "片段是否与问题相关?",
            "context_sufficiency": "片段是否足以回答问题?",
            "context_utilization": "回答所需的片段是否排在前面?",
        },
        asked_of_any="您如何评价“{score}”?",
        grades={"faithfulness": ("都没有", "全部都有")},
        grades_of_any=("完全不", "完全"),
        yes="是",
        no="否",
        keys="s 无法判断 · b 上一条 · m 全文 · q 退出",
        more="… 还有 {hidden} 个字符:m",
        place="第 {number} 条,共 {count} 条",
        unknown="没有这个键:{key}",
        saved="{rater} 的 {count} 条标注,文件 {path}",
        mean="到目前为止您的平均分:{mean} ± {half},何时停止都有效",
        early="目前还不足以下结论:{count} 条,至少需要 {least} 条",
        done="抽取的 {count} 条请求都已标注。",
        volunteered="因得分低而选出:有助于发现问题,不计入平均分。",
        rate="判定“{word}”:{n} 条中被人认为差的占 {share} [{lower}, {upper}]",
        early_rate="满 {least} 条标注后页面才会显示;目前 {count} 条。",
    ),
}
