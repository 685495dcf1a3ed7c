"""A warning when an adapter is attached and nothing arrives."""

import logging
import time

import pytest

from ragmeter._runtime.stats import QUIET_S, NoDataWarning


def _warnings(caplog, steps):
    now = [0.0]
    silence = NoDataWarning(clock=lambda: now[0])
    with caplog.at_level(logging.WARNING, "ragmeter"):
        for at, step in steps:
            now[0] = at
            step(silence)
    return [record.message for record in caplog.records]


def test_silence_after_attaching_is_told_once(caplog):
    told = _warnings(
        caplog,
        [
            (0, lambda s: s.expect_requests("langchain")),
            (QUIET_S - 1, lambda s: s.check(0)),
            (QUIET_S, lambda s: s.check(0)),
            (QUIET_S * 9, lambda s: s.check(0)),
        ],
    )

    assert len(told) == 1
    assert "attached (langchain)" in told[0]
    assert "ragmeter doctor" in told[0]


def test_no_warning_when_requests_come_or_nothing_is_attached(caplog):
    assert _warnings(caplog, [(0, lambda s: s.expect_requests("x")), (QUIET_S, lambda s: s.check(1))]) == []
    assert _warnings(caplog, [(QUIET_S, lambda s: s.check(0))]) == []


def test_both_adapters_say_that_they_are_attached():
    """Without it nobody would be warned about silence."""
    pytest.importorskip("langchain_core")
    pytest.importorskip("llama_index.core")
    from ragmeter import RagMeter
    from ragmeter.adapters.langchain import RagMeterCallbackHandler
    from ragmeter.adapters.llama_index import RagMeterHandler

    with RagMeter(exporters=[]) as meter:
        RagMeterCallbackHandler(meter)
        with RagMeterHandler(meter):
            pass

        assert meter.port.adapters == ("langchain", "llama_index")


def test_a_flush_waits_for_what_was_found_while_a_request_was_read():
    """An adapter reads documents on the worker, and may find there that it cannot."""
    from ragmeter import RagMeter
    from ragmeter.exporters.protocol import Suspects

    told = []

    def look():
        time.sleep(0.2)  # if the flush did not wait, it would be over by now
        told.append("looked")
        return Suspects("a line", ("search",), ())

    with RagMeter(exporters=[]) as meter:
        meter.port.offer(lambda: meter.port.retrieval_unseen("x", "unreadable_result", look), run_id="1")
        assert meter.flush(30)
        assert told == ["looked"]
