"""The places of context and question in a prompt, by its layout alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from .chat_template import written_out
from .label_words import (
    ANSWER,
    CONTEXT,
    CONTEXT_CJK,
    CONTEXT_INFLECTED,
    CONTEXT_PLURAL,
    HISTORY,
    INSTRUCTION,
    LEADING,
    MARK,
    OTHER,
    PASSAGE,
    PASSAGES,
    QUESTION,
    QUESTION_LABEL,
    RULES,
    WIDE,
)
from .layout import BLANK, BRACKETED, ELEMENT, LEAST, Passages, divided, is_closed, longest_texts
from .letters import letters_of, weight_of
from .literals import parsed
from .records import table_in
from .step import Message

_WRAPPED = re.compile(
    rf"<((?:\w+[_-])?(?:{CONTEXT_PLURAL}|search_results|data|notes|results|kb)(?:[_-]\w+)?)"
    r"\b[^>]*>\n?([^<]*(?:<(?!/?\1\b)[^<]*)*)</\1>",
    re.IGNORECASE,
)
_LABEL_LINE = re.compile(
    r"^(?:[^\n]{0,200}[.!?。] ?)?"
    r"[^\w\n]{0,12}(?:[^\W\d_]{1,20}-)?(?:(?:the|relevant|retrieved|given|provided|available|following|"
    r"background|supporting|document|reference|additional|(?:and )?here (?:are|is)(?: the)?)"
    rf" +)*(?:{CONTEXT_PLURAL})"
    r"(?: +(?:information|documents?|passages?|json|below|follows?|is below|are below))*"
    rf"(?: is| are)?[ \t*\])】>]*[:：][ \t*]*\n?|"
    r"^[ \t]*(?:#+|(?:retrieved|relevant|provided|supporting|background) )[ \t]*(?:\w+ )?"
    rf"(?:{CONTEXT}|{CONTEXT_CJK})[ \t]*\n|"
    rf"^[^\w\n]{{0,12}}(?:start|begin)(?: of)?(?: the)? (?:\w+ )?(?:{CONTEXT_PLURAL})\b[^\n]{{0,20}}\n|"
    rf"^[ \t#*]*(?:(?:以下|最)?{CONTEXT_CJK}[:：][ \t]*|【{CONTEXT_CJK}】)\n?|"
    r"^[ \t#*]*(?!(?:system|user|chat|conversation|session|previous|current page)\b)"
    rf"(?:[\w'’-]+[ \t]+){{1,4}}(?:{PASSAGES})(?:[ \t]+[\w'’-]+){{0,4}}[ \t*]*[:：][ \t*]*\n|"
    rf"^[ \t]*(?:【|\[|%|[=*-]{{2,40}})[ \t]*[^\n\d]{{0,30}}?(?:{CONTEXT_PLURAL})[^\n\d]{{0,30}}?[ \t]*"
    r"(?:】|\]|%|[=*-]{2,40})[ \t]*\n",
    re.IGNORECASE | re.MULTILINE,
)
"""A line with only a name of the context."""
_TASK = re.compile(
    r"\W*(?:(?:you|please) )*(?:summari[sz]e|sum up|convert|draft|compose|write|create|"
    r"generate|make|rewrite|proofread|correct the|shorten|compare|"
    r"переведи|сократи|сравни|извлеки|总结|翻译|改写|übersetze|fasse)(?![a-zа-яё])|"
    r"[^\n]{0,200}\b(?:extract|classify|translate)\b",
    re.IGNORECASE,
)
"""A task about the text that follows."""
_LEADING = re.compile(
    r"^(?!(?:user|chat|conversation|session|previous)\b[^\n]{0,20}[:：])"
    rf"(?=[^\n]{{0,300}}(?:{LEADING}|"
    r"[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]))"
    rf"[^\n]{{0,300}}?(?:\b|(?<=[\u4e00-\u9fff])){CONTEXT_INFLECTED}[^\n]{{0,80}}"
    r"(?:[:：][ \t*]*\n|(?:\bis|\bare)? ?below[^\n]{0,60}\n|\n\s*(?=[-=]{10,}[ \t]*\n))|"
    rf"^(?![^\n]{{0,300}}(?:{QUESTION}|{HISTORY}|extract|keep |remember|follow))"
    r"[^\n]{0,200}?\b(?:relevant|retrieved|recalled|matching|similar|"
    r"релевантн\w+|найденн\w+|нашл\w+|похож\w+|этих|следующих)"
    r"(?: [^\n]{1,80})?[:：][ \t*]*\n|"
    rf"^[^\n]{{0,200}}?\b(?:these|following) {CONTEXT_INFLECTED}[:：][ \t]",
    re.IGNORECASE | re.MULTILINE,
)
"""A sentence that introduces it."""
_PARAGRAPH = re.compile(
    r"\A(?:[^\n]{0,80}\n)?[^\n]{0,400}(?:following|below|given|provided|"
    r"next|следующ|ниже|приведенн|приведённ|以下|下面|下列)"
    rf"[^\n]{{0,200}}{CONTEXT_INFLECTED}[^\n]{{0,600}}\n"
    r"(?:(?:[^\w\n]*(?:if|when|you|your|answer|use|only|never|always|do|don['’]t|be|keep|say|cite|please|"
    r"если|не|отвечай|только|используй)\b|[^\n]*(?:请|不要|如果|必须|ください))[^\n]*\n){0,3}\s*",
    re.IGNORECASE,
)
"""A paragraph of instructions before it."""
_HEADS = tuple(
    re.compile(head, re.IGNORECASE | re.MULTILINE)
    for head in (
        rf"^[ \t]*(?:{MARK}{{2,40}}|[■●◆▼▶◇□○◎\[【])[^\n]{{0,30}}?(?:{PASSAGE})[ \t#№\[(]*\d",
        r"^[ \t]*(?:\[\d{1,3}\]|【\d{1,3}】|\((?:source|file|url|title)[ \t]*:[^\n]{1,200}\n)",
        rf"^[^\n:：\d]{{0,30}}(?:{PASSAGE})[ \t#№\[(]*\d{{1,3}}[^\n:：]{{0,20}}[:：]",
        rf"^[ \t]*(?:{PASSAGE})[ \t][^\n:：]{{4,100}}[:：][ \t]*\n",
        BRACKETED.pattern,
    )
)
"""Beginnings of passages; the second where a question is apart, those after it where the prompt names one."""
_WIDE_LABEL = re.compile(
    rf"^[^\n:：]{{0,60}}?(?:\b(?:{WIDE})\b|内容|內容|信息|資訊|材料|내용|本文)"
    rf"(?![ \t]*[A-Z\d][ \t*]*[:：])[^\n:：]{{0,40}}(?:[:：][ \t*]*\n|。[ \t]*\n[ \t]*\n)",
    re.IGNORECASE | re.MULTILINE,
)
"""A label that names the context only where another one names the question."""
_ANY_LABEL = re.compile(
    rf"^(?=[^\n]*[:：][ \t*]*\n)[^\w\n]{{0,12}}(?![^\n]{{0,60}}(?:{OTHER}))[^\s:：.!?。(]{{1,30}}"
    r"(?:[ \t][^\s:：.!?。]{1,30}){0,5}[ \t]?[:：][ \t*]*\n"
    r"(?!\s*(?:[-*•]|\(?\d{1,3}[.)])[ \t])",
    re.IGNORECASE | re.MULTILINE,
)
"""A label of any kind of text, followed by one for the question."""
_IN_SENTENCE = re.compile(
    r"\b(?:us(?:e|ing)|based on|given|with|from|по|на|anhand|aus|con|avec|d'après)\b[^\n:：]{0,40}?"
    rf"\b(?:{CONTEXT_INFLECTED}|text\w*|текст\w*|texto|texte)[:：][ \t]*(?P<body>[^\n]{{20,}}?)"
    r"(?=[ ,;]+(?:(?:to|and|,) )?(?:answer|reply|respond)\b|[ \t]*(?:\n|\Z))",
    re.IGNORECASE,
)
"""A context within the sentence that asks."""
_FENCE = re.compile(r"^[ \t]*(?:-{3,}|={3,}|═{3,}|`{3,}|\"{3,}|~{3,})\w*[ \t]*$\n?", re.MULTILINE)
_FENCES_BELOW = re.compile(r'(?:^|\n)[-=═`"\s]+\Z')
_LIST_BEGIN, _LIST_END = re.compile(r"\[\s*(?=['\"{])"), re.compile(r"['\"}]\s*\]")
_MOST_NAMING = 60
"""Characters before a list that are searched for a word for a context."""
_LEAD = re.compile(
    r"\A(?:use|using|consider|here (?:is|are)|the following|answer|respond|используй)\b"
    rf"(?=[^\n]*{CONTEXT_INFLECTED})"
    r"[^\n\d\[]{20,200}[:：][ \t]*\n",
    re.IGNORECASE,
)
"""A sentence below the label that introduces the context, too."""
_LONG_FENCE = 10
"""Characters of a fence that is no rule between passages."""
_ASKING_LABEL = re.compile(
    r"^(?:[^\n:：]{0,40} ?[:：])?[^\n:：.!?？。]{0,80}?(?<![a-zа-я])(?:"
    + QUESTION
    + r")(?![a-z])[^\n:：.!?？。]{0,80}"
    r"(?:[:：][ \t*]*\n?|[\]】=*#-]+[ \t]*\n|】)\s*(?P<asked>[^\s*•<\d-][^\n]{0,300}?)[ \t.]*(?=\n|\Z)",
    re.IGNORECASE | re.MULTILINE,
)
"""A label with such a word among others, and one line."""
_OPENING_QUOTE = re.compile(r"[「『“«\"'](?<![a-zA-Zа-яА-ЯёЁ]')")
_NAMED_BEFORE = re.compile(rf"(?:{QUESTION})(?: about| or task)?\Z", re.IGNORECASE)
_MOST_BEFORE = 30
"""Characters before a quotation that are searched for a word for a question."""
_QUOTATION = re.compile(r"'([^\n]{2,300}?)'(?!\w)|[「『“«\"]([^\n「」『』“”«»\"]{2,300})[」』”»\"]")
_QUOTED_ALONE = re.compile(r"[:：][ \t]*[\"“«]([^\"”»\n]{2,300}[?？])[\"”»]")
_ASKS_LAST = re.compile(
    rf"\b(?:{QUESTION}|{INSTRUCTION})[^\n:：]{{0,40}}[:：][ \t]*([^\n:：]{{2,300}}[?？])\s*\Z", re.IGNORECASE
)
_ANY_ASKS = re.compile(r"^[^\n:：]{1,40}[:：](?:[ \t]*\n)?[ \t]*(?=\S)([^\n]{2,300}[?？])[ \t]*$", re.MULTILINE)
"""A question behind any label."""
_TURN = re.compile(
    rf"^[ \t]*(?!{CONTEXT_INFLECTED})[^\W\d_][\w ]{{0,20}}[:：][ \t]*(?P<asked>[^\n]{{1,300}})"
    r"(?:(?<=[?？])\s*|\n+[ \t]*(?:(?:ai|assistant|bot)\s*|[^\W\d_][\w ]{0,20}[:：]\s*))\Z",
    re.IGNORECASE | re.MULTILINE,
)
"""The last turn of a dialogue that the model continues."""
_ASKED = re.compile(
    rf"(?:^|(?<=。)|(?<=[,.:!?] ))[ \t#*<%=\[]*{QUESTION_LABEL}[ \t*>\]#%=]*(?:[:：>=]|\n)[ \t*]*(.{{1,2000}}?)"
    r"(?=</|\n[ \t]*[-=`]{2,}[ \t]*\n|"
    rf"\n[ \t#*<]*(?:{ANSWER}|(?:\w+ )?(?:{CONTEXT})|</)[^\n]{{0,30}}?(?:[:：>]|\Z)|\n#+ |\n[ \t]*\n|\Z)",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_EXAMPLE = re.compile(
    rf"^[ \t#*]*{QUESTION_LABEL}[ \t*]*[:：][^\n]+\n[\s#*]*(?:{ANSWER})[ \t*]*[:：]\s*[^\s\n][^\n]*\n?",
    re.IGNORECASE | re.MULTILINE,
)
"""A question with its answer; the context of an example precedes it."""
_ANSWERS = re.compile(ANSWER, re.IGNORECASE)
_NAMED_FIRST = re.compile(
    rf"\W*(?:relevant |retrieved )?(?:{CONTEXT_PLURAL})\b[^\n]{{0,80}}[:：]", re.IGNORECASE
)
_NAMED = re.compile(CONTEXT_INFLECTED, re.IGNORECASE)
_FIELD = re.compile(rf"(?:\w+ )?{CONTEXT_INFLECTED}", re.IGNORECASE)
_ASKING_FIELD = re.compile(QUESTION_LABEL, re.IGNORECASE)
_CLOSING = re.compile(
    rf"\n[ \t#*<\[-]*(?:{HISTORY}|{RULES})[ \t*>\]#]*(?:[:：]|-{{3,}})[ \t*]*(?:\n|$)|"
    rf"\n[ \t#*<%\[]*(?:{QUESTION_LABEL}|{ANSWER}|instructions?|(?:your )?task|инструкции|指令|任务"
    r"|(?:关键|重要)提醒|回答(?:要求|规则))[ \t*>\]#%]*(?:[:：]|$)|"
    rf"\n[ \t]*【[^】\n]{{0,10}}?(?:{QUESTION}|{ANSWER}|{HISTORY}|{RULES}|结束)[^】\n]{{0,10}}】|"
    rf"\n[^\w\n]{{0,40}}(?:end(?: of)?|конец|fin de) [^\n]{{0,30}}?"
    rf"(?:{CONTEXT_PLURAL})\b(?![ \t]*\d)[^\n]{{0,40}}$|"
    r"\n[ \t]*(?:given|using|based on|answer|respond|reply|use|if you|include|cite|remember|"
    r"отвечай|ответь|если|wenn du|根据|如果|请)[^\n]*\s*\Z|"
    rf"\n[ \t]*\n[ \t]*(?:{INSTRUCTION})(?![a-zа-я])|"
    r"\n[ \t]*\n[ \t]*(?:if|when|do not|never|always|only|remember) [^\n]{0,300}\b"
    r"(?:above|context|provided|documents?|knowledge)\b[^\n]*\Z|"
    r"\n[ \t]*(?:(?:given|based on|using) (?:the|this|only)|the above (?:is|are)\b|"
    r"(?:请?根据|基于)(?:上述|以上)|以上(?:是|为))[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
"""Its end."""
_CAPITALS = re.compile(
    r"\n[ \t]*\n[ \t]*(?:[A-ZА-ЯЁ][^a-zа-яё\d\n]{2,40}(?:\([^()\n]{0,60}\))?[:：][ \t]*(?:\n|\Z)|"
    r"[A-ZА-ЯЁ]{2,20}(?: [A-ZА-ЯЁ]{2,20})+[:：] [^\n]*"
    r"(?:\s*\Z|(?=\n[ \t]*\n[ \t]*[A-ZА-ЯЁ][^a-zа-яё\d\n]{2,40}[:：])))"
)
_AFTER_QUESTION = re.compile(
    r"[^\n:：]{1,30}[:：]|[ \t]*(?:answer|respond|reply|use|please|if you|do not|"
    r"ответь|отвечай|не|请)(?![a-zа-я])",
    re.IGNORECASE,
)
_OPEN_LABEL = re.compile(
    rf"(?:\n[ \t]*[-=]{{3,}}[ \t]*\n[^\n]{{0,60}}(?<![a-zа-я])(?:{QUESTION})(?![a-zа-я])[^\n]{{0,60}}\n\s*)?"
    r"(?:(?:\A|\n)(?:[^\n:：.。]{0,40}[:：])?[^\n:：]{0,120}(?:[:：][ \t*]*|(?<=[\w ])[\]】=*-]+[ \t]*)\s*)+\Z",
    re.IGNORECASE,
)
"""Labels with nothing behind them."""
_LABEL_IN_LINE = re.compile(rf"(?<=[.!?。»\")\]]) {QUESTION_LABEL}[ \t]*[:：][ \t*]*\Z", re.IGNORECASE)
_SIGNS = ("\n", ":", "：", "<", "[", "【", "{")
"""Every layout has one of these."""
_MOST_ASKED = 2_000
_QUESTION_MARKS = ("?", "？")
_ASKS_FIRST = re.compile(r"\s*[^\n?？]{1,300}[?？](?:[ \t]*\n|[ \t]+(?=\S))")
_MOST_ALONE = 300
"""Maximum characters of a question that follows passages without an introduction."""


def place_in(
    messages: Iterable[Message], question: str | None = None, count: int | None = None
) -> Passages | None:
    """Return the passages at the context's place in a prompt; None if it has no such place.

    Args:
        messages: The messages sent to a model.
        question: The question, which is no passage.
        count: The number of passages, if known: it decides by which layout they are divided.
    """
    places: dict[str, list[Passages]] = {}
    instructions: list[str] = []
    asked: list[str] = []
    for role, text in written_out(messages):
        if role in ("system", "developer"):
            instructions.append(text)
        elif role == "user" and text != question:
            asked.append(text)
        # A model does not ask itself: what it is shown as its own words has to be labelled.
        outer = "" if role == "assistant" else question
        if role != "tool" and (place := _place_in_message(role, text, outer, count)):
            places.setdefault(role, []).append(place)
    alike = max(places.values(), key=lambda each: max(map(_size, each)), default=[])
    if not alike:
        texts = max(instructions, asked, key=len)
        if len(texts) < 2 or not question:
            return None
        whole = "\n\n".join([*texts, f"Question: {question}"])
        return _place_in_message("system", whole, question, count)
    best = max(alike, key=_size)
    found = tuple(item for place in alike for item in place.documents)
    is_whole = len(alike) > 1 and count in (None, len(found))
    # Each message of one role may introduce a passage.
    return Passages(found, is_divided=True) if is_whole and not best.is_divided else best


def _size(place: Passages) -> int:
    return sum(len(item.text or "") for item in place.documents)


def _place_in_message(role: str, text: str, question: str | None, count: int | None) -> Passages | None:
    if not any(sign in text for sign in _SIGNS):  # most messages of a conversation
        return None
    if role == "assistant" and not (_NAMED_FIRST.match(text) or _WRAPPED.search(text)):
        return None
    fields = _fields_of(text)
    if role == "user" and not any(map(_is_asking, fields)):
        fields = {}
    body = None if fields else _context_of(text, (question or "").strip())
    place = _field_place(fields) if body is None else divided(body, count)
    return place if place is not None and _size(place) else None


def question_in_prompt(messages: Sequence[Message]) -> str | None:
    """Return a prompt's question: after its last ``Question:``, beside its context, or all user messages."""
    messages = written_out(messages)
    asked = [text for role, text in messages if role == "user" and text.strip()]
    if not asked:
        return next(filter(None, (_labelled_question(text) for _, text in reversed(messages))), None)
    text = asked[-1]
    fields = _fields_of(text)
    for form in (fields, *(value for value in fields.values() if isinstance(value, dict))):
        for name, value in form.items():
            if isinstance(value, str) and _is_asking(name):
                return _short(value)
    answered = {pair.start() for pair in _EXAMPLE.finditer(text)}
    end = 0 if answered else max(len(text) - _MOST_ASKED, 0)
    places = [place for place in _ASKED.finditer(text[end:]) if place.start() not in answered]
    found = places[-1] if places else None
    last = _last_question(text)
    span = _span_of(text, is_asked=bool(last or _ASKS_FIRST.match(text)))
    is_label = found is not None and not text[: found.start()].strip()
    if found and (span is not None or is_label or len(found[1]) < len(text) // 2):
        line, _, after = found[1].partition("\n")
        line = line.rstrip(" \t.")
        is_over = line.endswith(_QUESTION_MARKS) and _AFTER_QUESTION.match(after)
        return _short(line if is_over else found[1])
    if span is not None or len(text) > _MOST_ALONE:
        labelled = _labelled_question(text)
        if labelled is not None:
            return labelled
    if span is None:
        return _short(text)
    first = _ASKS_FIRST.match(text)
    sides = (
        "" if first is None else first[0].strip(),
        text[: span[0]].strip(),
        re.sub(r"\A\s*</\w+>", "", text[span[2] :]).strip(),
        _last_question(text[span[1] : span[2]]),
    )
    beside = next((side for side in sides if side and not BLANK.search(side)), "")
    if not any(mark in beside for mark in _QUESTION_MARKS):
        paragraphs = {part.strip() for side in sides for part in BLANK.split(side)}
        asking = [part for part in paragraphs if part.endswith(_QUESTION_MARKS)]
        beside = asking[0] if len(asking) == 1 else beside
    above, _, line = beside.rpartition("\n")
    if len(messages) == 1 and line.endswith(_QUESTION_MARKS) and not above.endswith(_QUESTION_MARKS):
        beside = line  # instructions precede it
    if not any(mark in beside for mark in _QUESTION_MARKS):
        beside = next(reversed(_ANY_ASKS.findall(text)), beside)
    quoted = _QUOTED_ALONE.search(beside)
    return _short(beside if quoted is None else quoted[1])


def _labelled_question(text: str) -> str | None:
    """Return the line behind the last label of a question, if it asks or ends the prompt."""
    last = None
    for match in _ASKING_LABEL.finditer(text):
        asked = match["asked"].strip(' \t"“”«»')
        line = _ASKS_FIRST.match(asked)
        if line is not None and _AFTER_QUESTION.match(asked, line.end()):
            asked = line[0].strip()
        rest = text[match.end() :].strip()
        ends = (not rest or _ANSWERS.match(rest) is not None) and asked[-1:] not in (":", "：")
        is_context = _NAMED.search(text, match.start(), match.start("asked")) is not None
        if asked.endswith((*_QUESTION_MARKS, "؟")) or (ends and not is_context):
            last = asked
    if last is not None:
        return last
    tail = text[-_MOST_ASKED:]
    other = _TURN.search(tail) or _ASKS_LAST.search(tail) or _quoted_question(text)
    return None if other is None else next(filter(None, other.groups())).strip()


def _quoted_question(text: str) -> re.Match[str] | None:
    """Return the quotation behind a word for a question."""
    # Quotation marks are found many times faster than words in every spelling.
    for mark in _OPENING_QUOTE.finditer(text):
        start = mark.start()
        before = text[max(start - _MOST_BEFORE, 0) : start].rstrip(" :：")
        if before[-1:].isalpha() and _NAMED_BEFORE.search(before):
            quotation = _QUOTATION.match(text, start)
            if quotation is not None:
                return quotation
    return None


def _last_question(body: str) -> str:
    """Return the last paragraph if it is a question; empty: it is a passage."""
    last = BLANK.split(body.strip())[-1].strip()
    return last if last.endswith(_QUESTION_MARKS) and "\n" not in last and len(last) <= _MOST_ALONE else ""


def _fields_of(text: str) -> Mapping[str, object]:
    """Return the fields of a prompt that is one JSON object; none for any other text."""
    fields = parsed(text.strip())
    return fields if isinstance(fields, dict) else {}


def _is_asking(name: str) -> bool:
    return _ASKING_FIELD.fullmatch(name.replace("_", " ")) is not None


def _field_place(fields: Mapping[str, object]) -> Passages | None:
    """Return the passages under a field with a context's name; of an object its longest text."""
    for name, value in fields.items():
        if _FIELD.fullmatch(name.replace("_", " ")) and (pieces := longest_texts(value)):
            return Passages(pieces, is_divided=isinstance(value, list))
    return None


def _list_in(text: str) -> tuple[int, int, int] | None:
    """Return the place of a list, of JSON or Python, behind a word for a context."""
    begin = _LIST_BEGIN.search(text)
    end = max(_LIST_END.finditer(text), key=re.Match.end, default=None)
    if (
        begin is None
        or end is None
        or not _NAMED.search(text, max(begin.start() - _MOST_NAMING, 0), begin.start())
    ):
        return None
    place = begin.start(), end.end()
    return (place[0], *place) if longest_texts(parsed(text[slice(*place)])) else None


def _short(text: str) -> str | None:
    plain = text.strip(' \t\n"“”«»`')
    return plain if 0 < len(plain) <= _MOST_ASKED else None


def _span_of(text: str, *, is_asked: bool, is_apart: bool = False) -> tuple[int, int, int] | None:
    """Return the begin of the line that introduces the context, and the context's begin and end.

    Args:
        text: A message.
        is_asked: Whether a question is outside of it.
        is_apart: Whether that is in another message.
    """
    is_task = _TASK.match(text) and not (is_asked or _ASKED.search(text) or _labelled_question(text))
    closed = is_closed(text)
    elements = [one for one in ELEMENT.finditer(text) if one[3].strip()] if closed else []
    wrapped = max(_WRAPPED.finditer(text), key=lambda one: len(one[2]), default=None) if closed else None
    # Of several with the same name, each is a passage.
    alike = 0 if wrapped is None else [one[1] for one in elements].count(wrapped[1])
    if wrapped is not None and alike < 2:
        return wrapped.start(), *wrapped.span(2)
    if elements and not is_task:
        return elements[0].start(), elements[0].start(), elements[-1].end()
    for rule in (_LABEL_LINE,) if is_task else (_LABEL_LINE, _LEADING):
        head = rule.search(text)
        if rule is _LABEL_LINE and head is not None:
            # Of labels with almost no text behind them, the last one counts.
            labels = list(rule.finditer(text, head.end()))
            named = [label[0].strip() for label in labels]
            for later, name in zip(labels, named, strict=True):
                weight = weight_of(letters_of(text[head.end() : later.start()]))
                if weight >= LEAST or named.count(name) > 1:  # or it is a field of records
                    break
                head = later
            if head[0].strip() in named and not head[0].endswith("\n"):  # it begins each passage
                return head.start(), head.start(), len(text)
        if head is not None and text[head.end() :].strip():
            return head.start(), head.end(), len(text)
    asks = _ASKED.search(text) or _ASKING_LABEL.search(text)
    names_question = asks or _labelled_question(text)
    introduced = None if is_task else _PARAGRAPH.match(text)
    if introduced and (is_asked or names_question) and text[introduced.end() :].strip():
        asked = _ASKED.match(text, introduced.end())
        return 0, (asked or introduced).end(), len(text)
    if not (is_asked or names_question):
        return None
    headed = next(
        (
            (heads[0].start(), heads[0].start(), len(text))
            for rule in (_HEADS if names_question else _HEADS[: 1 + is_apart])
            if len(heads := list(rule.finditer(text))) > 1
        ),
        None,
    )
    wide = _WIDE_LABEL.search(text) or (asks and _ANY_LABEL.search(text[: asks.start()]))
    if wide and not (headed and headed[0] <= wide.start()):
        return wide.start(), wide.end(), len(text)
    if (listed := _list_in(text) or table_in(text)) is not None:
        return listed
    if names_question and (sentence := _IN_SENTENCE.search(text)):
        return sentence.start(), sentence.start("body"), sentence.end("body")
    fences = list(_FENCE.finditer(text))
    alike_fences = [fence for fence in fences if fence[0].strip() == fences[0][0].strip()]
    if headed is None and len(alike_fences) > 2 and _NAMED.search(text, 0, alike_fences[0].start()):
        return alike_fences[0].start(), alike_fences[0].end(), alike_fences[-1].start()
    return headed


def _context_of(text: str, question: str) -> str | None:
    is_asked = question.endswith(_QUESTION_MARKS)
    is_apart = is_asked and question not in text
    span = None
    examples = list(_EXAMPLE.finditer(text))
    is_faq = bool(question and examples) and 0 <= text.find(question) < examples[0].start()
    if examples and not is_faq:
        after = text[examples[-1].end() :]
        span = _span_of(after, is_asked=is_asked, is_apart=is_apart)
        text = after if span is not None and span[0] < span[1] else text
    if span is None or span[0] == span[1]:
        span = _span_of(text, is_asked=is_asked, is_apart=is_apart)
    if span is None:
        return None
    head, start, end = span
    body = text[start:end]
    at = body.rfind(question) if question else -1
    if at >= 0:
        last = max(at - _MOST_ASKED, 0)
        before = _LABEL_IN_LINE.sub("", body[last:at])
        body = body[:last] + (before if len(before) < at - last else _OPEN_LABEL.sub("", before))
    if label := text[head:start].strip():
        body = body.replace(f"\n{label}\n", "\n---\n")  # it is above each passage
    body = _LEAD.sub("", body, count=1)
    if is_faq:
        return _OPEN_LABEL.sub("", body)
    # A context in capitals ends where the next label is in capitals.
    if (letters := re.sub(r"[\W\d_]", "", text[head:start])) and letters.isupper():
        body = _CAPITALS.split(body, maxsplit=1)[0]
    opening = _FENCE.match(body.lstrip("\n"))
    if opening is not None:
        inner = body.lstrip("\n")[opening.end() :]
        fences = list(_FENCE.finditer(inner))
        same = [fence for fence in fences if fence[0].strip() == opening[0].strip()]
        closing = next(iter(same or fences[-1:]), None)
        # Else each precedes a passage.
        is_pair = len(same) == 1 and len(opening[0].strip()) >= _LONG_FENCE
        if closing is not None and (is_pair or len(_until_closing(inner[closing.end() :])) < LEAST):
            return inner[: closing.start()].strip()
        body = body if same else inner
    body = _until_closing(body)
    below = _FENCES_BELOW.search(body)
    is_code = below is not None and "`" in below[0] and len(_FENCE.findall(body)) % 2 == 0
    return body if below is None or is_code else body[: below.start()].strip()


def _until_closing(body: str) -> str:
    closing = _CLOSING.search("\n" + body)
    return (body if closing is None else ("\n" + body)[: closing.start()]).strip()
