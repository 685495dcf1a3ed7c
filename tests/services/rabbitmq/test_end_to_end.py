"""Applications publish to RabbitMQ, `ragmeter worker` scores: the same scores as where the application scores."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest
from processes import wait_until

from ragmeter import Limits, RagMeter, RagSample
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.fleet.publisher import FleetPublisher
from ragmeter.metrics import Reference, RetrievedContext

REQUESTS = 200 if os.environ.get("RAGMETER_TEST_SHORT") else 1_000


def a_sample(number):
    contexts = [
        RetrievedContext(text=f"Tower {number} is {number} metres high.", id=str(number), score=0.5),
        RetrievedContext(text="It was built of stone by the harbour. " * (1 + number % 3), id="x"),
    ]
    return RagSample(
        question=f"How high is tower {number}?",
        contexts=contexts,
        answer=f"It is {number} metres high." if number % 4 else "I do not know.",
        reference=Reference(answer=f"{number} metres", context_ids=[str(number)]) if number % 2 else None,
    )


def rows(path):
    """Return what was written of each request, by its question, and how often."""
    if not path.exists():
        return {}, Counter()
    text = path.read_text()
    found = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return {row["question"]: row["scores"] for row in found}, Counter(row["question"] for row in found)


def scoring(fleet, out, *options):
    """Start `ragmeter worker` as people do."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RAGMETER_", "OTEL_"))}
    env |= {
        "RAGMETER_QUEUE_URL": fleet.url,
        "RAGMETER_JSONL": str(out),
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
        "OTEL_SDK_DISABLED": "true",
    }
    with fleet.log.open("ab") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "ragmeter", "worker", *options],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    fleet.workers.append(worker)
    return worker


@pytest.fixture
def expected(tmp_path):
    """What an application writes that scores by itself."""
    path = tmp_path / "here.jsonl"
    with RagMeter(
        exporters=[JsonlExporter(path, include_content=True)], limits=Limits(queue_size=REQUESTS)
    ) as meter:
        for number in range(REQUESTS):
            meter.submit(a_sample(number))
        assert meter.flush(120)
    return rows(path)[0]


def publish(fleet):
    with RagMeter(
        metrics=[], exporters=[FleetPublisher(fleet.url)], limits=Limits(queue_size=REQUESTS)
    ) as meter:
        for number in range(REQUESTS):
            meter.submit(a_sample(number))
        assert meter.flush(120)
        stats = meter.stats()
    assert not stats.export_errors


def test_the_scores_are_those_of_an_application_that_scores_itself(fleet, tmp_path, expected):
    publish(fleet)
    out = tmp_path / "there.jsonl"
    assert scoring(fleet, out, "--processes", "2", "--once").wait(120) == 0, fleet.log.read_text()
    found, often = rows(out)
    assert often.total() == REQUESTS
    assert found == expected
    assert fleet.queue.status().dead == 0


def test_a_process_killed_at_work_repeats_a_message_at_most(fleet, tmp_path, expected):
    out = tmp_path / "there.jsonl"
    worker = scoring(fleet, out, "--processes", "1")
    wait_until(lambda: fleet.queue.status().workers == 1, 60, f"see {fleet.log}")
    publish(fleet)
    wait_until(lambda: rows(out)[1].total() > 32, 60, f"see {fleet.log}")
    os.kill(fleet.children(worker)[0], signal.SIGKILL)
    wait_until(lambda: len(rows(out)[0]) == REQUESTS, 120, f"see {fleet.log}")
    assert fleet.drain(worker) == 0
    found, often = rows(out)
    assert found == expected
    assert often.total() - REQUESTS <= 32


@pytest.mark.long_form
def test_settings_that_make_no_sense_are_one_line_and_no_process_is_started(fleet, tmp_path):
    worker = scoring(fleet, tmp_path / "none" / "such" / "folder" / "out.jsonl")
    assert worker.wait(60) == 2
    assert "Traceback" not in fleet.log.read_text()
