"""Wrong values, files, addresses, keys and names: each gets one sentence with what mends it, an exit status, no traceback."""

import json
import os
import sys

import pytest
from typer.testing import CliRunner

from ragmeter.cli.app import app

ROW = {"question": "q", "contexts": ["a b"], "answer": "a", "reference": "a"}
DEAD = "http://127.0.0.1:9/v1"
FILES = {
    "data.jsonl": json.dumps(ROW) + "\n",
    "empty.jsonl": "",
    "no-json.jsonl": "hello\n",
    "bare.json": "[1, 2]",
    "cut.json": '[{"question": "q"},',
    "semicolons.csv": "question;answer\nq;a\n",
    "lists.csv": "question,contexts\nq,\"['a', 'b']\"\n",
    "latin.csv": b"question,answer\nq,caf\xe9\n",
    "latin.jsonl": b'{"question": "caf\xe9"}\n',
    "latin.json": b'[{"question": "caf\xe9"}]',
    "utf16.jsonl": (json.dumps(ROW) + "\n").encode("utf-16"),
    "utf16.csv": "question,answer\nq,a\n".encode("utf-16-le"),
    "utf16.json": json.dumps([ROW]).encode("utf-16-be"),
    "no.gz.jsonl.gz": "plain",
    "no.parquet": "plain",
    "turned.json": json.dumps({"question": {"0": "q"}, "answer": {"0": "a"}}),
    "other.jsonl": '{"a": 1}\n',
    "notes.txt": "hello",
    "my_metrics.py": "def short_answer(sample):\n    return 1.0\nnumber = 7\n",
    "broken_metrics.py": "import no_such_package_at_all\n",
    "golden.jsonl": json.dumps({"question": "q", "context_ids": ["1"]}) + "\n",
    "labels.jsonl": '{"request": "r"}\n',
}
E, J = ("evaluate", "data.jsonl"), ("--judge-model", "m", "--judge-base-url")
TABLE = [
    # values
    ((*E, "--fail-under", "recall"), 2, "write NAME=VALUE"),
    ((*E, "--fail-under", "recall=x"), 2, "write NAME=VALUE"),
    ((*E, "--fail-under", "recall=nan"), 2, "write NAME=VALUE"),
    ((*E, "--fail-under", "recall=80"), 2, "not from 0.0 to 1.0"),
    ((*E, "--limit", "0"), 2, "--limit"),
    ((*E, "--limit", "many"), 2, "--limit"),
    ((*E, "--concurrency", "-1"), 2, "--concurrency"),
    ((*E, "--tolerance", "2"), 2, "--tolerance"),
    ((*E, "--out", "scores", "--shard", "4/4"), 2, "--shard"),
    ((*E, "--shard", "0/2"), 2, "need --out DIR"),
    ((*E, "--processes", "2", "--out", "scores"), 2, "--processes needs --engine ray"),
    ((*E, "--columns", "contexts"), 2, "write OURS=COLUMN"),
    ((*E, "--columns", "contexts=docs"), 2, "has no column 'docs'; it has question"),
    (("serve", "--port", "99999999"), 2, "port"),
    # files
    (("evaluate",), 2, "name a data set"),
    (("evaluate", "nowhere.jsonl"), 2, "No such file"),
    (("evaluate", "notes.txt"), 2, "ends in none of .jsonl"),
    (("evaluate", "empty.jsonl"), 2, "has no rows"),
    (("evaluate", "no-json.jsonl"), 1, "no-json.jsonl:1: not JSON"),
    (("evaluate", "bare.json"), 1, "not a JSON object"),
    (("evaluate", "cut.json"), 1, "not JSON"),
    (("evaluate", "semicolons.csv"), 1, "parted by commas"),
    (("evaluate", "lists.csv"), 1, "save the table as Parquet"),
    (("evaluate", "latin.csv"), 1, "save the file as UTF-8"),
    (("evaluate", "latin.jsonl"), 1, "save the file as UTF-8"),
    (("evaluate", "latin.json"), 1, "save the file as UTF-8"),
    (("evaluate", "utf16.jsonl"), 2, "iconv -f UTF-16 -t UTF-8 utf16.jsonl > utf8.jsonl"),
    (("evaluate", "utf16.csv"), 2, "is UTF-16; save the file as UTF-8"),
    (("evaluate", "utf16.json"), 2, "is UTF-16; save the file as UTF-8"),
    (("evaluate", "turned.json"), 1, "to_json(orient='records')"),
    (("evaluate", "no.gz.jsonl.gz"), 2, "cannot read 'no.gz.jsonl.gz'"),
    (("evaluate", "no.parquet"), 2, "cannot read 'no.parquet'"),
    (("evaluate", "data.jsonl", "data.jsonl"), 2, "rename one"),
    ((*E, "--out", "other.jsonl"), 2, "not written by ragmeter evaluate"),
    ((*E, "--out", "scores.csv"), 2, "name a folder"),
    ((*E, "--out", "no/such/scores.jsonl"), 2, "--out"),
    ((*E, "--out", "data.jsonl"), 2, "--out"),
    ((*E, "--html", "no/such/page.html"), 2, "--html"),
    ((*E, "--baseline", "other.jsonl"), 2, "--baseline"),
    ((*E, "--baseline", "nowhere"), 2, "--baseline"),
    (("golden", "check", "golden.jsonl", "--against", "nowhere.jsonl"), 2, "No such file"),
    (("agreement", "labels.jsonl"), 2, "labels.jsonl"),
    (("label", "data.jsonl", "--data", "nowhere.jsonl"), 2, "No such file"),
    (("spans", "nowhere.json"), 1, "no such file"),
    # addresses and keys
    ((*E, *J, DEAD), 2, "start what should listen there"),
    ((*E, *J, "localhost:8000"), 2, "pass e.g. 'http://localhost:8000/v1'"),
    ((*E, "--judge-base-url", DEAD), 2, "need --judge-model"),
    ((*E, "--judge-model", "m"), 2, "OPENAI_API_KEY"),
    ((*E, "--judge-model", "m", "--judge-shared"), 2, "RAGMETER_JUDGE_SHARED_URL"),
    # names
    ((*E, "--metrics", "recal"), 2, "unknown metric 'recal'"),
    ((*E, "--metrics", "faithfulnes"), 2, "Did you mean 'faithfulness'"),
    ((*E, "--metrics", "faithfulness"), 2, "give --judge-model"),
    ((*E, "--metrics", "my_metrics.py:short_anser"), 2, "did you mean short_answer?"),
    ((*E, "--metrics", "nowhere.py:short"), 2, "there is no file 'nowhere.py'"),
    ((*E, "--metrics", "broken_metrics.py:short"), 2, "ModuleNotFoundError: No module named"),
    ((*E, "--metrics", "my_metrics.py:number"), 2, "A metric is a function of a RagSample"),
    ((*E, "--columns", "kontexts=a"), 2, "did you mean contexts?"),
    ((*E, "--fail-under", "recal=0.5"), 2, "no such score is measured"),
    ((*E, "--engine", "spark", "--out", "scores"), 2, "there is ray"),
    (("metrics", "faithfulnes"), 2, "Did you mean 'faithfulness'"),
    (("evaluat", "data.jsonl"), 2, "evaluat"),
]


@pytest.mark.parametrize(("arguments", "status", "says"), TABLE, ids=lambda one: str(one)[:60])
def test_a_wrong_input_is_explained(tmp_path, monkeypatch, arguments, status, says):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.chdir(tmp_path)
    for module in ("my_metrics", "broken_metrics"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    for name in [one for one in os.environ if one.startswith(("OPENAI_", "RAGMETER_"))]:
        monkeypatch.delenv(name)
    if DEAD in arguments:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")

    done = CliRunner().invoke(app, list(arguments))

    said = " ".join(done.output.replace("│", " ").split())
    assert done.exit_code == status, done.output
    assert says in said
    assert "Traceback" not in said
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "sk-secret" not in said
    lines = [line for line in done.stderr.splitlines() if line.startswith("ragmeter:")]
    assert len(lines) <= 1
