"""`ragmeter serve --config`: an option counts more than a variable, and that more than the file."""

import os
import sys

import pytest
from typer.testing import CliRunner

from ragmeter.cli.app import app

tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")

EXAMPLE = """
http-port = 4000
grpc_port = 4001
store = "file.db"
signal = "traces"
retrieval-tool = ["a_*", "b_*"]
forward = true
webhook = "https://chat.example/secret-1"
otlp = "http://user:secret-2@backend:4318"
no-spool = true
[settings]
sample_rate = 0.5
fused = true
segments = ["language", "metadata.tenant"]
objectives = ["shop:faithfulness>=0.8 for 95%", "recall>=0.5 for 90%"]
judge_api_key = "secret-3"
"""


@pytest.fixture
def printed(tmp_path, monkeypatch):
    """Print what holds with a file, variables and options."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAGMETER_", "OTEL_"))}

    def holds(text, *options, status=0, **variables):
        monkeypatch.setattr(os, "environ", kept | variables)
        path = tmp_path / "serve.toml"
        path.write_text(text, encoding="utf-8")
        done = CliRunner().invoke(app, ["serve", "--config", str(path), "--print-config", *options])
        assert done.exit_code == status, done.output
        assert "Traceback" not in done.output
        assert "secret-" not in done.output
        return " ".join(done.output.split()) if status else tomllib.loads(done.output)

    return holds


def test_a_file_says_what_options_and_settings_say(printed):
    found = printed(EXAMPLE)
    assert (found["http-port"], found["grpc-port"], found["store"]) == (4000, 4001, "file.db")
    assert (found["signal"], found["retrieval-tool"]) == (["traces"], ["a_*", "b_*"])
    assert found["forward"] is found["no-spool"] is True
    assert found["settings"] == {
        "sample_rate": 0.5,
        "fused": True,
        "segments": ["language", "metadata.tenant"],
        "objectives": "shop:faithfulness>=0.8 for 95%;recall>=0.5 for 90%",
    }


def test_an_option_counts_more_than_a_variable_and_that_more_than_the_file(printed):
    found = printed(
        EXAMPLE, "--http-port", "1", "--spool", "dir",
        RAGMETER_SERVE_STORE="variable.db", RAGMETER_SAMPLE_RATE="0.25",
    )  # fmt: skip
    assert (found["http-port"], found["spool"]) == (1, "dir")
    assert "store" not in found
    assert "no-spool" not in found
    assert found["settings"]["sample_rate"] == 0.25
    assert printed(EXAMPLE, "--store", "mine.db", RAGMETER_SERVE_STORE="v.db")["store"] == "mine.db"
    assert "no-store" not in printed("no-store = true", "--store", "mine.db")
    assert printed("[settings]\nsample_rate = 0.5", RAGMETER_SAMPLE_RATE="")["settings"] == {"sample_rate": 0.5}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("http-prot = 1", "'http-prot'; did you mean http-port"),
        ("[settings]\nsample_rat = 1", "'settings.sample_rat'; did you mean settings.sample_rate"),
        ("zzz = 1", "--help lists all"),
        ("config = 'x'", "there is no 'config'"),
        ("http-port = [1]", "http-port is one value"),
        ("host = {a = 1}", "host is one value"),
        ("forward = 'yes'", "forward is true or false"),
        ("host = true", "host is a value"),
        ("settings = 1", "[settings] is a table"),
        ("[settings]\nsample_rate = 7", "RAGMETER_SAMPLE_RATE='7'"),
        ("[settings.verdict]\na = 1", "settings.verdict"),
        ("http-port = 'many'", "--http-port"),
        ("signal = 'smoke'", "--signal"),
        ("a = ", "is no TOML"),
    ],
)
def test_what_a_file_cannot_say_is_named(printed, text, says):
    assert says in printed(text, status=2)
