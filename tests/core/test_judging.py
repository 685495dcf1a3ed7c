"""The judge's loop ends once, whoever tells it to and however early."""

import threading

import pytest
from at_once import at_once

from ragmeter import Limits, RagMeter
from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample, Reference
from ragmeter.metrics.judge import Answer, CountingJudge, Reply, Usage
from ragmeter.pipeline.judging import JudgeLoop, JudgesHere


def _loop(log):
    guard = Guard("meter.judge", log)
    judges = JudgesHere(None, 1, guard=guard)
    return JudgeLoop(judges, guard=guard, concurrency=1, max_backlog=1, deadline_s=1)


def _alive():
    return [thread for thread in threading.enumerate() if thread.name == "ragmeter-judge"]


def test_closed_by_several_at_once():
    log = ErrorLog()
    for _ in range(60):
        loop = _loop(log)
        loop.start()
        at_once(loop.close, [0.0] * 4)

    assert log.counts == {}


def test_closed_before_it_was_up():
    """Its thread starts, finds that all is over, and ends."""
    before = _alive()
    for _ in range(20):
        loop = _loop(ErrorLog())
        loop.start()
        loop.close(0.0)
    for thread in _alive():
        if thread not in before:
            thread.join(60)

    assert [thread for thread in _alive() if thread not in before] == []


class _Quitting(CountingJudge):
    """A judge that gives up in a way no judge should."""

    model = "quitting"

    def __init__(self, error):
        self.error = error
        self.asked = 0

    async def ask(self, ask):
        self.asked += 1
        if self.asked == 1:
            raise self.error
        items = [item for group in ask.groups for item in group.items]
        return Reply({item.id: Answer(known=True, value=True) for item in items}, Usage(calls=1))


class _OwnError(BaseException):
    pass


@pytest.mark.contains_errors
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), _OwnError("no")], ids=repr)
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_judge_that_wants_to_end_the_program_loses_itself(error):
    """Its first answer is a judge_error; the requests after it are judged by the same loop."""
    exporter = InMemoryExporter()
    judge = _Quitting(error)
    with RagMeter(
        metrics=["context_precision"], judge=judge, exporters=[exporter], limits=Limits(judge_concurrency=1)
    ) as meter:
        for number in range(3):
            meter.submit(
                RagSample(
                    question=f"q{number}", contexts=["a", "b"], answer="x", reference=Reference(answer="x")
                )
            )
            assert meter.flush(60)
        stats = meter.stats()
    scores = [result.scores["context_precision"] for result in exporter.results]

    assert [score.status for score in scores] == ["judge_error", "ok", "ok"]
    assert scores[0].error_type == type(error).__name__
    assert sum(stats.internal_errors.values()) == 1
