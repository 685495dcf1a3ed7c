"""`evaluate` and `Scorer` take what people have: rows, frames, tables, files; each gives the same scores."""

import json
import math
from types import SimpleNamespace

import pytest

import ragmeter
from ragmeter import ConfigurationError, RagSample

ROWS = [
    {"question": "q", "contexts": ["a b", "c"], "answer": "a b", "reference": "a"},
    {"question": "r", "contexts": ["d"], "answer": None, "reference": "e"},
]
METRICS = ["retrieval_health", "lexical_groundedness"]


def frame(rows):
    """Be pandas where it is not installed: a frame by what it can do, with its empty cells."""
    cells = [{k: math.nan if v is None else v for k, v in row.items()} for row in rows]
    return SimpleNamespace(columns=list(rows[0]), to_dict=lambda orient: cells)


def forms(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    table = pa.Table.from_pylist(ROWS)
    samples = [
        RagSample(question="q", contexts=["a b", "c"], answer="a b", reference={"answer": "a"}),
        RagSample(question="r", contexts=["d"], reference={"answer": "e"}, status="retrieval_only"),
    ]
    yield from (samples, ROWS, iter(ROWS), {k: [row[k] for row in ROWS] for k in ROWS[0]})
    yield from (path, str(path), table, table.to_batches()[0], frame(ROWS))
    yield [samples[0], ROWS[1]]
    yield [{"user_input": "q", "documents": ["a b", "c"], "Output": "a b", "ground_truth": "a"}, ROWS[1]]
    for name, made in (
        ("pandas", lambda them: them.DataFrame(ROWS)),
        ("polars", lambda them: them.DataFrame(ROWS)),
        ("datasets", lambda them: them.Dataset.from_list(ROWS)),
    ):
        try:
            yield made(__import__(name))
        except ImportError:  # noqa: PERF203 -- what is not installed
            continue


def test_every_form_gives_the_same_scores(tmp_path):
    def of(found):
        return [{name: (score.value, score.status) for name, score in row.items()} for row in found]

    found = [of(ragmeter.evaluate(form, METRICS)) for form in forms(tmp_path)]
    with ragmeter.Scorer(METRICS) as scorer:
        found += [of(scorer.score(form)) for form in forms(tmp_path)]

    assert len(found) >= 22
    assert all(one == found[0] for one in found)
    assert found[0][0]["context_count"] == (2.0, "ok")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (RagSample(question="q"), "a list of RagSample, not one"),
        (ROWS[0], "one row; pass a list of rows"),
        ([1], "row 1 of samples is int, neither a RagSample nor a dictionary"),
        ([ROWS[0], {"a": 1}], "row 2 of samples: no column that can be scored; found a"),
        (7, "samples is int; pass a list of RagSample or dictionaries"),
        ("no-such-file.jsonl", "cannot read 'no-such-file.jsonl': No such file"),
        ("question?", "ends in none of .jsonl"),
        ({"train": frame(ROWS[:1])}, "pass a list of rows"),
        ({"train": SimpleNamespace(column_names=["question"])}, "has the splits train: pass one"),
        ([{"question": "q", "contexts": [1]}], "row 1 of samples: context 1 is a number, not a text"),
    ],
)
def test_what_cannot_be_scored_is_explained(given, says):
    with pytest.raises(ConfigurationError, match=says.replace("(", "\\(")):
        ragmeter.evaluate(given)
