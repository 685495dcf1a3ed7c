"""Real frameworks whose requests `ragmeter worker` scores: the same scores, below the application's own spans."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from otlp_receiver import OtlpReceiver, attributes_of
from processes import wait_until
from rag_apps import FRAMEWORKS

PROGRAM = Path(__file__).with_name("queue_app.py")
REQUESTS = 8


class Deployment:
    """An application, perhaps a worker, and what both send."""

    def __init__(self, folder, **variables):
        self.received = OtlpReceiver()
        ours = ("RAGMETER_", "OTEL_", "PYTHONPATH")
        paths = [str(PROGRAM.parent), str(PROGRAM.parents[1] / "adapters"), str(PROGRAM.parents[1])]
        self._env = {k: v for k, v in os.environ.items() if not k.startswith(ours)} | variables
        self._env |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.received.url,
            "PYTHONPATH": os.pathsep.join(paths),
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_BLRP_SCHEDULE_DELAY": "200",
        }
        self._log = folder / f"{variables.get('RAGMETER_SCORING', 'thread')}.log"
        self._running = []

    def start(self, *words, **variables):
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *words], env=self._env | variables, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self._running.append(process)
        return process

    def told(self, process):
        line = process.stdout.readline()
        assert line, self._log.read_text()
        return json.loads(line)

    def wait(self, condition):
        wait_until(condition, 100, f"see {self._log}")

    def scores(self, asked):
        """Return what each kind of request was given, as often as it was: (framework, with reference) -> scores."""
        found = Counter()
        for record in self.received.records:
            kind = asked.get(record.trace_id.hex())
            said = attributes_of(record)
            if kind and "gen_ai.evaluation.name" in said:
                kept = {
                    name.removeprefix("gen_ai.evaluation."): value
                    for name, value in said.items()
                    if name not in ("ragmeter.run_id", "ragmeter.service.name")
                }
                found[(*kind, json.dumps(kept, sort_keys=True))] += 1
        return found

    def spans(self):
        """Return (service, span) of all."""
        return [
            (attributes_of(resource.resource)["service.name"], span)
            for request in self.received.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def close(self):
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.received.close()


@pytest.fixture
def deployed(tmp_path):
    """A function that makes deployments, which end with the test."""
    made = []

    def deploy(**variables):
        made.append(Deployment(tmp_path, **variables))
        return made[-1]

    yield deploy
    for one in made:
        one.close()


@pytest.fixture(params=["spool", pytest.param("rabbitmq", marks=pytest.mark.long_form)])
def queue_url(request, tmp_path):
    if request.param == "spool":
        return f"spool://{tmp_path}/queue"
    return f"{request.getfixturevalue('broker').url}?queue=queue-mode"


def test_scores_are_the_same_and_below_the_applications_spans(deployed, queue_url):
    here = deployed(OTEL_SERVICE_NAME="shop")
    there = deployed(RAGMETER_QUEUE_URL=queue_url)
    by_itself = here.start(PROGRAM)
    published = there.start(PROGRAM, OTEL_SERVICE_NAME="shop", RAGMETER_SCORING="queue")
    worker = there.start("-m", "ragmeter", "worker", "--processes", "1")

    asked, asked_there = here.told(by_itself), there.told(published)
    assert {kind[0] for kind in asked.values()} == set(FRAMEWORKS)
    assert len(asked) == REQUESTS
    first = here.scores(asked)
    there.wait(lambda: there.scores(asked_there).total() >= first.total())
    assert there.scores(asked_there) == first
    for deployment, application in ((here, by_itself), (there, published)):
        application.stdin.write("references come\n")
        application.stdin.flush()
        assert deployment.told(application) == {}, "something was dropped"
        assert application.wait(60) == 0
    expected = here.scores(asked)
    assert expected > first
    there.wait(lambda: there.scores(asked_there).total() >= expected.total())
    worker.terminate()
    assert worker.wait(60) == 0

    assert there.scores(asked_there) == expected
    spans = there.spans()
    own = {span.span_id: span.trace_id for service, span in spans if service == "shop"}
    evaluated = [span for service, span in spans if service == "ragmeter-worker"]
    assert {span.trace_id.hex() for span in evaluated} == set(asked_there)
    assert all(own[span.parent_span_id] == span.trace_id for span in evaluated)
    assert {attributes_of(span)["ragmeter.service.name"] for span in evaluated} == {"shop"}
