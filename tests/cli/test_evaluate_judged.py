"""`ragmeter evaluate` with a judge behind a real HTTP server that speaks the OpenAI API."""

import json
from types import SimpleNamespace

import pytest
from openai_server import OpenAIServer, error
from typer.testing import CliRunner

from ragmeter.cli.app import app

ROWS = [
    {
        "user_input": f"How long is bridge {number}?",
        "retrieved_contexts": [f"Bridge {number} is {number} metres long.", "Tea is a drink."],
        "response": f"It is {number} metres long.",
        "reference": f"Bridge {number} is {number} metres long.",
    }
    for number in range(1, 5)
]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


@pytest.fixture
def server():
    with OpenAIServer(answer=lambda request, item: "Tea" not in request.text_of(item)) as running:
        yield running


def _invoke(server, *arguments):
    options = ["--judge-model", "fake", "--judge-base-url", server.url, "--json"]
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments), *options])


METRICS = ["--metrics", "context_precision,context_recall,faithfulness"]


def test_judged_scores_cost_and_resuming(server, data, tmp_path):
    out = tmp_path / "scores.jsonl"
    first = _invoke(server, data, *METRICS, "--out", out)
    assert first.exit_code == 0, first.output
    paid = len(server.requests)
    summary = json.loads(first.stdout)
    assert summary["summary"]["context_precision"]["mean"] == 1.0
    calls = summary["judge"]["calls"]
    assert calls == paid - 1 > 0  # the question before the first row
    assert summary["judge"]["input_tokens"] == 100 * calls
    assert "calls" in first.stderr
    assert "tokens" in first.stderr

    again = _invoke(server, data, *METRICS, "--out", out)
    assert again.exit_code == 0, again.output
    assert len(server.requests) == paid
    assert json.loads(again.stdout)["resumed"] == len(ROWS)
    assert json.loads(again.stdout)["summary"] == summary["summary"]

    _invoke(server, data, "--metrics", "context_precision,context_utilization", "--out", out)
    assert len(server.requests) == paid + 1 + len(ROWS)


DEAD = "http://127.0.0.1:9/v1"
KEY = "sk-proj-0123456789abcdefghijklmnop"
WRONG_KEY = "Incorrect API key provided: sk-proj-01234********mnop. You can find yours at the console."
NO_MODEL = "The model `gtp-4o` does not exist or you do not have access to it."


@pytest.mark.parametrize("out", ["scores", "scores.jsonl"])
@pytest.mark.parametrize(
    ("status", "message", "says"),
    [
        (401, WRONG_KEY, ["status 401", "Incorrect API key provided: … You", "set OPENAI_API_KEY"]),
        (404, NO_MODEL, ["status 404", NO_MODEL, "correct --judge-model"]),
        (400, NO_MODEL, ["status 400", NO_MODEL, "correct --judge-model"]),
        (None, "", ["no connection", "Connection refused", "start what should listen there", DEAD]),
    ],
)
def test_a_judge_that_will_not_answer_ends_it_before_the_first_row(
    server, data, tmp_path, monkeypatch, status, message, says, out
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    if status is not None:
        server.script.extend([error(status, message=message)] * 50)
    arguments = [data, *METRICS, "--out", tmp_path / out]
    if status is None:
        server = SimpleNamespace(url=DEAD, requests=[])

    result = _invoke(server, *arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    said = " ".join(result.stderr.split())
    for part in (*says, "the judge 'fake' at", "--no-judge-check"):
        assert part in said
    assert not any(piece in said for piece in (KEY, "01234", "mnop", "Traceback", "bridge"))
    assert len(server.requests) <= 1


def test_each_kind_of_failure_has_an_example_below_the_table(server, data, tmp_path):
    server.script.extend([error(401)] * 50)
    asked = ["evaluate", data, "--metrics", "faithfulness", "--judge-model", "fake"]
    asked += ["--judge-base-url", server.url, "--no-judge-check"]
    for out, place in ((), data), (("--out", tmp_path / "scores"), data.name):
        result = CliRunner().invoke(app, [*map(str, (*asked, *out))])
        said = "".join(result.stdout.split())  # a long path is broken wherever the line ends

        assert result.exit_code == 1
        reason = f"4 judge_error (authentication), e.g. faithfulness of {place}:1"
        assert reason.replace(" ", "") in said


def test_a_judge_that_refuses_the_key_exits_with_1_and_is_retried_next_time(server, data, tmp_path):
    out = tmp_path / "scores.jsonl"
    server.script.extend([error(401)] * 50)
    broken = _invoke(server, data, *METRICS, "--out", out, "--no-judge-check")
    assert broken.exit_code == 1
    assert json.loads(broken.stdout)["failed_scores"] == {"judge_error": 12}
    server.script.clear()
    repaired = _invoke(server, data, *METRICS, "--out", out)
    assert repaired.exit_code == 0, repaired.output
    assert json.loads(repaired.stdout)["resumed"] == 0


def test_default_metrics_include_the_judged_ones_and_fused_asks_less(server, data, tmp_path):
    separate = _invoke(server, data)
    assert "faithfulness" in json.loads(separate.stdout)["summary"]
    calls = len(server.requests)
    server.requests.clear()
    fused = _invoke(server, data, "--fused")
    assert "context_recall" in json.loads(fused.stdout)["summary"]
    assert len(server.requests) < calls


def test_a_cache_file_is_shared_between_runs(server, data, tmp_path):
    cache = tmp_path / "judge.sqlite"
    _invoke(server, data, *METRICS, "--judge-cache", cache)
    paid = len(server.requests)
    second = _invoke(server, data, *METRICS, "--judge-cache", cache)
    assert len(server.requests) == paid
    assert json.loads(second.stdout)["judge"]["cache_hits"] > 0


def test_the_key_comes_from_the_named_variable_and_is_never_shown(server, data, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    result = _invoke(server, data, *METRICS, "--judge-key-env", "MY_KEY")
    assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret"
    assert "very-secret" not in result.output


def test_the_page_shows_the_judges_reasons(server, data, tmp_path):
    page = tmp_path / "report.html"
    _invoke(server, data, "--metrics", "context_relevancy", "--html", page)
    shown = page.read_text(encoding="utf-8")
    assert shown.count("1 of 2 sentences of the chunks are about the question") == len(ROWS)
    assert "about s2" in shown
