"""Passages in the layout of a text: the parts between separators, elements, headings or names.

Shape only: no framework, no convention and no tool is known here.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from .documents import Document
from .label_words import CONTENT, MARK, PASSAGE, SOURCE
from .letters import letters_of, weight_of
from .literals import parsed
from .records import META, SCORE, id_of, is_lead, records_in


class Passages(NamedTuple):
    """The passages of a text."""

    documents: tuple[Document, ...]
    is_divided: bool
    """Whether separators divide them; else their number is not known."""


ELEMENT = re.compile(
    rf"<((?:{PASSAGE}|data|match|quote|faq|post|chapter)(?:[_-]?\d+)?|\d{{1,3}})\b([^>]*)>"
    r"([^<]*(?:<(?!/?\1\b)[^<]*)*)</\1>",
    re.IGNORECASE,
)
_CHILD = re.compile(r"<([a-z]\w*)\b[^>]*>\n?(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"\s*<([a-z][\w-]*)", re.IGNORECASE)
_ENCLOSED = re.compile(r"\s*<([\w-]+)[^>]*>\n?(.*)</\1>\s*", re.DOTALL)
_MOST_TAGS = 60
"""Tags of an element that is a record."""
_PROSE = frozenset(("p", "b", "i", "em", "strong", "span"))
_ID_ATTRIBUTE = re.compile(r"""\b(?:id|source|name)\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_RULE = re.compile(
    r"^[ \t]*(?:([-=*_#~+<>:═─━])(?:[ \t]?\1){2,}|\|{1,3}|[<\[]\|?[A-Z][A-Z_]{1,19}\|?[>\]]"
    r"|<[bh]r ?/?>|[^\w\n]{1,9}(?:BEGIN|START|END)\b[^\n]{0,60}\W)[ \t]*$|[ \t]\|{2,3}[ \t]",
    re.MULTILINE,
)
_HEADING = re.compile(
    rf"^[ \t]*(?:{MARK}+[ \t]*)?"
    rf"(?:(?:\w+ )?(?:{PASSAGE})[ \t#№\[(]*\d+(?:\.\d+)?[ \t*\])]*"
    r"(?:(?:\([^()\n]{1,80}\)|（[^（）\n]{1,80}）)[ \t]*)?"
    r"(?:[=#*-]{2,}[ \t]*$|[:：.)]+[ \t]*|[—–|·](?=[^\n]{1,100}\n)|$)"
    r"|\[\d+\][ \t:]*|【\d+】[ \t:：]*|\(?\d{1,3}[.)][ \t]+|(?:\d{1,3}[、．]|（\d{1,3}）)[ \t]*"
    r"|\([a-z]\)[ \t]+|[\[(]\d{1,3}(?:[.,]\d+)?%[\])])",
    re.IGNORECASE | re.MULTILINE,
)
_FIRST_HEADING = re.compile(rf"\W*(?:{PASSAGE})[ \t#№\[(]*0*[01]\b", re.IGNORECASE)
_CONTENT_NAME = re.compile(rf"(?:\w+_)?(?:{CONTENT})", re.IGNORECASE)
_NAME_OF_PART = re.compile(rf"(?:\w+_)?(?:{SOURCE}|name|filename|id|link|path|location)", re.IGNORECASE)
"""Names of the elements that an element consists of."""
_DIGITS = re.compile(r"\d+")
_OPENING = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
_DECODER = json.JSONDecoder(strict=False)
_MOST_FAILED = 8
"""Texts in brackets that are no JSON, after which none is looked for."""
_CODE_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_LEADS_ON = re.compile(r"[:：]\s*\Z|\A\s*#{1,6}[ \t][^\n]*\s*\Z")
_LIST_ITEM = re.compile(r"\s*(?:[-*•–—]|\(?\d{1,3}[.)])[ \t]")
"""What continues the paragraph before it; a paragraph that the next one continues."""
BRACKETED = re.compile(
    r"^[ \t]*(?:[=#*-]{2,}[ \t]*)?"
    r"(?:\[(?!\d{1,3}\])(?P<label>[^\n]{1,120}?)\](?:\])?(?!\()|【(?!\d)[^】\n]{1,80}】)",
    re.MULTILINE,
)
"""A line that begins with a label in brackets, and is no link."""
_BETWEEN_RULES = re.compile(
    r"(?<![=*~-])(?P<rule>([=*~-])\2{2,39})(?![=*~-])[ \t]*(?P<label>[^\n=*~]{1,150}?)[ \t]*"
    r"(?P=rule)(?![=*~-])[ \t]*(?:\n|\Z)"
)
"""``--- Note: a.md ---``."""
_FILE_LINE = re.compile(
    r"^[ \t]*(?:(?:\w+ )?from )?(?P<label>[^\s:]{1,100}\.\w{2,5}(?:#[^\s:]{1,60})?)(?: \([^()\n]{1,40}\))?"
    r"(?::[ \t]+|:?[ \t]*\n)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that begins with the name of its file, or has nothing else."""
_QUOTED = re.compile(r'^[ \t]*(["`~]{3,})(\w*)[ \t]*\n(.*?)(?:\n[ \t]*\1|\Z)', re.MULTILINE | re.DOTALL)
_NO_NAME = re.compile(r"\A(?:.{200}|\W*|(?:[-*•|>]|#+ ).*|.*[.!?。！？,，;；][\"'”»]*)\n|\A.*\n\s*[a-zа-яё]")
"""A first line that is a sentence, or goes on in the next line."""
_REFERENCE = re.compile(r"https?:|\.\w{2,5}\b|[|《#=:：\d]")
"""What a name has that refers to a file, a page or a place."""
_BOLD = re.compile(r"^[ \t]*(?:[^\w\n]{1,3}[ \t]*)?\*\*(?P<label>[^*\n]{1,120})\*\*[^\n]{0,80}\n", re.MULTILINE)
_TITLE = re.compile(r"^(#{1,6})[ \t]+(?P<label>[^\n]+)\n", re.MULTILINE)
_LISTED = r"\(?(?:[A-Za-z]|[IVX]{1,5}|[ivx]{1,5})[.)]"
_MARK = re.compile(
    r"\s*(?P<mark>[^\w\s\"'“”«»(){}\[\]<>/\\|$+#&%@:;,.]{1,4}|[=-]{1,3}>"
    rf"|(?P<listed>{_LISTED})"
    r"|[(\[][^\W\d_]{1,20}[ \t]*[:=]?[ \t]*\d[\d.,]{0,10}%?[)\]]"
    r"|(?=\S*[^\W\d_]|\()[^\s\d]{0,20}\d\S{0,20}[:：.)\]>])[ \t]+(?=\S)"
)
"""A bullet, a sign, a letter or a number before a text: ``→``, ``IV.``, ``chunk_17a:``, ``(score=0.8)``."""
_NUMBER = re.compile(r"[\da-f]*\d[\da-f.]*")
_IN_QUOTES = re.compile(r"«+\s*([^«»]*?)\s*»+")
"""A passage as DSPy writes it into a prompt."""
_QUOTE_LINE = re.compile(r"^[ \t]*>(?: |$)", re.MULTILINE)
_TRAILER = re.compile(
    rf"\n[ \t(\[*_-]*(?:(?:{SOURCE}|{SCORE})[ \t*_]*[:：]|[—–])[ \t*_]*(?P<label>[^\n]{{1,150}}?)[)\]*_]*\s*\Z|"
    r"[ \t]?[(（](?:source|extracted from|from|page|p\.|стр\.|источник|来源|出处)[ \t:：]*"
    r"(?P<name>[^()（）\n]{1,100})[)）][ \t]*\Z",
    re.IGNORECASE,
)
"""The last line of a passage, with its source."""
_TEMPLATE_LINE = re.compile(r"[^\w\s](?=.*\w).*[^\w\s]|.*[:：]")
_TO_THE_MODEL = re.compile(
    r"\b(?:answer|question|respond|cite|citations?|search results|provided|context)\b|"
    r"ответь|отвечай|вопрос|回答|问题",
    re.IGNORECASE,
)
"""An instruction."""
_ABOUT_ABOVE = re.compile(r".{0,300}(?:\babove\b|выше|以上|上述).*", re.IGNORECASE)
_BESIDE = re.compile(
    rf"(?:<b>[^<\n]{{1,150}}</b>|[(（][^()（）\n]{{1,80}}[)）]|(?:[-*•] )?(?:{CONTENT})[:：])[ \t]*",
    re.IGNORECASE,
)
"""A name or a label in the line with which a passage begins."""
_AFTER_NUMBER = r"(?:[.,]\d{1,9})*[)\]]*[ \t]*(?:[|:：.]|->|→|[–—-](?=[ \t])|(?=\[|\t)|$)[ \t]*"
_NUMBERED = re.compile(
    rf"\s*(?P<before>[^\d\n.!?]{{1,24}}?)\d{{1,9}}(?:{_AFTER_NUMBER}|(?<=[#№]\d)[ \t]+|(?<=[#№]\d\d)[ \t]+)",
    re.MULTILINE,
)
"""The beginning of a numbered passage: ``Doc-1 | a.md``, ``Hit (0.83):``, ``#1``."""
_NAME_LINE = re.compile(r"(\w+)[^\n:：]{0,80}[:：][ \t]*\n")
_DASH_LINE = re.compile(r"^[ \t]*[—–]", re.MULTILINE)
_FIELD_NAME = re.compile(r"\s*([^\W\d_][^\d\n:：]{0,30}?)((?<= )[A-ZА-Я]|\d{1,9}[^\d\n:：]{0,20})?[:：]")
BLANK = re.compile(r"\n[ \t]*\n")
_WIDE_BLANK = re.compile(r"\n(?:[ \t]*\n){2,}")
"""Between passages whose paragraphs have one blank line between them."""
_LABEL = re.compile(r"\A\[([^\]\n]{1,200})\](?!\()[ \t:]*\n?(?=\S)")
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


def pieces_of(text: str, separator: str | None = None) -> Iterator[Document]:
    """Yield the passages in a text: between separators, elements, rules, headings or blank lines.

    Args:
        text: The text; one short line stating that nothing was found has no passages.
        separator: Regular expression of the text between two passages.
    """
    if separator is not None:
        yield from map(_labelled, filter(str.strip, _between(re.compile(separator).finditer(text), text)))
        return
    if not (plain := text.strip()) or (len(plain) <= 100 and _NOTHING.fullmatch(plain)):
        return
    if len(_QUOTE_LINE.findall(text)) == sum(map(bool, map(str.strip, text.split("\n")))):
        text = _QUOTE_LINE.sub("", text)
    if records := records_in(text):
        yield from records
        return
    rules = (_FILE_LINE, BRACKETED, _BETWEEN_RULES, _BOLD)
    kinds = [heads for rule in rules if (heads := _heads_by(rule, text))]
    heads = min(kinds, key=lambda one: one[0].start(), default=[])
    if heads := heads or _titles_in(text) or _metadata_in(text):
        ends = [*(head.start() for head in heads[1:]), len(text)]
        parts = [text[head.end() : end] for head, end in zip(heads, ends, strict=True)]
        named = [] if heads[0][0].endswith("\n") else _named_parts(parts)
        named = named or [(head["label"] or "", part) for head, part in zip(heads, parts, strict=True)]
        for name, part in named:
            inner = part.strip(" \t\n-=━═:")
            fenced = _QUOTED.fullmatch(inner)
            yield Document(inner if fenced is None or fenced[2] else fenced[3], id_of(name))
        return
    elements = (_siblings_in(text) or list(ELEMENT.finditer(text))) if is_closed(text) else []
    if len(elements) == 1 and _RULE.search(elements[0][3]):
        text = elements[0][3].strip()  # it encloses all of them
    elif elements:
        yield from filter(lambda item: item.text, map(_within, elements))
        return
    quotes = list(_QUOTED.finditer(text))
    # One that nothing closes, below other text, is a rule.
    is_rule = len(quotes) == 1 and quotes[0].start() > 0 and not quotes[0][0].endswith(quotes[0][1])
    quoted = [] if is_rule else [(match[2], match[3].strip()) for match in quotes]
    if 2 * sum(len(inner) for _, inner in quoted) > len(text) and not any(language for language, _ in quoted):
        yield from (_labelled(inner) for _, inner in quoted if inner)
        return
    repeated = [rule for rule in _beginnings_of(text) if _divides(rule, text)]
    for rule in (_RULE, _HEADING, *repeated, _WIDE_BLANK, BLANK):
        if places := _places_of(rule, text):
            yield from _parts_between(rule, places, text)
            return
    yield _labelled(text)


def _siblings_in(text: str) -> list[re.Match[str]]:
    """Return the elements of one name that a text consists of, other than paragraphs."""
    first = _TAG.match(text)
    if first is None or first[1].casefold() in _PROSE:
        return []
    sibling = re.compile(rf"<({first[1]})\b([^>]*)>(.*?)</{first[1]}>", re.IGNORECASE | re.DOTALL)
    end = text.rfind(f"</{first[1]}>") + len(first[0]) + 2  # no element is looked for that nothing closes
    found = list(sibling.finditer(text, 0, end))
    return found if len(found) > 1 and not "".join(_between(found, text)).strip() else []


def _within(element: re.Match[str]) -> Document:
    """Return the passage in an element: its content, or of its parts with a content's name the longest."""
    named = _ID_ATTRIBUTE.search(element[2])
    parts: dict[str, str] = dict(_CHILD.findall(element[3])) if element[3].count("<") < _MOST_TAGS else {}
    contents = [name for name in parts if _CONTENT_NAME.fullmatch(name) or name.casefold() == "description"]
    if not contents:
        return Document(element[3].strip(), named[1] if named else None)
    passage = max(contents, key=lambda name: len(parts[name]))
    name = next((one for key, one in parts.items() if key != passage and _NAME_OF_PART.fullmatch(key)), None)
    return Document(parts[passage].strip(), named[1] if named else name and id_of(name))


def _places_of(rule: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return the matches of a rule that divide a text; none if it divides the passages, too."""
    places = list(rule.finditer(text))
    if rule in (BLANK, _WIDE_BLANK):
        fences = [fence.start() for fence in _CODE_FENCE.finditer(text)]
        return [place for place in places if bisect_right(fences, place.start()) % 2 == 0]
    if rule is not _HEADING or not places:
        return places
    form = _form_of(places[0])
    places = [place for place in places if _form_of(place) == form]
    if form not in ("", "("):
        return places
    numbers = [int(number[0]) for place in places if (number := _DIGITS.search(place[0]))]
    paragraphs = BLANK.split(text.strip())
    paragraphs = paragraphs[1 if is_lead(paragraphs[0]) else 0 :]
    # Else a list is in a passage.
    in_order = numbers == sorted({*numbers})
    return places if in_order and _begins_parts(rule, [*map(str.lstrip, paragraphs)], len(places)) else []


def _form_of(heading: re.Match[str]) -> str:
    """Return what precedes the number of a heading."""
    return re.split(r"\d|(?<=\()[a-z](?=\))", heading[0], maxsplit=1)[0].strip().casefold()


def _parts_between(rule: re.Pattern[str], places: list[re.Match[str]], text: str) -> Iterator[Document]:
    """Return the parts between the places of a rule, without their headings."""
    parts = [part for part in _between(places, text) if part.strip()]
    is_before = bool(text[: places[0].start()].strip()) and _FIRST_HEADING.match(places[0][0])
    if len(parts) > 1 and (is_before or is_lead(parts[0])):
        del parts[0]
    starts = [at for at, part in enumerate(parts) if not at or part[:2].isspace()]
    if rule is BLANK and 1 < len(starts) < len(parts):  # the template indents the begin of each passage
        parts = ["\n\n".join(parts[start:end]) for start, end in pairwise([*starts, len(parts)])]
    if rule is BLANK and (
        any(map(_LEADS_ON.search, parts)) or len({*map(bool, map(_LIST_ITEM.match, parts))}) > 1
    ):
        return iter((_labelled(text),))  # blank lines are within passages
    if rule in (_RULE, _WIDE_BLANK, BLANK):
        parts = [part.lstrip() for part in parts]
        heads = [head for part in parts if (head := _HEADING.match(part))]
        if len(heads) < len(parts):
            return map(_labelled, parts)
        parts = [part[head.end() :] for part, head in zip(parts, heads, strict=True)]
    if named := _named_parts(parts):
        return (Document(body.strip(), id_of(name)) for name, body in named)
    return map(_labelled, parts)


def _named_parts(parts: Iterable[str]) -> list[tuple[str, str]]:
    """Return name and text of passages whose mark is followed by a name in its line, or nothing."""
    named = [part.partition("\n") for part in parts]
    lines = [(name.strip(" \t:："), body.strip(" \t")) for name, _, body in named]
    is_named = all(name and body.strip() and not _NO_NAME.search(f"{name}\n{body}") for name, body in lines)
    longest = sum(max(map(len, body.split("\n"))) for _, body in lines)
    is_short = 2 * sum(len(name) for name, _ in lines) < longest
    return lines if is_named and (is_short or all(_REFERENCE.search(name) for name, _ in lines)) else []


def _beginnings_of(text: str) -> Iterator[re.Pattern[str]]:
    """Yield rules for the label, mark, number or line with which a text, and other passages, may begin."""
    if label := _FIELD_NAME.match(text):  # ``Passage 1: ``
        count = label[2] or ""
        if count:
            count = "[A-ZА-Я]" if count.isalpha() else r"\d{1,9}" + re.escape(count.lstrip("0123456789"))
        yield re.compile(rf"^[ \t]*{re.escape(label[1])}{count}[:：][ \t]*", re.MULTILINE)
    if mark := _MARK.match(text):
        sign = _LISTED if mark["listed"] else r"[\da-f.]+".join(map(re.escape, _NUMBER.split(mark["mark"])))
        yield re.compile(rf"^[ \t]*{sign}[ \t]+(?=\S)", re.MULTILINE)
    if number := _NUMBERED.match(text):  # ``Doc-1 | a.md``
        after = r"(?![^\W_])[ \t]*" if number["before"][-1] in "#№" else _AFTER_NUMBER
        yield re.compile(rf"^[ \t]*{re.escape(number['before'])}\d{{1,9}}{after}", re.MULTILINE)
    if line := _NAME_LINE.match(text):  # ``Result 1 of 2:``
        yield re.compile(rf"^{line[1]}\b[^\n:：]{{0,80}}[:：][ \t]*\n", re.MULTILINE)


def _divides(rule: re.Pattern[str], text: str) -> bool:
    count = len(rule.findall(text))
    return count > 1 and _begins_parts(rule, BLANK.split(text.strip()), count)


def _begins_parts(rule: re.Pattern[str], paragraphs: Sequence[str], count: int) -> bool:
    """Return whether a rule's matches begin the first and other paragraphs, or lines of a single one."""
    begun = [rule.match(one) is not None for one in paragraphs]
    return begun[0] and (len(begun) == 1 or sum(begun) == count)


def is_closed(text: str) -> bool:
    """Return whether elements are closed: for each unclosed one the text would be searched to the end."""
    return 0 < text.count("<") <= 4 * text.count("</") + 8


def _heads_by(rule: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return the lines with which passages begin, two or more, or one file name; none after other text."""
    heads = list(rule.finditer(text))
    leads = len(heads) > 1 and is_lead(text[: heads[0].start()])
    return heads if leads or (heads and rule is _FILE_LINE and heads[0].start() == 0) else []


def _metadata_in(text: str) -> list[re.Match[str]]:
    """Return the lines of metadata above each passage, from the first line on, or nothing."""
    heads = list(META.finditer(text))
    first = heads[0] if heads else None
    if first is None or text[: first.start()].strip() or first["key"] is None:
        return []
    heads = [head for head in heads if head[0].lstrip().startswith(first[0].lstrip().partition(":")[0])]
    return heads if len(heads) > 1 else []


def _titles_in(text: str) -> list[re.Match[str]]:
    """Return the headings that each name a part, all of one level from the first line on."""
    titles = list(_TITLE.finditer(text))
    are_names = (
        len({title[1] for title in titles}) == 1 < len(titles)
        and not text[: titles[0].start()].strip()
        and _HEADING.match(text.lstrip()) is None
    )
    return titles if are_names else []


def _between(places: Iterable[re.Match[str]], text: str) -> Iterator[str]:
    """Yield the text between matches; groups in the user's expression are ignored."""
    start = 0
    for match in places:
        if match.end() > match.start():
            yield text[start : match.start()]
            start = match.end()
    yield text[start:]


def _labelled(text: str) -> Document:
    label = _LABEL.match(text.strip())
    if label is None or label[1].isdigit():
        return Document(text.strip())
    return Document(text.strip()[label.end() :], id_of(label[1]))


LEAST = 20
"""Minimum letters of a passage."""


def divided(body: str, count: int | None = None) -> Passages:
    """Return the passages of a text that contains nothing else; their number, if known, decides the layout."""
    if (enclosed := _ENCLOSED.fullmatch(body)) and not (ELEMENT.match(body.lstrip()) or _siblings_in(body)):
        body = enclosed[2].strip()
    value = parsed(body)
    listed = longest_texts(value)
    if listed and (count is None or len(listed) == count):
        return Passages(listed, is_divided=isinstance(value, list))
    if objects := _objects_in(body) if count is None else ():
        return Passages(objects, is_divided=True)
    pieces = [piece for piece in pieces_of(body) if piece.text]
    if count is None and len(closed := _closed_by_sources(pieces, body)) > 1:
        pieces = closed
    pieces = [piece for piece in pieces if META.fullmatch(piece.text or "") is None] or pieces
    texts = [META.sub("", text, count=1) if META.match(text := piece.text or "") else text for piece in pieces]
    if all(quoted := [_IN_QUOTES.fullmatch(text) for text in texts]):
        texts = [match[1] for match in quoted if match]
    texts = _without_template(texts) if len(texts) > 1 else texts
    trailers = [trailer for text in texts if (trailer := _TRAILER.search(text))]
    are_lists = any(len(_DASH_LINE.findall(text)) > 1 for text in texts)
    if 1 < len(texts) == len(trailers) and not are_lists:
        texts = [trailer.string[: trailer.start()] for trailer in trailers]
        names = [
            piece.id or id_of(one["label"] or one["name"]) for piece, one in zip(pieces, trailers, strict=True)
        ]
        pieces = [piece._replace(id=name) for piece, name in zip(pieces, names, strict=True)]
    # The last one may be an order to the model, which `_without_template` leaves out.
    whole = [piece._replace(text=text.strip()) for piece, text in zip(pieces, texts, strict=False)]
    if count is not None and len(whole) != count:
        for rule in (BLANK, re.compile(r"\n(?=[ \t]*[-*•] )"), re.compile(r"\n"), _RULE):
            parts = [part.strip() for part in _between(rule.finditer(body), body) if part.strip()]
            if len(parts) == count:
                return Passages(tuple(map(Document, parts)), is_divided=True)
        return Passages(tuple(whole), is_divided=False)
    if count is None:
        whole = [piece for piece in whole if weight_of(letters_of(piece.text or "")) >= LEAST]
    is_marked = bool(
        ELEMENT.search(body) or (_HEADING.match(body) and _places_of(_HEADING, body)) or records_in(body)
    )
    return Passages(tuple(whole), is_divided=len(whole) > 1 or is_marked or count == 1)


def _closed_by_sources(paragraphs: Sequence[Document], body: str) -> list[Document]:
    """Return passages that each end with the paragraph that has their source.

    None if another mark than a blank line is between paragraphs, or the last one has no source.
    """
    texts = [piece.text or "" for piece in paragraphs]
    shown = body[body.find(texts[0]) : body.rfind(texts[-1]) + len(texts[-1])] if texts else ""
    if any(piece.id for piece in paragraphs) or "".join(shown.split()) != "".join("".join(texts).split()):
        return []
    passages, held = list[Document](), list[str]()
    for text in texts:
        held.append(text)
        if _TRAILER.search(f"\n{text}") and len(_DASH_LINE.findall(text)) < 2:
            passages.append(Document("\n\n".join(held)))
            held.clear()
    return [] if held else passages


def _objects_in(body: str) -> tuple[Document, ...]:
    """Return the passages of lists and objects of JSON at begins of lines, if there is little else."""
    found: list[Document] = []
    size = end = failed = 0
    for place in _OPENING.finditer(body):
        if place.end() < end or failed > _MOST_FAILED:
            continue
        try:
            value, end = _DECODER.raw_decode(body, place.end())
        except (ValueError, RecursionError):
            failed += 1
            continue
        size += end - place.end()
        if isinstance(value, list):
            found += longest_texts(value)
        else:
            texts = [text for name, text in value.items() if _CONTENT_NAME.fullmatch(name)]
            found += longest_texts(texts[0]) if texts else ()
    return tuple(found) if 2 * size > len(body) else ()


def _without_template(texts: list[str]) -> list[str]:
    """Return passages without the lines that a template writes above or below each, and orders to the model."""
    for end in (0, -1):
        lines = [text.strip().split("\n")[end] for text in texts]
        if len({_DIGITS.sub("0", line) for line in lines}) == 1 and _TEMPLATE_LINE.fullmatch(lines[0].strip()):
            remove = str.removeprefix if end == 0 else str.removesuffix
            texts = [remove(text.strip(), line).strip() for text, line in zip(texts, lines, strict=True)]
    for rule in (_HEADING, _FILE_LINE, _BESIDE):
        heads = [head for text in texts if (head := rule.match(text))]
        if len(heads) == len(texts):
            texts = [head.string[head.end() :] for head in heads]
    for at, end in ((0, 0), (-1, 2)):  # of the first what is above a blank line, of the last what is below
        sides = texts[at].strip().partition("\n\n")
        others = texts[1:] if at == 0 else texts[:-1]
        if (
            _TO_THE_MODEL.search(sides[end])
            and sides[1]
            and not any(BLANK.search(one.strip()) for one in others)
        ):
            texts[at] = sides[2 - end]
    is_order = _ABOUT_ABOVE.fullmatch(texts[-1]) and _TO_THE_MODEL.search(texts[-1])
    return texts[:-1] if is_order else texts


_MAX_DEPTH = 4


def longest_texts(value: object) -> tuple[Document, ...]:
    """Return the passages of a list, or of one item: of an object, its longest text."""
    pieces: list[Document] = []
    for item in value if isinstance(value, list) else [value]:
        text = max(_strings_in(item), key=len, default="")
        pieces += [Document(text.strip())] if text.strip() else []
    return tuple(pieces)


def _strings_in(value: object, depth: int = 0) -> Iterator[str]:
    """Yield the strings in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)) and depth < _MAX_DEPTH:
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings_in(one, depth + 1)
