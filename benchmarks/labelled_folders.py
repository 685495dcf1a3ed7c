"""Answers with people's labels, from the folders of nine public sets as their authors publish them.

`verdict_elsewhere` measures on them; none of their rows is part of this repository. A set is recognised by
its files' names and fields, so any folder may contain any of them. Rows in ragmeter's form
(`LabelledAnswer`'s fields, JSON lines, packed or not) are read, too.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PASSAGE = re.compile(r"(?:^|\n)\s*passage \d+:", re.IGNORECASE)
_MOST = 30_000_000
"""Maximum characters of a file that is read; a larger one has no labels of these sets."""


@dataclass(frozen=True)
class LabelledAnswer:
    """One answer with people's label."""

    set: str
    question: str | None
    contexts: tuple[str, ...]
    answer: str
    bad: bool | None
    """Unfaithful, by people; in ``retrieval`` rows: the contexts do not contain the answer."""
    group: str
    """Identifies answers about one source, which are resampled together."""
    kind: str = "support"
    model: str | None = None
    spans: tuple[tuple[int, int], ...] = ()
    """Places of the answer that people marked as unfaithful."""
    answerability: str | None = None


def labelled_answers(folder: Path) -> dict[str, list[LabelledAnswer]]:
    """Return all rows below a folder, or of one file, by set."""
    found: dict[str, list[LabelledAnswer]] = {}
    files = [folder] if folder.is_file() else sorted(p for p in folder.rglob("*") if p.is_file())
    for path in files:
        for row in _rows(path):
            found.setdefault(row.set, []).append(row)
    return found


