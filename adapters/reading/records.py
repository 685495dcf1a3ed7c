"""Records in a text: rows of a table, lines of ``key: value``, and the names of passages."""

from __future__ import annotations

import csv
import io
import re
from itertools import islice, pairwise

from .documents import Document
from .label_words import CONTENT, CONTEXT_INFLECTED, PASSAGE, SOURCE
from .letters import letters_of, weight_of

_FIELD_LINE = re.compile(
    r"^[ \t]*(?:[-*•] +)?(?P<key>[^\W\d_][\w ]{1,20}?)[ \t]*(?::(?=\s)|：)[ \t]*(?:[|>]-?(?=[ \t]*\n))?",
    re.MULTILINE,
)
"""A line of a record: ``title: Parking``."""
_NAME = re.compile(rf"{SOURCE}|name|id|link|path", re.IGNORECASE)
_CONTENT = re.compile(CONTENT, re.IGNORECASE)
SCORE = "score|relevance|similarity|distance|rank|confidence|оценка|сходство|релевантность|相关度|相似度|得分"
META = re.compile(
    r"(?:^[ \t(├└│─]*(?:(?P<key>[a-z]+(?:_[a-z]+)+|(?:(?:chunk|page|section|source|file) )?"
    rf"(?:(?:{SOURCE}){{1,2}}|name|sourcedoc\w+|filename|index|author|date|page|id|number|{SCORE}|section|heading|"
    r"category|language|timestamp|тип|период|ревизия|категория))"
    rf"[ \t]*[:=：](?P<label>[^\n]{{0,200}}?)|(?:{CONTENT})[ \t]*[:：][ \t]*)"
    rf"(?:\n|\Z|[ \t]*\|[ \t]*(?=(?:{CONTENT})[:：])))+(?:[ \t]*(?:{CONTENT})[ \t]*[:：][ \t]*)?",
    re.IGNORECASE | re.MULTILINE,
)
"""Lines of metadata above a passage."""
_LABEL_NAME = re.compile(rf"\A(?:{PASSAGE}|file|url|title|id)\b[^:：\n]{{0,20}}[:：][ \t]*", re.IGNORECASE)
_SCORED = re.compile(rf"(?:{SCORE})[ \t:=：]*-?[\d.,%]+|[\d:.,/ T-]+", re.IGNORECASE)
_ORDINAL = re.compile(rf"(?:(?:{PASSAGE}|\w{{1,20}}[ \t#№]) *)?[#№]?\d{{1,3}}", re.IGNORECASE)
_NAMES_CONTEXT = re.compile(CONTEXT_INFLECTED + r"\.\Z", re.IGNORECASE)
_TABLE = re.compile(
    r"^[ \t]*\|(?P<names>[^\n]+)\|[ \t]*\n[ \t]*\|[ \t:|-]+\|[ \t]*\n(?:[ \t]*\|[^\n]+\|[ \t]*(?:\n|\Z))+",
    re.MULTILINE,
)
_DIGITS = re.compile(r"\d+")
_LINE = re.compile(r"^.*\S.*$", re.MULTILINE)
_COLUMN = re.compile(r"[\w #()./-]{1,30}")


def table_in(text: str) -> tuple[int, int, int] | None:
    """Return the place of a Markdown table with a column of texts, or None."""
    table = _TABLE.search(text)
    if table is None or not any(map(_CONTENT.fullmatch, _cells(table["names"]))):
        return None
    return table.start(), table.start(), table.end()


def _cells(row: str, mark: str = "|") -> list[str]:
    return [cell.strip(" \t,") for cell in row.strip(" \t|").split(mark)]


