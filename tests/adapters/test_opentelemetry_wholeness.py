"""Requests of which a part was lost on its way are told as partial and not measured; others are as before."""

import random
from dataclasses import replace

import pytest
from otlp_spans import documents, openinference, span

from ragmeter import RagMeter
from ragmeter.adapters.opentelemetry._wholeness import ALWAYS_AFTER
from ragmeter.adapters.opentelemetry.assembly import AssembledTrace
from ragmeter.adapters.opentelemetry.reporter import Reporter
from ragmeter.exporters.memory import InMemoryExporter

SHOP = {"service.name": "shop"}
CHAIN = openinference(2, 1, "CHAIN", "answer", input="q", output="14 days.", end=9)
SHELF = openinference(3, 2, "RETRIEVER", "shelf", input="How long?", **documents("14 days."))
STEP = openinference(4, 2, "CHAIN", "synthesize", start=4, end=8)
MODEL = openinference(5, 4, "LLM", "model", output="14 days.")
ROOT = span(1, None, "POST /ask", kind="server", end=10)


@pytest.fixture
def report():
    """Report traces as another process sends them; return what came out, and the reporter."""
    memory = InMemoryExporter()
    meter = RagMeter(exporters=[memory])
    reporter = Reporter(meter, remote=True)
    number = 0

    def told(*spans):
        nonlocal number
        number += 1
        before = len(memory.results)
        trace = f"{number:032x}"
        sent = [replace(one, trace_id=trace, resource=SHOP) for one in spans]
        reporter.report(AssembledTrace(trace, sent, ()))
        assert meter.flush(60)
        return list(memory.results)[before:], reporter

    yield told
    meter.shutdown(60)


def has_values(result):
    return [name for name, score in result.scores.items() if score.value is not None]


@pytest.mark.parametrize("half", [[SHELF], [SHELF, STEP], [SHELF, MODEL], [SHELF, STEP, MODEL]])
def test_a_retrieval_without_the_chain_around_it_is_partial_and_has_no_scores(report, half):
    if MODEL in half:
        report(SHELF, STEP, MODEL, CHAIN, ROOT)  # so these come with their parents
    [result], reporter = report(*half)
    assert result.sample.status == "partial"
    assert (result.sample.contexts, result.sample.answer) == (None, None)
    assert has_values(result) == []
    assert result.verdict is None
    assert reporter.partial == 1


def test_a_request_with_a_step_that_hangs_below_nothing_is_partial(report):
    """Its synthesis was lost, and what passed through it nobody knows; the answer is its own."""
    report(SHELF, STEP, MODEL, CHAIN, ROOT)
    [result], reporter = report(SHELF, MODEL, CHAIN, ROOT)
    assert (result.sample.status, result.sample.answer) == ("partial", "14 days.")
    assert has_values(result) == []
    assert reporter.partial == 1


@pytest.mark.parametrize(
    "whole",
    [
        [SHELF, CHAIN],
        [SHELF, STEP, MODEL, CHAIN, ROOT],
        [openinference(3, None, "RETRIEVER", "shelf", input="How long?", **documents("14 days."))],
    ],
)
def test_what_is_above_a_requests_own_span_is_not_missed(report, whole):
    [result], reporter = report(*whole)
    assert result.sample.status in ("ok", "retrieval_only")
    assert result.scores["context_count"].value == 1.0
    assert reporter.partial == 0


def test_a_parent_in_another_process_is_not_missed(report):
    [result], reporter = report(replace(SHELF, parent_is_remote=True))
    assert result.sample.status == "retrieval_only"
    assert reporter.partial == 0


def test_spans_whose_parents_never_come_are_whole_once_that_is_known(report):
    seen = [report(SHELF)[0][0].sample.status for _ in range(ALWAYS_AFTER + 5)]
    assert seen == ["partial"] * ALWAYS_AFTER + ["retrieval_only"] * 5
    # A single one with its parent shows that the parents do come.
    report(SHELF, CHAIN)
    [result], reporter = report(SHELF)
    assert result.sample.status == "partial"
    assert reporter.partial == ALWAYS_AFTER + 1


def test_an_answered_request_whose_root_is_exported_elsewhere_is_whole_from_the_first_on(report):
    """Its web server's spans never come here, and nothing says that they should."""
    for _ in range(ALWAYS_AFTER + 5):
        [result], reporter = report(SHELF, replace(MODEL, parent_id=SHELF.parent_id))
        assert (result.sample.status, result.sample.answer) == ("ok", "14 days.")
    assert reporter.partial == 0


def test_what_failed_stays_an_error(report):
    failed = openinference(5, 2, "LLM", "model", failed=True)
    [result], reporter = report(SHELF, failed)
    assert result.sample.status == "error"
    assert reporter.partial == 0


def test_of_a_trace_cut_anywhere_no_half_is_scored_as_another_request(report):
    """Either part is scored as the whole is, or it is partial, or nothing in it is a request."""
    whole = [SHELF, STEP, MODEL, CHAIN, ROOT]
    chance = random.Random(18)
    [expected], reporter = report(*whole)
    for _ in range(60):
        left = [one for one in whole if chance.random() < 0.5]
        for result in report(*left)[0] if left else ():
            if result.sample.status != "partial":
                assert CHAIN in left
                assert SHELF in left
                assert result.sample.question == expected.sample.question
                assert result.sample.answer == expected.sample.answer
                assert result.sample.contexts == expected.sample.contexts
            else:
                assert has_values(result) == []
    assert reporter.partial > 5