def _rows(path: Path) -> Iterator[LabelledAnswer]:
    if path.name.startswith("begin_") and path.suffix == ".tsv":
        yield from _begin(path)
    elif path.name == "response.jsonl":
        yield from _ragtruth(path)
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        for record in _json_lines(path):
            row = _row(record, path)
            if row is not None:
                yield row
    elif path.suffix == ".json" and path.stat().st_size < _MOST:
        content = json.loads(path.read_text("utf-8"))
        records = content.get("samples", []) if isinstance(content, dict) else content
        for record in records if isinstance(records, list) else ():
            row = _row(record, path) if isinstance(record, dict) else None
            if row is not None:
                yield row


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    reader = gzip.open if path.suffix == ".gz" else open
    with reader(path, "rt", encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


def _row(record: dict[str, Any], path: Path) -> LabelledAnswer | None:
    """Return one record, read by the fields that only its set has."""
    for fields, read in _READERS.items():
        if record.keys() >= set(fields.split()):
            return read(record, path)
    return None


def _own(record: dict[str, Any], path: Path) -> LabelledAnswer:
    del path
    bad = record.get("bad")
    return LabelledAnswer(
        set=record["set"],
        question=record.get("question"),
        contexts=tuple(record["contexts"]),
        answer=record["answer"],
        bad=None if bad is None else bool(bad),
        group=str(record["group"]),
        kind=record.get("kind", "support"),
        model=record.get("model"),
        spans=tuple((span[0], span[1]) for span in record.get("spans") or ()),
        answerability=record.get("answerability"),
    )


def _begin(path: Path) -> Iterator[LabelledAnswer]:
    name = "begin_test" if "test" in path.name else "begin_dev"
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield LabelledAnswer(
                set=name,
                question=row["message"],
                contexts=(row["knowledge"],),
                answer=row["response"],
                bad=row["begin_label"] != "Fully attributable",
                group=row["knowledge"][:80],
                model=row.get("model"),
            )


def _ragtruth(path: Path) -> Iterator[LabelledAnswer]:
    sources = {one["source_id"]: one for one in _json_lines(path.with_name("source_info.jsonl"))}
    for response in _json_lines(path):
        source = sources[response["source_id"]]
        if source["task_type"] != "QA" or response["split"] != "test":
            continue
        info = source["source_info"]
        yield LabelledAnswer(
            set="ragtruth_qa",
            question=info["question"],
            contexts=tuple(part.strip() for part in _PASSAGE.split(info["passages"]) if part.strip()),
            answer=response["response"],
            bad=bool(response["labels"]),
            group=response["source_id"],
            model=response["model"],
            spans=tuple((label["start"], label["end"]) for label in response["labels"]),
        )


def _faithbench(record: dict[str, Any], path: Path) -> LabelledAnswer:
    del path
    marked = [
        note
        for note in record.get("annotations") or ()
        if any(not label.startswith("Benign") for label in note["label"])
    ]
    return LabelledAnswer(
        set="faithbench",
        question=None,
        contexts=(record["source"],),
        answer=record["summary"],
        bad=bool(marked),
        group=record["source"][:80],
        model=record["metadata"]["summarizer"],
        spans=tuple((note["summary_start"], note["summary_end"]) for note in marked),
    )


def _qags(record: dict[str, Any], path: Path) -> LabelledAnswer:
    answer, spans = "", []
    for sentence in record["summary_sentences"]:
        said_no = sum(one["response"] == "no" for one in sentence["responses"])
        start = len(answer)
        answer += sentence["sentence"].strip() + " "
        if said_no * 2 > len(sentence["responses"]):
            spans.append((start, len(answer) - 1))
    return LabelledAnswer(
        set="qags_xsum" if "xsum" in path.name else "qags_cnn",
        question=None,
        contexts=(record["article"],),
        answer=answer.strip(),
        bad=bool(spans),
        group=record["article"][:80],
        spans=tuple(spans),
    )


def _summedits(record: dict[str, Any], path: Path) -> LabelledAnswer:
    del path
    return LabelledAnswer(
        set="summedits",
        question=None,
        contexts=(record["doc"],),
        answer=record["summary"],
        bad=not record["label"],
        group=record["doc"][:80],
    )


def _rcb(record: dict[str, Any], path: Path) -> LabelledAnswer:
    del path
    premise = record["inputs"]["premise"]
    return LabelledAnswer(
        set="rcb_ru",
        question=None,
        contexts=(premise,),
        answer=record["inputs"]["hypothesis"],
        bad=str(record["outputs"]) != "1",
        group=premise[:80],
    )


def _clapnq(record: dict[str, Any], path: Path) -> LabelledAnswer:
    del path
    return LabelledAnswer(
        set="clapnq",
        question=record["input"],
        contexts=tuple(one["text"] for one in record["passages"]),
        answer=record["output"][0]["answer"] or "",
        bad=not record["output"][0]["answer"],
        group=str(record["id"]),
        kind="retrieval",
    )


def _mtrag_un(record: dict[str, Any], path: Path) -> LabelledAnswer:
    del path
    word = record["Answerability"]
    word = word[0] if isinstance(word, list) else word
    return LabelledAnswer(
        set="mtrag_un",
        question=record["input"][-1]["text"],
        contexts=tuple(one["text"] for one in record["contexts"]),
        answer=record["targets"][0]["text"],
        bad=word == "UNANSWERABLE",
        group=record["task_id"].split("<")[0],
        kind="retrieval",
        answerability=word,
    )


_READERS = {
    "set contexts answer group": _own,
    "sample_id source summary metadata": _faithbench,
    "article summary_sentences": _qags,
    "doc summary label": _summedits,
    "inputs outputs": _rcb,
    "input passages output": _clapnq,
    "Answerability input contexts targets": _mtrag_un,
}


def right_answers(rows: Iterable[LabelledAnswer]) -> list[LabelledAnswer]:
    """Return people's own answers, written as the right ones to the content of their passages."""
    return [
        row
        for row in rows
        if row.kind == "retrieval"
        and row.answer
        and row.contexts
        and (row.answerability == "ANSWERABLE" if row.answerability else not row.bad)
    ]
