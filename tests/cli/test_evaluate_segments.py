"""``evaluate --segments``: the parts of a data set are shown and decided about, each by itself."""

import json

import pytest
from typer.testing import CliRunner

from ragmeter import RagMeter
from ragmeter.cli.app import app
from ragmeter.cli.evaluate import _by_segment
from ragmeter.exporters.jsonl import JsonlExporter

RUSSIAN = "Какова высота маяка на мысе Колка, и когда его зажгли?"
ENGLISH = "How tall is the lighthouse of Kolka, and when was it lit?"


def _row(n, question, good, **more):
    told = f"Tower {n} is 21 metres tall."
    return {
        "question": question,
        "contexts": [told if good else "Boats are blue."],
        "answer": told,
        "reference_contexts": [told],
        **more,
    }


def _run(tmp_path, rows, *arguments):
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return CliRunner().invoke(app, ["evaluate", str(data), "--metrics", "precision_recall_f1", *arguments])


ROWS = [_row(n, RUSSIAN if n % 2 else ENGLISH, good=not n % 2, retriever="new") for n in range(60)]


def test_each_part_has_its_means_and_decisions(tmp_path):
    ran = _run(tmp_path, ROWS, "--segments", "language,retriever", "--fail-under", "recall=0.4", "--json")
    said = json.loads(ran.stdout)
    means = {segment: scores["recall"]["mean"] for segment, scores in said["segments"].items()}
    assert means == {"language:en": 1.0, "language:ru": 0.0, "retriever:new": 0.5}
    outcomes = {one["what"]: one["outcome"] for one in said["decision"]["checks"]}
    assert outcomes == {
        "recall at least 0.4": "inconclusive",
        "language:en: recall at least 0.4": "pass",
        "language:ru: recall at least 0.4": "fail",
        "retriever:new: recall at least 0.4": "inconclusive",
    }
    assert said["decision"]["outcome"] == "fail"
    assert ran.exit_code == 1


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_table_shows_what_was_decided_about(tmp_path, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    ran = _run(tmp_path, ROWS, "--segments", "language", "--fail-under", "recall=0.4")
    table = ran.stdout.split("By segment", 1)[1].split("Decision", 1)[0]
    assert "language:ru" in table
    assert "0.00" in table
    assert "precision" not in table
    assert max(map(len, table.splitlines())) <= width


def test_columns_and_metadata_name_parts_and_rows_without_them_are_one(tmp_path):
    rows = [
        _row(0, ENGLISH, good=True, tenant="a"),
        _row(1, ENGLISH, good=False, metadata={"tenant": "b"}),
        _row(2, ENGLISH, good=False),
    ]
    said = json.loads(_run(tmp_path, rows, "--segments", "tenant,metadata.tenant", "--json").stdout)
    means = {segment: scores["recall"]["mean"] for segment, scores in said["segments"].items()}
    assert means["tenant:a"] == means["metadata.tenant:a"] == 1.0
    assert means["tenant:b"] == means["metadata.tenant:b"] == 0.0
    assert means["tenant:unknown"] == means["metadata.tenant:unknown"] == 0.0


def test_of_very_many_values_the_later_ones_count_together(tmp_path, monkeypatch):
    monkeypatch.setattr(_by_segment, "MOST_VALUES", 2)
    rows = [_row(n, ENGLISH, good=True, tenant=f"t{n}") for n in range(5)]
    said = json.loads(_run(tmp_path, rows, "--segments", "tenant", "--json").stdout)
    assert sum(scores["recall"]["count"] for scores in said["segments"].values()) == 5
    assert len(said["segments"]) == 3
    assert said["segments"]["tenant:other"]["recall"]["count"] == 3


def test_recorded_results_have_the_segments_of_their_requests(tmp_path):
    path = tmp_path / "results.jsonl"
    with RagMeter(exporters=[JsonlExporter(path)]) as meter:
        for tenant in ("a", "a", "b"):
            with meter.request(ENGLISH, metadata={"tenant": tenant}) as request:
                request.retrieved(["Tower 1 is 21 metres tall."])
                request.answered("Tower 1 is 21 metres tall.")
    ran = CliRunner().invoke(app, ["evaluate", str(path), "--segments", "tenant", "--json"])
    said = json.loads(ran.stdout)
    counts = {name: scores["lexical_groundedness"]["count"] for name, scores in said["segments"].items()}
    assert said["recorded"]
    assert counts == {"tenant:a": 2, "tenant:b": 1}
