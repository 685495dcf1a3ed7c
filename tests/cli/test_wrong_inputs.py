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
    "lists.csv": "question,contexts\nq,\"['a' 'b']\"\n",
    "latin.csv": b"question,answer\nq,caf\xe9\n",
    "latin.jsonl": b'{"question": "caf\xe9"}\n',
    "latin.json": b'[{"question": "caf\xe9"}]',
    "utf16.jsonl": (json.dumps(ROW) + "\n").encode("utf-16"),
    "utf16.csv": "question,answer\nq,a\n".encode("utf-16-le"),
    "utf16.json": json.dumps([ROW]).encode("utf-16-be"),
    "no.gz.jsonl.gz": "plain",
    "no.parquet": "plain",
    "turned.jsonl": json.dumps({"question": {"0": "q"}, "answer": {"0": "a"}}),
    "other.jsonl": '{"a": 1}\n',
    "notes.txt": "hello",
    "my_metrics.py": "def short_answer(sample):\n    return 1.0\nnumber = 7\n",
    "broken_metrics.py": "import no_such_package_at_all\n",
    "golden.jsonl": json.dumps({"question": "q", "context_ids": ["1"]}) + "\n",
    "labels.jsonl": '{"request": "r"}\n',
    "blank.jsonl": "\n \n",
    "head.csv": "question\n",
    "unfinished.jsonl": "half a line",
    "page.html": "mine",
    "thesis/thesis.txt": "mine",
    "who.jsonl": '{"question": "Who?", "answer": "I."}\n',
}
E, J = ("evaluate", "data.jsonl"), ("--judge-model", "m", "--judge-base-url")
SERVE = ("serve", "--http-port", "0", "--grpc-port", "0")
TABLE = [
    # values
    ((*E, "--fail-under", "recall"), 2, "write NAME=VALUE"),
    ((*E, "--fail-under", "recall=x"), 2, "write NAME=VALUE"),
    ((*E, "--fail-under", "recall=nan"), 2, "write NAME=VALUE"),
    *(
        ((*E, "--metrics", "precision_recall_f1", "--fail-under", limit, "--out", out), 2, says)
        for limit, says in (
            ("recall=80", "80 is not from 0.0 to 1.0, its range"),
            ("recal=0.5", "did you mean recall?"),
            ("faithfulness=0.5", "which was not measured: it needs a judge"),
        )
        for out in ("scores", "scores.jsonl")
    ),
    ((*E, "--limit", "0"), 2, "--limit"),
    ((*E, "--limit", "many"), 2, "--limit"),
    ((*E, "--concurrency", "-1"), 2, "--concurrency"),
    ((*E, "--tolerance", "2"), 2, "--tolerance"),
    *(
        ((*E, "--out", "scores", "--shard", shard), 2, "i/n")
        for shard in ("4/4", "-1/2", "1", "a/b", "0/0", "1/2/3")
    ),
    *(((*E, *option), 2, "--out DIR") for option in (("--shard", "0/2"), ("--merge",), ("--with-text",))),
    ((*E, "--gaps", "--out", "scores"), 2, "--gaps and --compare read each question"),
    ((*E, "--compare", "data.jsonl", "--out", "scores"), 2, "read each question"),
    ((*E, "--compare", "who.jsonl"), 2, "no row has a question and contexts"),
    ((*E, "--segments", "two words"), 2, "'two words' is no name"),
    ((*E, "--processes", "2", "--out", "scores"), 2, "--processes needs --engine ray"),
    ((*E, "--columns", "contexts"), 2, "write OURS=COLUMN"),
    ((*E, "--columns", "contexts=docs"), 2, "has no column 'docs'; it has question"),
    (("serve", "--port", "99999999"), 2, "port"),
    *(
        (("serve", option, amount), 2, "write for example")
        for option, amounts in (
            ("--keep", ("long", "7", "-1d")),
            ("--keep-service", ("7d", "shop", "shop=long")),
            ("--max-size", ("1", "nanGB")),
        )
        for amount in amounts
    ),
    (("serve", "--config", "nowhere.toml"), 2, "nowhere.toml cannot be read (no such file"),
    (("dashboards", "--out", "new", "--objective", "better than last year"), 2, "write it as in"),
    (("spans", "data.jsonl", "--tool-separator", "x"), 2, "--tool-separator"),
    (
        ("spans", "data.jsonl", "--retrieval-tool", "search", "--tool-separator", "("),
        2,
        "no regular expression",
    ),
    # files
    (("evaluate",), 2, "name a data set"),
    (("evaluate", "nowhere.jsonl"), 2, "No such file"),
    (("evaluate", "notes.txt"), 2, "ends in none of .jsonl"),
    *((("evaluate", name), 2, "has no rows") for name in ("empty.jsonl", "blank.jsonl", "head.csv")),
    (("evaluate", "no-json.jsonl"), 1, "no-json.jsonl:1: not JSON"),
    (("evaluate", "bare.json"), 1, "not a JSON object"),
    (("evaluate", "cut.json"), 1, "not JSON"),
    (("evaluate", "lists.csv"), 1, "save the table as Parquet"),
    (("evaluate", "latin.csv"), 1, "save the file as UTF-8"),
    (("evaluate", "latin.jsonl"), 1, "save the file as UTF-8"),
    (("evaluate", "latin.json"), 1, "save the file as UTF-8"),
    (("evaluate", "utf16.jsonl"), 2, "iconv -f UTF-16 -t UTF-8 utf16.jsonl > utf8.jsonl"),
    (("evaluate", "utf16.csv"), 2, "is UTF-16; save the file as UTF-8"),
    (("evaluate", "utf16.json"), 2, "is UTF-16; save the file as UTF-8"),
    (("evaluate", "turned.jsonl"), 1, "to_json(orient='records')"),
    (("evaluate", "no.gz.jsonl.gz"), 2, "cannot read 'no.gz.jsonl.gz'"),
    (("evaluate", "no.parquet"), 2, "cannot read 'no.parquet'"),
    (("evaluate", "data.jsonl", "data.jsonl"), 2, "rename one"),
    ((*E, "--out", "other.jsonl"), 2, "not written by ragmeter evaluate"),
    ((*E, "--out", "unfinished.jsonl"), 2, "not written by ragmeter evaluate"),
    ((*E, "--out", "thesis"), 2, "thesis.txt"),
    ((*E, "--out", "no/such/folder"), 2, "there is no folder"),
    *(
        ((*E, "--judge-model", "m", option, name), 2, f"{option} names the data set itself")
        for option in ("--html", "--out", "--judge-cache")
        for name in ("data.jsonl", "other-name.jsonl")
    ),
    ((*E, "--out", "scores.jsonl", "--html", "scores.jsonl"), 2, "--html names the file of --out"),
    ((*E, "--out", "scores.csv"), 2, "name a folder"),
    ((*E, "--out", "no/such/scores.jsonl"), 2, "--out"),
    ((*E, "--html", "no/such/page.html"), 2, "there is no folder"),
    ((*E, "--html", "thesis"), 2, "is a folder"),
    ((*E, "--html", "page.html"), 2, "not written by"),
    ((*E, "--summary-markdown", "no/such/summary.md"), 2, "--summary-markdown"),
    ((*E, "--summary-markdown", "data.jsonl"), 2, "--summary-markdown"),
    *(
        ((*E, "--baseline", name), 2, "--baseline")
        for name in ("empty.jsonl", "other.jsonl", "notes.txt", "nowhere")
    ),
    (("dashboards", "--out", "notes.txt"), 2, "cannot write"),
    (("run", "my_metric.py"), 2, "did you mean my_metrics.py?"),
    (("golden", "check", "golden.jsonl", "--against", "nowhere.jsonl"), 2, "No such file"),
    (("agreement", "labels.jsonl"), 2, "labels.jsonl"),
    (("label", "data.jsonl", "--data", "nowhere.jsonl"), 2, "No such file"),
    *((("label", name), 2, "has no requests") for name in ("empty.jsonl", "no-json.jsonl", "other.jsonl")),
    (("spans", "nowhere.json"), 1, "no such file"),
    # addresses and keys
    ((*E, *J, DEAD), 2, "start what should listen there"),
    *(
        (("demo", "--otlp", address), 2, "--otlp")
        for address in ("localhost:4318", "http://", "http://host:port", "ftp://h")
    ),
    (("run", "--otlp", "nowhere", "my_metrics.py"), 2, "is not a URL"),
    (("run", "--otlp", "http://a", "--phoenix", "http://b", "my_metrics.py"), 2, "choose one"),
    (("run", "--phoenix", "nowhere", "my_metrics.py"), 2, "--phoenix 'nowhere' is not a URL"),
    *(
        ((*SERVE, "--store", address), 2, "postgresql://user:password@host")
        for address in (
            "mysql://me:sk-secret-1@db/one",
            "postgresql://me:sk-secret-1@db",
            "postgresql://[:sk-secret-1",
        )
    ),
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
    ((*E, "--metrics", "no_such_metric"), 2, "`ragmeter metrics`"),
    ((*E, "--engine", "spark", "--out", "scores"), 2, "there is ray"),
    (("metrics", "faithfulnes"), 2, "Did you mean 'faithfulness'"),
    (("evaluat", "data.jsonl"), 2, "evaluat"),
]


@pytest.mark.parametrize(("arguments", "status", "says"), TABLE, ids=lambda one: str(one)[:60])
def test_a_wrong_input_is_explained(tmp_path, monkeypatch, arguments, status, says):
    """What ends with 2 has written nothing, and changed nothing that was there."""
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "other-name.jsonl").hardlink_to(tmp_path / "data.jsonl")
    before = _contents(tmp_path)
    monkeypatch.chdir(tmp_path)
    for module in ("my_metrics", "broken_metrics"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    for name in [one for one in os.environ if one.startswith(("OPENAI_", "RAGMETER_"))]:
        monkeypatch.delenv(name)
    # What `run` did not refuse would replace this very process, which would end well.
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("the program was started"))
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
    assert status != 2 or _contents(tmp_path) == before


def _contents(folder):
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
