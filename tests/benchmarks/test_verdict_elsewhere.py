"""Sets that people labelled are read as their authors publish them, and every table is printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

FILES = {
    "ragtruth/source_info.jsonl": {
        "source_id": "1",
        "task_type": "QA",
        "source_info": {"question": "How hot?", "passages": "passage 1:Bake at 90 F.\n\npassage 2:Eat."},
    },
    "ragtruth/response.jsonl": {
        "id": "0", "source_id": "1", "model": "m", "split": "test", "response": "Bake it. Then drown it in milk.",
        "labels": [{"start": 9, "end": 31}],
    },
    "begin/begin_dev_wow.tsv": "model\tdata_source\tknowledge\tmessage\tresponse\tbegin_label\n"
    "gpt2\twow\tThe sky is blue.\tHi\tThe sky is green.\tNot fully attributable",
    "faith/batch_1.json": {
        "samples": [
            {
                "sample_id": 1, "source": "A cat sat.", "summary": "A dog sat.", "metadata": {"summarizer": "s"},
                "annotations": [{"label": ["Unwanted.Intrinsic"], "summary_start": 2, "summary_end": 5}],
            }
        ]
    },
    "qags/mturk_cnndm.jsonl": {
        "article": "A cat sat.",
        "summary_sentences": [
            {"sentence": "A cat sat.", "responses": [{"response": "yes"}] * 3},
            {"sentence": "It ate.", "responses": [{"response": "no"}] * 3},
        ],
    },
    "edits/news.json": [{"doc": "A cat sat.", "summary": "A cat stood.", "label": 0}],
    "rcb/test.jsonl": {"inputs": {"premise": "Кот сидел.", "hypothesis": "Кот стоял."}, "outputs": "2"},
    "clapnq/dev.jsonl": {
        "id": 1, "input": "Who sat?", "passages": [{"text": "A cat sat."}], "output": [{"answer": "A cat."}],
    },
    "un/tasks.jsonl": {
        "task_id": "a<::>1", "Answerability": ["ANSWERABLE"], "input": [{"text": "Who sat?"}],
        "contexts": [{"text": "A cat sat."}], "targets": [{"text": "A cat sat."}],
    },
    "own/rows.jsonl": {
        "set": "ours", "contexts": ["A cat sat."], "answer": "A dog sat.", "group": 1, "bad": 1, "spans": [[2, 5]],
    },
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return tmp_path


def test_every_set_is_read_as_published(folder: Path) -> None:
    from labelled_folders import labelled_answers

    found = {name: rows[0] for name, rows in labelled_answers(folder).items()}
    assert {name: (row.contexts, row.bad, row.spans) for name, row in found.items()} == {
        "ragtruth_qa": (("Bake at 90 F.", "Eat."), True, ((9, 31),)),
        "begin_dev": (("The sky is blue.",), True, ()),
        "faithbench": (("A cat sat.",), True, ((2, 5),)),
        "qags_cnn": (("A cat sat.",), True, ((11, 18),)),
        "summedits": (("A cat sat.",), True, ()),
        "rcb_ru": (("Кот сидел.",), True, ()),
        "clapnq": (("A cat sat.",), False, ()),
        "mtrag_un": (("A cat sat.",), False, ()),
        "ours": (("A cat sat.",), True, ((2, 5),)),
    }


def test_the_tables_are_printed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import verdict_elsewhere

    monkeypatch.setattr(verdict_elsewhere, "BOOTSTRAPS", 20)
    monkeypatch.setattr(sys, "argv", ["verdict_elsewhere", str(folder)])
    verdict_elsewhere.main()
    printed = capsys.readouterr().out
    assert "ragtruth_qa: n 1, bad by people 100.0%" in printed
    assert "named sentence is a marked one 1.000" in printed
    assert "people's answers, answerable: n 1" in printed
