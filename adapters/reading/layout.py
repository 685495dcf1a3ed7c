"""Passages in the layout of a text: what stands between separators, and where a prompt has its context.

Shape only: no framework, no convention and no tool is known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .label_words import (
    ANSWER,
    CONTEXT,
    CONTEXT_INFLECTED,
    CONTEXT_PLURAL,
    HISTORY,
    PASSAGE,
    PASSAGES,
    QUESTION,
    QUESTION_LABEL,
    RULES,
)
from .letters import letters_of, weight_of
from .step import Message

__all__ = ["Piece", "PromptPlace", "divided", "pieces_of", "place_in", "question_in_prompt"]


class Piece(NamedTuple):
    """A passage that a layout shows."""

    text: str
    id: str | None = None
    """Its label."""


class PromptPlace(NamedTuple):
    """Where a prompt has its context, and the passages there."""

    pieces: tuple[Piece, ...]
    is_divided: bool
    """Whether a separator stands between them; else their number is not known."""


_ELEMENT = re.compile(
    r"<((?:document|doc|chunk|passage|result|context|source|item|data|record|entry|fact|note|hit|match|excerpt|"
    r"snippet|article|page|reference|quote|faq|post|paragraph)(?:[_-]?\d+)?)\b([^>]*)>(.*?)</\1>",
    re.IGNORECASE | re.DOTALL,
)
_INNER = re.compile(
    r"<(?:document_content|page_content|content|text)>(.*?)</(?:document_content|page_content|content|text)>",
    re.IGNORECASE | re.DOTALL,
)
_ID_ATTRIBUTE = re.compile(r"""\b(?:id|source|name)\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_ELEMENT_ALONE = re.compile(r"<(\w{1,40})>(.*?)</\1>", re.DOTALL)
_RULE = re.compile(r"^[ \t]*(?:-{3,}|={3,}|\*{3,}|_{3,})[ \t]*$", re.MULTILINE)
_HEADING = re.compile(
    r"^[ \t]*(?:[=#*-]{1,}[ \t]*)?"
    rf"(?:(?:{PASSAGE})[ \t]*[\#№]?[ \t]*\d+[ \t*]*(?:\([^()\n]{{1,80}}\)[ \t]*)?"
    r"(?:[=#*-]{2,}[ \t]*$|[:：.)][ \t]*|$)"
    r"|\[\d+\][ \t:]*|【\d+】[ \t:：]*|\(?\d{1,3}[.)][ \t]+)",
    re.IGNORECASE | re.MULTILINE,
)
_FIRST = (
    rf"[ \t]*(?:[=#*-]+[ \t]*)?(?:\[1\]|【1】|(?:{PASSAGE})[ \t]*[\#№]?[ \t]*1\b"
    r"|\(?(?:source|file|url|title)[ \t]*:[^\n]{1,200}\n)"
)
"""How the first of several numbered passages begins; lists of instructions begin otherwise."""
_SOURCE = re.compile(
    r"^[ \t]*(?:source|title|url|doc(?:ument)?|file|quelle|titel|título|titre|titolo|fuente|fonte|"
    r"источник|название|来源|"
    r"标题)[ \t]*[:：](?P<label>[^\n]*)\n+(?:[ \t]*\w[\w ]{0,20}[:：][^\n]{0,200}\n){0,4}?"
    r"[ \t]*(?:content|text|snippet|passage|inhalt|conteúdo|contenido|contenu|contenuto|texto|"
    r"текст|содержание|内容|摘要)[ \t]*[:：][ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_BRACKETED = re.compile(
    r"^[ \t]*(?:\[(?!\d+\])(?P<label>[^\n]{1,120}?)\](?:\])?(?!\()|【(?!\d)[^】\n]{1,80}】)",
    re.MULTILINE,
)
"""A line that begins with a label in brackets, and is no link."""
_BETWEEN_RULES = re.compile(
    r"(?<![=*~-])(?P<rule>([=*~-])\2{2,39})(?![=*~-])[ \t]*(?P<label>[^\n=*~]{1,150}?)[ \t]*"
    r"(?P=rule)(?![=*~-])[ \t]*(?:\n|\Z)"
)
"""``--- Note: a.md ---``."""
_FILE_LINE = re.compile(
    r"^[ \t]*(?P<label>[^\s:]{1,100}\.\w{2,5}(?:#[^\s:]{1,60})?):[ \t]+", re.MULTILINE
)
"""A line that begins with the name of its file."""
_QUOTED = re.compile(
    r'^[ \t]*(["`~]{3,})\w*[ \t]*\n(.*?)(?:\n[ \t]*\1|\Z)', re.MULTILINE | re.DOTALL
)
_SOURCE_LINE = re.compile(
    rf"^[ \t]*(?:\w+ ){{0,2}}(?:{PASSAGE}|file)[ \t]*[:：][ \t]*(?P<label>[^\n]{{1,120}})\n",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that says no more than where a passage is from."""
_BOLD = re.compile(
    r"^[ \t]*(?:[^\w\n]{1,3}[ \t]*)?\*\*(?P<label>[^*\n]{1,120})\*\*[^\n]{0,80}\n", re.MULTILINE
)
_TITLE = re.compile(r"^(#{1,6})[ \t]+(?P<label>[^\n]+)\n", re.MULTILINE)
_BULLET = re.compile(r"(?:\A|\n)[ \t]*[-*•] +")
_BLANK = re.compile(r"\n[ \t]*\n")
_LABEL = re.compile(r"\A\[([^\]\n]{1,200})\](?!\()[ \t:]*\n?(?=\S)")
_LABEL_NAME = re.compile(
    rf"\A(?:{PASSAGE}|file|url|title|id)\b[^:：\n]{{0,20}}[:：][ \t]*", re.IGNORECASE
)
_SCORED = re.compile(
    r"(?:score|relevance|similarity|distance|rank|confidence|оценка|相关度|得分)[ \t:=：]*-?[\d.,%]+|"
    r"[\d:.,/ T-]+",
    re.IGNORECASE,
)
_ORDINAL = re.compile(rf"(?:(?:{PASSAGE}|\w{{1,20}}[ \t#№]) *)?[#№]?\d{{1,3}}", re.IGNORECASE)
_NOTHING = re.compile(
    r"(?=.*\b(?:found|results?|match\w*|documents?|hits?|entries)\b)"
    r"(?:sorry[,.]?\s+)?(?:i\s+)?(?:no|nothing|found (?:no|nothing)|0|none|could(?:n't| not) find any)\b.*|"
    r"(?:[a-z]+_)*no_[a-z_]*(?:found|results?|matche?s?)|"
    r"(?:\w+ )*(?:search|retrieval|retriever|tool|query) error\b.*|"
    r"(?:к сожалению, )?(?:.*\b)?(?:ничего |информаци\w+ |документ\w+ )(?:\w+ ){0,3}не (?:удалось )?най\w+.*|"
    r"нет (?:результатов|документов|данных)\b.*|.*(?:未找到|没有找到|找不到|未检索到|暂无相关|无相关).*",
    re.IGNORECASE,
)
"""One line of a tool that found nothing, or failed."""


def pieces_of(text: str, separator: str | None = None) -> Iterator[Piece]:
    """Yield the passages that a text holds: between separators, elements, rules, headings or blank lines.

    Args:
        text: Without any passage if it says in one short line that nothing was found.
        separator: Regular expression of what stands between two passages.
    """
    if separator is not None:
        yield from map(_labelled, filter(str.strip, _split(re.compile(separator), text)))
        return
    if not text.strip() or _is_nothing(text.strip()):
        return
    heads = list(_SOURCE.finditer(text))
    for rule in (_FILE_LINE, _BRACKETED, _BETWEEN_RULES, _BOLD, _SOURCE_LINE):
        heads = heads or _heads_by(rule, text)
    titles = list(_TITLE.finditer(text))
    if not heads and _are_names(titles, text):
        heads = titles
    if heads:
        ends = [*(head.start() for head in heads[1:]), len(text)]
        for head, end in zip(heads, ends, strict=True):
            yield Piece(text[head.end() : end].strip(" \t\n-=:"), _id_of(head["label"] or ""))
        return
    elements = list(_ELEMENT.finditer(text)) if _is_closed(text) else []
    if elements:
        for element in elements:
            inner = _INNER.search(element[3])
            named = _ID_ATTRIBUTE.search(element[2])
            body = (inner[1] if inner else element[3]).strip()
            if body:
                yield Piece(body, named[1] if named else None)
        return
    quoted = [match[2].strip() for match in _QUOTED.finditer(text)]
    if 2 * sum(map(len, quoted)) > len(text):
        yield from map(_labelled, filter(None, quoted))
        return
    for rule in (_RULE, _HEADING, _BLANK):
        if rule.search(text):
            parts = [part for part in _split(rule, text) if part.strip()]
            leads = len(parts) > 1 and _is_lead(parts[0])
            yield from map(_labelled, parts[1:] if leads else parts)
            return
    items = _BULLET.split(text.strip())
    yield from map(_labelled, items[1:] if len(items) > 2 and not items[0] else [text])


def _is_closed(text: str) -> bool:
    """Return whether elements end: of those that do not, each would be looked for to the end."""
    return 0 < text.count("<") <= 4 * text.count("</") + 8


def _heads_by(rule: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return the lines by which two passages or more begin; none: a text stands before the first."""
    heads = list(rule.finditer(text))
    leads = len(heads) > 1 and _is_lead(text[: heads[0].start()])
    return heads if leads or (heads and rule is _FILE_LINE and heads[0].start() == 0) else []


def _is_lead(text: str) -> bool:
    """Return whether a text says that passages follow, as "Found 2 results:", or nothing."""
    plain = text.strip()
    return not plain or (
        len(plain) < 100
        and (
            plain.endswith((":", "："))
            or re.search(CONTEXT_INFLECTED + r"\.\Z", plain, re.IGNORECASE) is not None
        )
    )


def _id_of(label: str) -> str | None:
    """Return what a label names; None: it counts or scores, as "Document 1 | score: .8", and names nothing."""
    for part in re.split(r" ?[|·] ?", label.strip(" \t[]【】")):
        name = _LABEL_NAME.sub("", part, count=1).strip()
        if name and not _ORDINAL.fullmatch(name) and not _SCORED.fullmatch(name):
            return name
    return None


def _are_names(titles: Sequence[re.Match[str]], text: str) -> bool:
    """Return whether headings, of one level from the first line on, each name what follows."""
    return (
        len({title[1] for title in titles}) == 1 < len(titles)
        and not text[: titles[0].start()].strip()
        and _HEADING.match(text.lstrip()) is None
    )


def _split(rule: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield what stands between the matches; groups in the user's expression do not count."""
    start = 0
    for match in rule.finditer(text):
        if match.end() > match.start():
            yield text[start : match.start()]
            start = match.end()
    yield text[start:]


def _is_nothing(text: str) -> bool:
    """Return whether a tool says in one short line that it found nothing."""
    return len(text) <= 100 and _NOTHING.fullmatch(text) is not None


def _labelled(text: str) -> Piece:
    label = _LABEL.match(text.strip())
    if label is None or label[1].isdigit():
        return Piece(text.strip())
    return Piece(text.strip()[label.end() :], _id_of(label[1]))


_WRAPPED = re.compile(
    r"<((?:\w+[_-])?(?:contexto|contexte|kontext|context|documents|docs|sources|passages|excerpts|"
    r"knowledge|references|search_results|data|facts|notes|articles|results|evidence|information|kb)(?:[_-]\w+)?)"
    r"\b[^>]*>\n?(.+?)</\1>",
    re.IGNORECASE | re.DOTALL,
)
_LABEL_LINE = re.compile(
    r"^(?:[^\n]{0,200}[.!?。] ?)?"
    r"[ \t#*\[(【<]*(?:(?:the|relevant|retrieved|given|provided|available|following|background|supporting|"
    rf"document|reference|additional|here (?:are|is)(?: the)?) +)*(?:{CONTEXT_PLURAL})"
    r"(?: +(?:information|documents?|passages?|below|follows?|is below|are below))*"
    rf"(?: is| are)?[ \t*\])】>]*[:：][ \t*]*\n?|^[ \t]*#+[ \t]*(?:{CONTEXT})[ \t]*\n|"
    rf"^[ \t#*]*(?:[\w'’-]+[ \t]+){{1,4}}(?:{PASSAGES})(?:[ \t]+[\w'’-]+){{0,4}}[ \t*]*[:：][ \t*]*\n|"
    rf"^[ \t]*(?:【|\[|[=*-]{{2,40}})[ \t]*[^\n\d]{{0,30}}?(?:{CONTEXT_PLURAL})[^\n\d]{{0,30}}?[ \t]*"
    r"(?:】|\]|[=*-]{2,40})[ \t]*\n",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that names the context and says no more."""
_LEADING = re.compile(
    r"^(?=[^\n]{0,300}(?:follow|below|provided|given|based|only|us(?:e|ing)\b|these|here (?:is|are)|context|"
    r"retriev|sources|knowledge|контекст|документ|следующ|"
    r"[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]))"
    rf"[^\n]{{0,300}}?(?:\b|(?<=[\u4e00-\u9fff])){CONTEXT_INFLECTED}[^\n]{{0,80}}"
    r"(?:[:：][ \t*]*\n|(?:\bis|\bare)? ?below[^\n]{0,60}\n)",
    re.IGNORECASE | re.MULTILINE,
)
"""A sentence that leads to it."""
_PARAGRAPH = re.compile(
    r"\A(?:[^\n]{0,80}\n)?[^\n]{0,400}(?:following|below|given|provided|"
    r"next|следующ|ниже|приведенн|приведённ|以下|下面|下列)"
    rf"[^\n]{{0,200}}{CONTEXT_INFLECTED}[^\n]{{0,600}}\n(?:[^\n]+\n){{0,3}}[ \t]*\n",
    re.IGNORECASE,
)
"""A paragraph of instructions before it."""
_BEFORE_FENCE = re.compile(
    rf"\A[^\n]{{0,400}}(?:{CONTEXT})[^\n]{{0,600}}\n(?:[^\n]+\n){{0,4}}(?=-{{3,}}[ \t]*\n)",
    re.IGNORECASE,
)
_BEFORE_NUMBERED = re.compile(
    rf"^[^\n]{{0,600}}?(?:\b|(?<=[\u4e00-\u9fff])){CONTEXT_INFLECTED}[^\n]{{0,600}}\n\s*(?={_FIRST})",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that names passages, before the first of those that are numbered."""
_NUMBERED = tuple(
    re.compile(
        rf"^[ \t]*(?:[=#*-]{{2,40}}|\[|【)[^\n]{{0,30}}?(?:{PASSAGE})[ \t#№\[(]*{number}\b",
        re.IGNORECASE | re.MULTILINE,
    )
    for number in (1, 2)
)
"""Headings of the first two of several passages."""
_WIDE_LABEL = re.compile(
    r"^[^\n:：]{0,60}?(?:\b(?:information|content|found|findings|notes|materials?|data|records|entries|"
    r"results|posts|faqs?|lookup|cases|details|texts?|inhalt|contenido|conteúdo|contenu|"
    r"contenuto|сведения|информация|кейсы|тексты?|данные)\b|"
    r"内容|信息|材料|내용|本文)[^\n:：]{0,40}[:：][ \t*]*\n",
    re.IGNORECASE | re.MULTILINE,
)
"""A label that names the context only where another one names the question."""
_FENCE = re.compile(r"^[ \t]*(?:-{3,}|={3,}|`{3,}|\"{3,}|~{3,})\w*[ \t]*$\n?", re.MULTILINE)
_ASKING_LABEL = re.compile(
    r"^[^\n:：.!?？。]{0,80}?(?<![a-zа-я])(?:" + QUESTION + r")(?![a-z])[^\n:：.!?？。]{0,40}"
    r"(?:[:：][ \t*]*\n?|[\]】=*#-]+[ \t]*\n)\s*(?P<asked>[^\s*•<\d-][^\n]{0,300}?)[ \t.]*(?=\n|\Z)",
    re.IGNORECASE | re.MULTILINE,
)
"""A label that has such a word among others, and one line."""
_QUOTED_QUESTION = re.compile(
    rf"(?:{QUESTION})[「『“\"](?P<asked>[^\n「」『』“”\"]{{2,300}})[」』”\"]", re.IGNORECASE
)
_TURN = re.compile(
    r"^[ \t]*(?:user|human|customer|пользователь|клиент|用户|客户)[ \t]*[:：][ \t]*(?P<asked>[^\n]{1,300})"
    r"\n+[ \t]*(?:ai|assistant|bot|ассистент|助手)[ \t]*[:：]?\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)
"""The last turn of a dialogue that the model goes on with."""
_ASKED = re.compile(
    rf"(?:^|(?<=。)|(?<=, ))[ \t#*<\[]*{QUESTION_LABEL}[ \t*>\]#]*(?:[:：]|\n)[ \t*]*(.{{1,2000}}?)"
    rf"(?=\n[ \t#*<]*(?:{ANSWER}|{CONTEXT}|</)[^\n]{{0,30}}?(?:[:：>]|\Z)|\n[ \t]*\n|\Z)",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_FIELD = re.compile(rf"(?:retrieved |relevant )?{CONTEXT_INFLECTED}", re.IGNORECASE)
_ASKING_FIELD = re.compile(QUESTION_LABEL, re.IGNORECASE)
_CLOSING = re.compile(
    rf"\n[ \t#*<\[]*(?:{HISTORY}|{RULES})[ \t*>\]#]*[:：][ \t*]*(?:\n|$)|"
    rf"\n[ \t#*<\[]*(?:{QUESTION_LABEL}|{ANSWER}|instructions?|инструкции|指令)"
    r"[ \t*>\]#]*(?:[:：]|$)|"
    r"\n[ \t]*(?:given|using|based on|answer|respond|reply|use|if you|отвечай|ответь|根据|请)[^\n]*\Z|"
    r"\n[ \t]*\n[ \t]*(?:answer|respond|reply|format your|(?:please )?provide|please|"
    r"ответь|отвечай|请)(?![a-zа-я])|"
    r"\n[ \t]*(?:(?:given|based on|using) (?:the|this|only)|(?:请?根据|基于)(?:上述|以上))[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
"""What ends it."""
_CAPITALS = re.compile(
    r"\n[ \t]*\n[ \t]*[A-ZА-ЯЁ][^a-zа-яё\n]{2,40}(?:\([^()\n]{0,60}\))?[:：][ \t]*(?:\n|\Z)"
)
_AFTER_QUESTION = re.compile(
    r"[^\n:：]{1,30}[:：]|[ \t]*(?:answer|respond|reply|use|please|if you|ответь|отвечай|请)(?![a-zа-я])",
    re.IGNORECASE,
)
_OPEN_LABEL = re.compile(r"(?:(?:\A|\n)[^\n:：]{0,80}(?:[:：][ \t*]*|[\]】=*-]+[ \t]*)\s*)+\Z")
"""Labels with nothing behind them."""
_META = re.compile(
    r"(?:[ \t(]*(?:[a-z]+(?:_[a-z]+)+|source|title|url|author|date|page|file|id|score|section|category|"
    r"language)"
    r"[ \t]*[:=][^\n]{0,200}(?:\n|\Z))+",
    re.IGNORECASE,
)
"""Lines of metadata above a passage."""
_LEAST = 20
"""Letters of a passage at least."""
_MOST_ASKED = 2_000
_QUESTION_MARKS = ("?", "？")
_ASKS_FIRST = re.compile(r"\s*[^\n]{1,300}[?？][ \t]*\n")
_MOST_ALONE = 300
"""Characters of a question that follows passages without a word before it."""


def place_in(
    messages: Iterable[Message], question: str | None = None, count: int | None = None
) -> PromptPlace | None:
    """Return the passages where a prompt has its context; None: it has no place for any.

    Args:
        messages: What a model was sent.
        question: What was asked: it is no passage.
        count: How many passages there are, where that is known: it decides what divides them.
    """
    best: PromptPlace | None = None
    size = 0
    for role, text in messages:
        if role not in ("system", "user", "developer", ""):
            continue
        fields = _fields_of(text)
        if role == "user" and not any(map(_is_asking, fields)):
            fields = {}
        body = None if fields else _context_of(text, (question or "").strip())
        place = _field_place(fields) if body is None else divided(body, count)
        if place is None:
            continue
        weight = sum(len(piece.text) for piece in place.pieces)
        if weight > size:
            best, size = place, weight
    return best


def question_in_prompt(messages: Sequence[Message]) -> str | None:
    """Return what a prompt asks: behind its last ``Question:``, beside its context, or all that users said."""
    asked = [text for role, text in messages if role == "user" and text.strip()]
    if not asked:
        return next(
            filter(None, (_labelled_question(text) for _, text in reversed(messages))), None
        )
    text = asked[-1]
    for name, value in _fields_of(text).items():
        if isinstance(value, str) and _is_asking(name):
            return _short(value)
    end = max(len(text) - _MOST_ASKED, 0)
    found = max(_ASKED.finditer(text[end:]), key=re.Match.start, default=None)
    span = _span_of(text, is_asked=_ASKS_FIRST.match(text) is not None)
    if found is not None and (span is not None or len(found[1]) < len(text) // 2):
        line, _, after = found[1].partition("\n")
        line = line.rstrip(" \t.")
        is_over = line.endswith(("?", "？")) and _AFTER_QUESTION.match(after)
        return _short(line if is_over else found[1])
    if span is not None or len(text) > _MOST_ALONE:
        labelled = _labelled_question(text)
        if labelled is not None:
            return labelled
    if span is None:
        return _short(text)
    sides = (
        text[: span[0]].strip(),
        re.sub(r"\A\s*</\w+>", "", text[span[2] :]).strip(),
        _last_question(text[span[1] : span[2]]),
    )
    return next((_short(side) for side in sides if side and not _BLANK.search(side)), None)


def _labelled_question(text: str) -> str | None:
    """Return the line behind the last label that speaks of a question: it asks, or ends the prompt."""
    last = None
    for match in _ASKING_LABEL.finditer(text):
        asked = match["asked"].strip(' \t"“”«»')
        rest = text[match.end() :].strip()
        ends = not rest or re.match(ANSWER, rest, re.IGNORECASE) is not None
        is_context = re.search(
            CONTEXT_INFLECTED, match[0][: match.start("asked") - match.start()], re.IGNORECASE
        )
        if asked.endswith(("?", "？", "؟")) or (ends and not is_context):
            last = asked
    if last is not None:
        return last
    other = _TURN.search(text[-_MOST_ASKED:]) or _QUOTED_QUESTION.search(text)
    return None if other is None else other["asked"].strip()


def _last_question(body: str) -> str:
    """Return the last paragraph if it is a question; empty: it is a passage."""
    last = _BLANK.split(body.strip())[-1].strip()
    return (
        last
        if last.endswith(_QUESTION_MARKS) and "\n" not in last and len(last) <= _MOST_ALONE
        else ""
    )


def _fields_of(text: str) -> Mapping[str, object]:
    """Return the fields of a prompt that is one JSON object; none: it is another text."""
    fields = _parsed(text.strip())
    return fields if isinstance(fields, dict) else {}


def _parsed(text: str) -> object:
    """Return an object or a list that a text is in JSON; None: it is another text."""
    if text[:1] + text[-1:] not in {"{}", "[]"}:
        return None
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _is_asking(name: str) -> bool:
    return _ASKING_FIELD.fullmatch(name.replace("_", " ")) is not None


def _field_place(fields: Mapping[str, object]) -> PromptPlace | None:
    """Return the passages under a field that is named as a context; of an object its longest text."""
    for name, value in fields.items():
        if _FIELD.fullmatch(name.replace("_", " ")):
            pieces: list[Piece] = []
            for item in value if isinstance(value, list) else [value]:
                texts = item.values() if isinstance(item, dict) else [item]
                text = max((one for one in texts if isinstance(one, str)), key=len, default="")
                pieces += [Piece(text.strip())] if text.strip() else []
            if pieces:
                return PromptPlace(tuple(pieces), is_divided=isinstance(value, list))
    return None


def _short(text: str) -> str | None:
    element = _ELEMENT_ALONE.fullmatch(text.strip())
    plain = (element[2] if element else text).strip().strip('"').strip()
    return plain if 0 < len(plain) <= _MOST_ASKED else None


def _span_of(text: str, *, is_asked: bool) -> tuple[int, int, int] | None:
    """Return where the line that leads to the context begins, and where the context does and ends.

    Args:
        text: A message.
        is_asked: Whether a question stands outside of it.
    """
    is_closed = _is_closed(text)
    elements = [one for one in _ELEMENT.finditer(text) if one[3].strip()] if is_closed else []
    wrapped = _WRAPPED.search(text) if is_closed else None
    # Of several that are called alike, each is a passage.
    alike = 0 if wrapped is None else [one[1] for one in elements].count(wrapped[1])
    if wrapped is not None and alike < 2:
        # Instructions may name the element, opened and closed, before it comes.
        opening = f"<{wrapped[1].lower()}>"
        named, again, _ = wrapped[2].lower().rpartition(opening)
        return wrapped.start(), wrapped.start(2) + len(named) + len(again), wrapped.end(2)
    if elements:
        return elements[0].start(), elements[0].start(), elements[-1].end()
    for rule in (_LABEL_LINE, _LEADING, _PARAGRAPH, _BEFORE_FENCE, _BEFORE_NUMBERED):
        head = rule.search(text)
        if rule is _LABEL_LINE and head is not None:
            # Examples that come first have a context, a question and an answer each.
            same = [one for one in rule.finditer(text) if one[0].strip() == head[0].strip()]
            between = text[head.end() : same[-1].start()]
            head = same[-1] if _ASKED.search(between) is not None else head
        if head is not None and text[head.end() :].strip():
            return head.start(), head.end(), len(text)
    first, second = (rule.search(text) for rule in _NUMBERED)
    if first is None or second is None:
        names_question = _ASKED.search(text) is not None or _labelled_question(text) is not None
        wide = _WIDE_LABEL.search(text) if is_asked or names_question else None
        if wide is not None:
            return wide.start(), wide.end(), len(text)
        heads = list(_BRACKETED.finditer(text)) if names_question else []
        if len(heads) < 2:
            return None
        first = heads[0]
    return first.start(), first.start(), len(text)


def _context_of(text: str, question: str) -> str | None:
    is_asked = question.endswith(_QUESTION_MARKS)
    span = _span_of(text, is_asked=is_asked)
    if span is None:
        return None
    head, start, end = span
    body = text[start:end]
    # A context in capitals ends where the next label is in capitals.
    if (letters := re.sub(r"[\W\d_]", "", text[head:start])) and letters.isupper():
        body = _CAPITALS.split(body, maxsplit=1)[0]
    at = body.rfind(question) if question else -1
    if at >= 0:
        body = _OPEN_LABEL.sub("", body[:at])
    opening = _FENCE.match(body.lstrip("\n"))
    if opening is not None:
        inner = body.lstrip("\n")[opening.end() :]
        fences = list(_FENCE.finditer(inner))
        same = [fence for fence in fences if fence[0].strip() == opening[0].strip()]
        closing = next(iter(same or fences[-1:]), None)
        # Else each stands before a passage.
        if closing is not None and len(_until_closing(inner[closing.end() :])) < _LEAST:
            return inner[: closing.start()].strip()
        body = inner
    return _until_closing(body).rstrip('-=`"').strip()


def _until_closing(body: str) -> str:
    closing = _CLOSING.search("\n" + body)
    return (body if closing is None else ("\n" + body)[: closing.start()]).strip()


def divided(body: str, count: int | None = None) -> PromptPlace:
    """Return the passages of a text that holds nothing else; `count` as in `place_in`."""
    listed = _field_place({"context": _parsed(body)}) if body[:1] in "[{" else None
    if listed is not None and (count is None or len(listed.pieces) == count):
        return listed
    pieces = [piece for piece in pieces_of(body) if piece.text]
    whole = [piece for piece in pieces if _META.fullmatch(piece.text) is None] or pieces
    whole = [
        piece._replace(
            text=_META.sub("", piece.text, count=1).strip()
            if _META.match(piece.text)
            else piece.text
        )
        for piece in whole
    ]
    if count is not None and len(whole) != count:
        for rule in (_BLANK, re.compile(r"\n(?=[ \t]*[-*•] )"), re.compile(r"\n"), _RULE):
            parts = [part.strip() for part in _split(rule, body) if part.strip()]
            if len(parts) == count:
                return PromptPlace(tuple(map(Piece, parts)), is_divided=True)
        return PromptPlace(tuple(whole), is_divided=False)
    if count is None:
        whole = [piece for piece in whole if weight_of(letters_of(piece.text)) >= _LEAST]
    is_marked = bool(_ELEMENT.search(body) or _HEADING.match(body) or _SOURCE.match(body))
    return PromptPlace(tuple(whole), is_divided=len(whole) > 1 or is_marked or count == 1)
