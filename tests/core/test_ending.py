"""What the end of a process waits for: own work, and others as long as something comes of it."""

import math
import textwrap
import time

import pytest
from openai_server import OpenAIServer
from python_process import run_python

from ragmeter.exporters.protocol import MeterStats
from ragmeter.pipeline.ending import Patience, PipelineEnding, Signs

NEVER = 1e9


class Others:
    """A judge or exporters that get something done so many times, and then nothing."""

    def __init__(self, signs, done=False):
        self.left = signs
        self.done = done
        self.waits = []

    def signs(self):
        return Signs(at=-math.inf, held=self.left)

    def wait(self, seconds):
        self.waits.append(seconds)
        if self.left:
            self.left -= 1
        return self.done and not self.left


def test_the_silent_are_given_up_after_their_share_of_the_patience():
    others = Others(signs=0)

    assert not Patience(2.0, others.signs).wait(others.wait, NEVER, 0.75)
    assert others.waits == [1.5]


@pytest.mark.parametrize(("usual_s", "waited_s"), [(0.1, 1.5), (2.0, 6.0)])
def test_those_known_to_think_for_long_have_longer(usual_s, waited_s):
    """And that costs the others no more than the usual share."""
    others = Others(signs=0)
    patience = Patience(2.0, others.signs)

    assert not patience.wait(others.wait, NEVER, 0.75, usual_s)
    assert others.waits == [waited_s]
    assert not patience.wait(others.wait, NEVER)
    assert 0.5 <= others.waits[1] <= 2.0


@pytest.mark.parametrize("done", [True, False])
def test_those_who_get_something_done_are_waited_for(done):
    others = Others(signs=3, done=done)

    assert Patience(2.0, others.signs).wait(others.wait, NEVER) is done
    assert len(others.waits) == (3 if done else 4)


def test_the_deadline_is_the_end_for_everybody():
    others = Others(signs=100)

    assert not Patience(2.0, others.signs).wait(others.wait, time.monotonic() - 1)
    assert others.waits == [0.0]


class Slow:
    """A pipeline that takes all the time it is given, by a clock of its own."""

    def __init__(self, clock):
        self.clock = clock
        self.allowed = []

    def signs(self):
        return Signs(at=-math.inf, held=0)

    def backlog(self):
        return MeterStats(export_backlog={"InMemoryExporter": 0, "PhoenixAnnotations": 2})

    def flush(self, deadline, patience):
        self.allowed.append(deadline - self.clock.now)
        self.clock.now = deadline
        return patience.wait(lambda _: False, deadline)


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


def test_silence_begins_with_the_last_sign_and_not_when_it_is_looked_for(monkeypatch):
    """Runs that an exporter took as the wait began were worth a second wait of the same length."""
    clock = Clock()
    monkeypatch.setattr("ragmeter.pipeline.ending.time", clock)
    began, last = clock.now, -math.inf

    def wait(seconds):
        nonlocal last
        last = began + 0.25
        clock.now += seconds
        return False

    assert not Patience(2.0, lambda: Signs(last, held=())).wait(wait, NEVER)
    assert clock.now - began == 2.25


@pytest.mark.parametrize(("given", "allowed"), [(None, 10.0), (0.0, 0.0), (30.0, 30.0)])
def test_flushing_twice_at_exit_takes_no_longer_than_once(monkeypatch, caplog, given, allowed):
    """Python has two hooks, and what the first used up the second has not."""
    clock = Clock()
    monkeypatch.setattr("ragmeter.pipeline.ending.time", clock)
    pipeline = Slow(clock)
    ending = PipelineEnding(given)
    ending.flush(pipeline)
    ending.flush(pipeline)

    assert pipeline.allowed == [allowed, 0.0]
    said = [record.message for record in caplog.records]
    assert [message[:25] for message in said] == ["ragmeter: the process end"]
    assert "in which PhoenixAnnotations was not done" in said[0]


def test_a_program_with_everything_dead_ends_and_says_so():
    """A judge that accepts and never answers, and an exporter that hangs."""
    done = run_python(
        "-c",
        textwrap.dedent(
            """
                import socket, threading
                from ragmeter import RagMeter, RagSample
                from ragmeter.metrics.judge import OpenAIJudge

                class Hanging:
                    def export(self, batch):
                        threading.Event().wait()
                    def flush(self, timeout_s):
                        threading.Event().wait()
                    def shutdown(self, timeout_s):
                        threading.Event().wait()

                silent = socket.create_server(("127.0.0.1", 0))
                url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
                meter = RagMeter(
                    judge=OpenAIJudge("m", base_url=url, api_key="k"), exporters=[Hanging()]
                )
                meter.submit(RagSample(question="q", contexts=["c"], answer="a"))
                print("the end")
                """
        ),
    )

    assert (done.returncode, done.stdout) == (0, "the end\n")
    assert "the process ends after" in done.stderr
    assert "shutdown_timeout_s" in done.stderr


def test_a_judge_known_to_be_slow_is_waited_for():
    """It is given up where it never answered; its first answer says how long the next may take."""
    with OpenAIServer(latency_s=3.0) as server:
        done = run_python(
            "-c",
            textwrap.dedent(
                """
                    import sys
                    from ragmeter import RagMeter, RagSample
                    from ragmeter.metrics.judge import OpenAIJudge

                    judge = OpenAIJudge("m", base_url=sys.argv[1], api_key="k")
                    meter = RagMeter(metrics=["answer_relevancy"], judge=judge, exporters=[])
                    meter.submit(RagSample(question="q", contexts=["c"], answer="One answer."))
                    assert meter.flush(60)
                    meter.submit(RagSample(question="q", contexts=["c"], answer="Another answer."))
                    """
            ),
            server.url,
        )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_provider_that_has_ended_is_not_flushed_for_nothing():
    """One that was made after ragmeter's import ends before ragmeter's exit handler."""
    done = run_python(
        "-c",
        textwrap.dedent(
            """
                from ragmeter import RagMeter, RagSample
                import ragmeter.meter
                from opentelemetry.metrics import set_meter_provider
                from opentelemetry.sdk.metrics import MeterProvider
                from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
                from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

                class Sends(MetricExporter):
                    ended = False
                    def export(self, metrics_data, timeout_millis=10_000, **kwargs):
                        print("late" if self.ended else "sent")
                        return MetricExportResult.SUCCESS
                    def force_flush(self, timeout_millis=10_000):
                        return True
                    def shutdown(self, timeout_millis=30_000, **kwargs):
                        self.ended = True

                set_meter_provider(MeterProvider([PeriodicExportingMetricReader(Sends())]))
                meter = RagMeter(metrics=["retrieval_health"])
                meter.submit(RagSample(question="q", contexts=["c"], answer="a"))
                """
        ),
    )

    assert set(done.stdout.split()) == {"sent"}, done.stderr
