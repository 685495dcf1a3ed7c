"""`ragmeter worker` from the outside: several applications, one folder, workers that are killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="worker processes are forked")

PATIENCE_S = 100.0
APPLICATION = """
import sys
from ragmeter import RagMeter, RagSample
meter = RagMeter.from_env()
for number in range(int(sys.argv[2])):
    meter.submit(RagSample(
        question=f"How high is tower {number}?", contexts=[f"Tower {number} is {number} metres high."],
        answer=f"It is {number} metres high.", name=sys.argv[1],
    ))
assert meter.flush(60)
print(meter.stats().exported, flush=True)
if sys.argv[3:] == ["kill"]:
    import os
    os.kill(os.getpid(), 9)
"""
METRICS = """
import os, signal
from ragmeter.metrics import metric

@metric(needs=("answer",), target="answer")
def may_kill(sample):
    if "POISON" in sample.question:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1.0
"""


@pytest.fixture
def environ(tmp_path):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RAGMETER_", "OTEL_")) or name == "RAGMETER_TEST_SEED"
    }
    return kept | {
        "RAGMETER_QUEUE_URL": f"spool://{tmp_path}/queue",
        "RAGMETER_JSONL": str(tmp_path / "scores.jsonl"),
    }


def start(environ, *arguments):
    return subprocess.Popen(
        [sys.executable, *arguments], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process):
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def application(environ, name, count, *more):
    return start(environ | {"RAGMETER_SCORING": "queue"}, "-c", APPLICATION, name, str(count), *more)


def worker(environ, *options):
    return start(environ, "-m", "ragmeter", "worker", *options)


def scores(environ):
    path = Path(environ["RAGMETER_JSONL"])
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_one_worker_scores_what_several_processes_publish_as_they_would_have(environ, tmp_path):
    applications = [application(environ, "a", 40), application(environ, "b", 40, "kill")]
    assert [ended(one)[:2] for one in applications] == [(0, "40\n"), (-signal.SIGKILL, "40\n")]

    code, _, said = ended(worker(environ, "--once"))

    assert code == 0, said
    found = scores(environ)
    assert len({one["run_id"] for one in found}) == len(found) == 80
    here = environ | {"RAGMETER_JSONL": str(tmp_path / "here.jsonl")}
    assert ended(start(here, "-c", APPLICATION, "a", "40"))[0] == 0
    assert _comparable(scores(here), "a") == _comparable(found, "a") == _comparable(found, "b")
    left = sorted(path.name for path in (tmp_path / "queue").iterdir())
    assert left == []


def _comparable(found, name):
    """What does not differ from one run to the next, by answer length and score."""
    return sorted(
        json.dumps([one["status"], one["verdict"], one["late"], one["scores"]], sort_keys=True)
        for one in found
        if one["name"] == name
    )


def publish(environ, questions):
    from ragmeter import RagMeter, RagSample
    from ragmeter.fleet.publisher import FleetPublisher

    with RagMeter(metrics=[], exporters=[FleetPublisher(environ["RAGMETER_QUEUE_URL"])]) as meter:
        for question in questions:
            meter.submit(RagSample(question=question, answer="a", name=question))
        assert meter.flush(60)


def test_a_request_that_kills_its_worker_dies_alone(environ, tmp_path):
    folder = _with_metric(tmp_path)
    environ |= {"PYTHONPATH": str(folder), "RAGMETER_METRICS": "may_kill"}
    publish(environ, [*(str(number) for number in range(20)), "POISON"])

    code, _, said = ended(worker(environ, "--once", "--processes", "1"))

    assert code == 0, said
    assert {one["name"] for one in scores(environ)} == {str(number) for number in range(20)}
    from ragmeter.fleet.payload import unpack
    from ragmeter.fleet.queue import open_queue

    (dead,) = open_queue(environ["RAGMETER_QUEUE_URL"]).dead(5)
    assert [one.run.sample.question for one in unpack(dead.body).runs] == ["POISON"]
    assert dead.deaths == 4

    # Sent again once a worker runs that survives it, it is scored, and once.
    del environ["RAGMETER_METRICS"]
    queue = ("-m", "ragmeter", "queue", "dead")
    listed = " ".join(ended(start(environ, *queue, "list"))[1].split())  # its columns wrap
    assert "4 workers ended over it" in listed
    code, told, said = ended(start(environ, *queue, "replay", "9", "--json"))
    assert (code, json.loads(told)) == (0, {"replayed": 1}), said
    assert ended(worker(environ, "--once"))[0] == 0
    assert [one["name"] for one in scores(environ)].count("POISON") == 1
    assert "no dead letters" in ended(start(environ, *queue, "list"))[1]


def _with_metric(tmp_path):
    """Return a folder with an installed package that registers the metric that may kill."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "may_kill.py").write_text(METRICS)
    info = folder / "may_kill-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: may-kill\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[ragmeter.metrics]\nmay_kill = may_kill:may_kill\n")
    return folder


def test_a_worker_that_is_killed_loses_nothing(environ):
    """Killed once it has scored something, with more to come: another scores the rest."""
    publish(environ, [str(number) for number in range(400)])
    first = worker(environ, "--processes", "1")
    wait_for_a_score(environ)
    first.kill()
    first.communicate(timeout=PATIENCE_S)

    code, _, said = ended(worker(environ, "--once"))

    assert code == 0, said
    found = [one["name"] for one in scores(environ)]
    assert set(found) == {str(number) for number in range(400)}
    assert len(found) - len(set(found)) <= 32


def wait_for_a_score(environ):
    path = Path(environ["RAGMETER_JSONL"])
    until(lambda: path.exists() and path.stat().st_size > 0, PATIENCE_S)


def test_sigterm_ends_the_message_at_hand_and_leaves_the_rest(environ):
    publish(environ, [str(number) for number in range(200)])
    process = worker(environ)
    wait_for_a_score(environ)
    process.terminate()
    code, _, said = ended(process)

    assert code == 0, said
    assert ended(worker(environ, "--once"))[0] == 0
    found = [one["name"] for one in scores(environ)]
    assert sorted(found, key=int) == [str(number) for number in range(200)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"RAGMETER_QUEUE_URL": ""}, "RAGMETER_QUEUE_URL"),
        ({"RAGMETER_QUEUE_URL": "spool://host/dir"}, "three slashes"),
        ({"RAGMETER_QUEUE_URL": "smtp://me:hidden@host"}, "is no queue"),
        ({"RAGMETER_JSONL": ""}, "nowhere to write"),
        ({"RAGMETER_METRICS": "nonsense"}, "nonsense"),
        (
            {
                "RAGMETER_JUDGE_MODEL": "m",
                "RAGMETER_JUDGE_BASE_URL": "http://127.0.0.1:1/v1",
                "RAGMETER_WORKER_LIMIT_S": "90",
            },
            "RAGMETER_WORKER_LIMIT_S=90 would end what a judge",
        ),
    ],
)
def test_what_makes_no_sense_is_said_at_once(command, environ, changes, said):
    given = {name: value for name, value in environ.items() if name.startswith("RAGMETER_")}
    done = command("worker", "--once", **given | changes)

    assert done.returncode == 2
    assert said in done.stderr
    assert "hidden" not in done.stderr
    assert "Traceback" not in done.stderr
