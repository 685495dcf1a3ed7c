"""Applications that others trace, alive, before `ragmeter serve`, which stands in the line before a real Phoenix."""

import json
import os
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import wait_until
from serving import serving

from ragmeter import RagMeter, RagSample, RetrievedContext
from ragmeter.exporters.memory import InMemoryExporter

HERE = Path(__file__).with_name("traced")
SHOP = json.loads((HERE / "shop.json").read_text(encoding="utf-8"))
QUESTIONS = [request["question"] for request in SHOP["requests"]]
APPLICATIONS = {
    "openinference-haystack": ("haystack_app.py",),
    "openllmetry-langchain": ("langchain_app.py",),
    "openinference-langchain-js": ("langchain_app.mjs",),
}
ARRIVED_S = 240
PREFIX = "ragmeter.score."


@dataclass
class Asked:
    """One run of an application, and what Phoenix has of it."""

    name: str
    rows: dict[str, dict]
    """What the application printed of each request, by trace."""
    spans: list[dict]
    """As Phoenix's API gives them."""

    def scored(self, trace):
        """Return the spans of a trace that carry scores or the verdict."""
        return [
            span
            for span in self.spans
            if span["context"]["trace_id"] == trace
            and any(key.startswith("ragmeter.") for key in span["attributes"])
        ]


@pytest.fixture(scope="module")
def server(phoenix, tmp_path_factory):
    """A `ragmeter serve` that passes on what it gets, and its scores, to Phoenix."""
    with serving(
        tmp_path_factory.mktemp("serve"),
        phoenix.url,
        "--forward",
        "--signal",
        "traces",
        OTEL_BSP_SCHEDULE_DELAY="200",
    ) as running:
        yield running


@pytest.fixture(scope="module", params=APPLICATIONS)
def asked(request, phoenix, server, tmp_path_factory):
    """Run one application to its end, and wait until Phoenix has a verdict on each of its requests."""
    name = request.param
    rows = ask_all(name, server.http, request, tmp_path_factory.mktemp(name))

    def judged():
        page = phoenix.get(f"/v1/projects/{name}/spans", limit=1000)
        spans = page["data"] if page else []
        found = {s["context"]["trace_id"] for s in spans if "ragmeter.verdict" in s["attributes"]}
        return spans if found >= set(rows) else None

    return Asked(name, rows, wait_until(judged, ARRIVED_S, f"{name}: not every request was scored"))


def ask_all(name, endpoint, request, folder):
    """Run an application with its spans sent to `endpoint`; return what it printed, by trace."""
    file, *arguments = APPLICATIONS[name]
    if file.endswith(".mjs"):
        # Node finds packages beside the program only.
        (folder / "node_modules").symlink_to(request.getfixturevalue("traced_node"))
        for each in (file, "shop.json"):
            shutil.copy(HERE / each, folder)
        command = ["node", str(folder / file)]
    else:
        command = [request.getfixturevalue("traced_python"), str(HERE / file), *arguments]
    ours = ("OTEL_", "RAGMETER_", "OPENINFERENCE_", "TRACELOOP_", "PYTHON")
    env = {key: value for key, value in os.environ.items() if not key.startswith(ours)} | {
        "LANGCHAIN_CALLBACKS_BACKGROUND": "false",
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_SERVICE_NAME": name,
        "OTEL_RESOURCE_ATTRIBUTES": f"openinference.project.name={name}",
    }
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=240, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["question"] for row in rows] == QUESTIONS
    return {row["trace_id"]: row for row in rows}


def test_every_request_is_scored_once_in_its_own_trace(asked):
    """In the project of the application's spans, too: Phoenix keeps a trace together."""
    assert len(asked.rows) == len(QUESTIONS)
    verdicts = Counter(
        span["context"]["trace_id"] for span in asked.spans if "ragmeter.verdict" in span["attributes"]
    )
    assert verdicts == dict.fromkeys(asked.rows, 1)
    assert {span["context"]["trace_id"] for span in asked.spans} == set(asked.rows)


def test_each_score_stands_once_below_a_span_of_the_request(asked):
    ids = {span["context"]["span_id"]: span for span in asked.spans}
    for trace in asked.rows:
        scored = asked.scored(trace)
        names = Counter(key for span in scored for key in span["attributes"] if PREFIX in key)
        assert names
        assert set(names.values()) == {1}
        for span in scored:
            judged = ids[span["parent_id"]]
            assert judged["context"]["trace_id"] == trace
            assert not any(key.startswith("ragmeter.") for key in judged["attributes"])


def scores_of(asked, trace):
    """Return the scores of a request by name, from whatever span they stand on."""
    return {
        key.removeprefix(PREFIX): value
        for span in asked.scored(trace)
        for key, value in span["attributes"].items()
        if key.startswith(PREFIX)
    }


def test_scores_equal_those_of_the_sample_without_any_tracing(asked):
    """What the shop found and answered, handed to a meter as it is."""
    memory = InMemoryExporter()
    with RagMeter(exporters=[memory]) as meter:
        for row in asked.rows.values():
            [request] = [one for one in SHOP["requests"] if one["question"] == row["question"]]
            contexts = [RetrievedContext(text=SHOP["documents"][name], id=name) for name in request["finds"]]
            meter.submit(RagSample(question=row["question"], answer=row["answer"], contexts=tuple(contexts)))
        assert meter.flush(60)
    plain = {one.run.sample.question: one.scores for one in memory.results}
    for trace, row in asked.rows.items():
        expected = {
            name: score.value for name, score in plain[row["question"]].items() if score.value is not None
        }
        found = scores_of(asked, trace)
        assert {name: found[name] for name in expected} == pytest.approx(expected), row["question"]
