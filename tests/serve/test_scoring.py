"""Between receivers and meter: what waits is bounded, and what was read is settled, however much comes."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from otlp_spans import documents, openinference
from served import PATIENCE_S, Stuck, until

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.serve._limits import MIB, Limits
from ragmeter.serve._scoring import Scoring


def scoring_of(meter, *, looks=None, outgoing=lambda: True):
    def look(waiting, *, last=False):
        if looks is not None:
            looks.append(set(waiting()))

    journal = SimpleNamespace(look=look)
    return Scoring(meter, (), Limits(), grace_s=0.0, idle_s=0.0, outgoing=outgoing, journal=journal)


def request_in(trace, text="Tides.", question="Why?", answer="The moon."):
    return [
        replace(span, trace_id=f"{trace:032x}")
        for span in (
            openinference(1, None, "CHAIN", input=question, output=answer),
            openinference(2, 1, "RETRIEVER", **documents(text)),
            openinference(3, 1, "LLM", input=question, output=answer),
        )
    ]


def test_what_was_read_is_settled_while_more_is_always_ready():
    """Between any two traces: under a load that never lets up there is no other moment."""
    looks = []
    first, second, third = (f"{trace:032x}" for trace in range(3))
    with RagMeter(exporters=[InMemoryExporter()]) as meter:
        scoring = scoring_of(meter, looks=looks)
        scoring.assembler.add(span for trace in range(3) for span in request_in(trace))
        scoring.start()
        assert scoring.drain(time.monotonic() + PATIENCE_S)
    assert [look for look in looks if first not in look][:2] == [{second, third}, {third}]
    assert looks[-1] == set()


@pytest.mark.parametrize(
    "where", ["text", *(pytest.param(one, marks=pytest.mark.slow) for one in ("question", "answer"))]
)
def test_large_requests_wait_in_front_of_the_meter_as_many_small_ones_do(where):
    """Its queues drop beyond a bound, by bytes too, and nobody is told which."""
    stuck, full, admitted = Stuck(), [], []
    with RagMeter(metrics=[], exporters=[stuck]) as meter:
        counted = meter.stats

        def stats():
            found = counted()
            if waiting(found) >= 16 * MIB:
                full.append(found)
            return found

        def waiting(found):
            return found.queue_bytes + found.backlog_bytes

        meter.stats = stats
        # Asked last: whenever there is room in the meter.
        scoring = scoring_of(meter, outgoing=lambda: admitted.append(waiting(counted())) or True)
        for trace in range(60):
            # Few words and many bytes: to read the words is not what is tried.
            scoring.assembler.add(request_in(trace, **{where: f"{trace}{'m' * 500} " * 900}))
        scoring.start()
        until(lambda: len(full) > 8)
        stuck.go.set()
        assert scoring.drain(time.monotonic() + PATIENCE_S)
        assert meter.flush(PATIENCE_S)
        assert max(admitted) < 20 * MIB
        assert (counted().exported, counted().dropped) == (60, {})