def _delimited_in(text: str) -> tuple[int, list[dict[str, str]]]:
    """Return the place and the rows of a table in Markdown or with columns between commas, bars or tabs."""
    for line in islice(_LINE.finditer(text), 2):
        mark = next((one for one in "|\t," if one in line[0]), ",")
        names = _cells(line[0], mark)
        if len(names) < 2 or not all(map(_COLUMN.fullmatch, names)):
            continue
        rest = text[line.end() :]
        if mark == "|":
            rest = re.sub(r"^[ \t]*\||^[ \t|:-]+$|\|[ \t]*$", "", rest, flags=re.MULTILINE)
        quote = "\x1f" if mark == "|" else '"'  # Markdown knows none
        try:
            cells = [*csv.reader(io.StringIO(rest), delimiter=mark, quotechar=quote, skipinitialspace=True)]
        except csv.Error:
            continue
        rows = [[cell.strip(" \t") for cell in row] for row in cells if any(map(str.strip, row))]
        if rows and all(len(row) == len(names) for row in rows):
            return line.start(), [dict(zip(names, row, strict=True)) for row in rows]
    return 0, []


def records_in(text: str) -> list[Document]:
    """Return the rows of a table, or the records in lines of ``key: value``.

    The passage of each is its content, else its longest field.
    """
    start, rows = _delimited_in(text)
    is_table = bool(rows)
    if not rows:
        start, rows = _keyed_lines_in(text)
    lead = _DIGITS.sub("0", text[:start].strip())
    if not rows or not is_lead(lead) or (lead and _DIGITS.sub("0", text).count(lead) > 1):
        return []  # it is above each record
    contents = [key for key in rows[0] if _CONTENT.fullmatch(key)]
    passage = max(contents or rows[0], key=lambda key: sum(weight_of(letters_of(row[key])) for row in rows))
    ids = [key for key in rows[0] if _NAME.fullmatch(key) and key != passage]
    if not (ids and contents if len(rows) < 2 and not is_table else ids or contents):
        return []
    return [
        Document(row[passage], next((id_of(row[key].partition("\n")[0]) for key in ids), None)) for row in rows
    ]


def _keyed_lines_in(text: str) -> tuple[int, list[dict[str, str]]]:
    """Return the place of the first line of ``key: value``, and records of the keys that recur in each."""
    lines = list(_FIELD_LINE.finditer(text))
    starts = [at for at, line in enumerate(lines) if line["key"] == lines[0]["key"]]
    records = [
        {line["key"]: line for line in reversed(lines[at:end])} for at, end in pairwise([*starts, len(lines)])
    ]
    keys = set.intersection(*map(set, records)) if records else set()
    for at, key in enumerate(first := [key for key in reversed(records[-1]) if key in keys] if records else []):
        if _CONTENT.fullmatch(key):  # what follows it belongs to it, but for names
            keys -= {one for one in first[at + 1 :] if not META.match(f"{one}:") and not _NAME.fullmatch(one)}
            break
    if len(keys) < 2 or (len(records) == 1 and len(lines) > len(keys)):  # others repeat in it
        return 0, []
    kept = [line for record in records for line in reversed(record.values()) if line["key"] in keys]
    kept.sort(key=re.Match.start)
    ends = [*(line.start() for line in kept[1:]), len(text)]
    fields = [
        (line["key"], text[line.end() : end].strip(" \t\n-=")) for line, end in zip(kept, ends, strict=True)
    ]
    size = len(keys)
    return kept[0].start(), [dict(fields[at : at + size]) for at in range(0, len(fields), size)]


def is_lead(text: str) -> bool:
    """Return whether a text is empty or announces passages, as "Found 2 results:"."""
    plain = text.strip()
    return not plain or (
        len(plain) < 100 and (plain.endswith((":", "：")) or _NAMES_CONTEXT.search(plain) is not None)
    )


def id_of(label: str) -> str | None:
    """Return the name in a label; None for a count or score, as "Document 1 | score: .8"."""
    for part in re.split(r" ?[|·] ?", label.strip(" \t[]【】")):
        name = _LABEL_NAME.sub("", part, count=1).strip()
        if name and not _ORDINAL.fullmatch(name) and not _SCORED.fullmatch(name):
            return name
    return None
