"""The promises of docs/verdict.md, on the labelled data where it is there; and what builds the requests, on a little."""

import gzip
import importlib
import json
import os
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
DATA = os.environ.get("RAGMETER_BENCH_DATA")
labelled = pytest.mark.skipif(not DATA, reason="RAGMETER_BENCH_DATA names no folder")


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("verdict_agreement")


@labelled
@pytest.mark.timeout(300)
def test_of_bad_four_in_five_are_bad_and_of_good_one_in_twenty_at_most(benchmark):
    answers, _ = benchmark.rated_answers(Path(DATA))
    rows = [(a, benchmark.verdict(a.question, a.contexts, a.answer)) for a in answers]

    def rated_bad(wanted):
        chosen = [answer for answer, found in rows if wanted(found)]
        return sum(answer.is_bad for answer in chosen) / len(chosen), len(chosen)

    assert rated_bad(lambda found: found is not None and found.word == "bad")[0] >= 0.80
    assert rated_bad(lambda found: found is not None and found.word == "good")[0] <= 0.05
    without = rated_bad(lambda found: found is not None and "answered_without_context" in found.codes)
    assert without == (1.0, 16)


@labelled
@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", ["en", "ru", "zh"])
def test_an_answer_from_nowhere_is_not_good(benchmark, language):
    rows = [
        (each.present, benchmark.verdict(each.question, each.contexts, each.answer))
        for each in benchmark.built_requests(Path(DATA), language)
    ]

    def not_good(present):
        chosen = [found for there, found in rows if there == present]
        return sum(found is None or found.word != "good" for found in chosen) / len(chosen)

    assert not_good(present=False) >= 0.95
    assert not_good(present=True) <= 0.05


def test_requests_are_built_with_and_without_the_right_paragraph(benchmark, tmp_path):
    texts = [
        "The harbour opened in 1901. It is deep.",
        "Trains run to the harbour.",
        "Bread is baked here.",
        "Ships wait outside.",
    ]
    paragraphs = [
        {"context": text, "qas": [{"question": "When did the harbour open?", "answers": [{"text": "1901"}]}] if n == 0 else []}
        for n, text in enumerate(texts)
    ]  # fmt: skip
    (tmp_path / "xquad").mkdir()
    with gzip.open(tmp_path / "xquad" / "xquad.en.json.gz", "wt", encoding="utf-8") as file:
        json.dump({"data": [{"paragraphs": paragraphs}]}, file)

    there, gone = benchmark.built_requests(tmp_path, "en")

    assert (there.present, gone.present) == (True, False)
    assert there.answer == gone.answer == "The harbour opened in 1901."
    assert there.contexts[0] == texts[0]
    assert set(gone.contexts) == set(texts[1:])
    assert benchmark.verdict(there.question, there.contexts, there.answer).word == "good"
    assert benchmark.verdict(gone.question, gone.contexts, gone.answer).word != "good"


def test_without_data_it_says_so(benchmark, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["verdict_agreement.py"])
    monkeypatch.delenv("RAGMETER_BENCH_DATA", raising=False)

    benchmark.main()

    assert capsys.readouterr().out.startswith("skipped")
