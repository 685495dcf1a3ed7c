"""Attaching and detaching: idempotent, at any time, beside others, for one engine or for all."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from llama_index.core.indices.query.query_transform.base import IdentityQueryTransform
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.query_engine import TransformQueryEngine
from llama_index_fakes import QUESTION, Captured, ListRetriever, captured, engine_of, expect, nodes

from ragmeter import RagMeter
from ragmeter.adapters import instrument, uninstrument
from ragmeter.adapters.llama_index import RagMeterHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import ConfigurationError

A = nodes()[:2]


def attached() -> int:
    return sum(isinstance(item, RagMeterHandler) for item in get_dispatcher().span_handlers)


def test_attach_and_detach_are_idempotent() -> None:
    """Once however often it is asked (langfuse#3922), for engines that exist already (langfuse#1540), too."""
    capture, engine = Captured(), engine_of()
    handler = capture.handler
    assert handler.attach() is handler.attach() is handler
    assert attached() == 1
    assert handler.is_attached
    engine.query(QUESTION)
    assert len(capture.runs) == 1
    handler.detach()
    handler.detach()
    assert attached() == 0
    engine_of().query(QUESTION)
    assert len(capture.runs) == 1
    capture.meter.shutdown(60)


def test_context_manager_attaches_for_the_block() -> None:
    """Also when the block raises."""
    capture = Captured()
    with pytest.raises(KeyError), capture.handler:
        assert attached() == 1
        raise KeyError
    assert attached() == 0
    capture.meter.shutdown(60)


def test_handler_added_by_the_user() -> None:
    """``add_span_handler`` works as well as ``attach``: nothing newer is used (llama_cloud_services#232)."""
    capture = Captured()
    get_dispatcher().add_span_handler(capture.handler)
    try:
        engine_of().query(QUESTION)
        assert len(capture.runs) == 1
        assert capture.handler.is_attached
    finally:
        capture.handler.detach()
        capture.meter.shutdown(60)


def test_other_handlers_stay_and_see_everything() -> None:
    """Whatever else is attached, before or after us, keeps its place and its spans."""
    before, after = SimpleSpanHandler(), SimpleSpanHandler()
    root = get_dispatcher()
    kept = list(root.span_handlers)
    root.add_span_handler(before)
    with captured() as capture:
        root.add_span_handler(after)
        engine_of().query(QUESTION)
        assert len(capture.runs) == 1
    try:
        assert [item for item in root.span_handlers if item in (before, after)] == [before, after]
        assert not before.open_spans
        assert not after.open_spans
        assert len(before.completed_spans) == len(after.completed_spans) > 5
    finally:
        root.span_handlers = kept


def test_two_meters_each_get_the_request_and_one_meter_gets_it_once() -> None:
    """Several handlers: one run per meter."""
    with captured() as first, captured() as second:
        again = RagMeterHandler(first.meter).attach()
        engine_of(streaming=True).query("streamed").get_response()
        engine_of().query(QUESTION)
        again.detach()

        assert len(first.runs) == len(second.runs) == 2
        assert again.open_entries == 0


def test_detached_in_the_middle_of_a_request_gives_it_up_and_counts_it() -> None:
    """A call still running when the handler leaves is counted as detached; nothing is left."""
    capture = Captured()
    handler = capture.handler.attach()

    class Detaching(ListRetriever):
        def _retrieve(self, query_bundle: Any) -> Any:
            handler.detach()
            return super()._retrieve(query_bundle)

    response = engine_of(Detaching(A)).query(QUESTION)
    assert str(response) == "Paris is the answer."
    assert capture.runs == []
    assert handler.open_entries == 0
    assert dict(capture.meter.stats().dropped) == {"detached": 1}
    capture.meter.shutdown(60)


def test_attached_in_the_middle_of_a_request() -> None:
    """What had begun before is unknown; the next request is whole."""
    capture = Captured()

    class Attaching(ListRetriever):
        def _retrieve(self, query_bundle: Any) -> Any:
            capture.handler.attach()
            return super()._retrieve(query_bundle)

    engine_of(Attaching(A)).query("first")
    engine_of().query("second")
    capture.handler.detach()

    assert capture.runs[-1].sample.question == "second"
    assert capture.runs[-1].sample.status == "ok"
    assert capture.handler.open_entries == 0
    capture.meter.shutdown(60)


def test_attaching_and_detaching_while_other_threads_query() -> None:
    """No other handler is skipped, no query fails, no entry is left."""
    witness = SimpleSpanHandler()
    root = get_dispatcher()
    kept = list(root.span_handlers)
    capture = Captured()
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not stop.is_set():
                engine_of().query(QUESTION)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        capture.handler.attach()
        capture.handler.detach()
    root.span_handlers = [*root.span_handlers, witness]
    stop.set()
    for thread in threads:
        thread.join()
    root.span_handlers = kept
    assert failures == []
    with capture.handler:
        engine_of().query(QUESTION)
        assert capture.handler.open_entries == 0
    assert capture.meter.stats().internal_errors == {}
    capture.meter.shutdown(60)


def test_scoped_to_one_engine() -> None:
    """Only requests in which that instance takes part, as root or wrapped by another engine."""
    mine, other = engine_of(), engine_of()
    with captured(engine=mine) as capture:
        mine.query("mine")
        other.query("other")
        asyncio.run(mine.aquery("mine async"))
        TransformQueryEngine(mine, IdentityQueryTransform()).query("wrapped")
        TransformQueryEngine(other, IdentityQueryTransform()).query("wrapped other")
        questions = [run.sample.question for run in capture.runs]

    assert questions == ["mine", "mine async", "wrapped"]
    assert capture.handler.open_entries == 0


def test_scoped_to_several_engines() -> None:
    """A list of instances; the engines are not kept alive."""
    first, second, third = engine_of(), engine_of(), engine_of()
    with captured(engine=[first, second]) as capture:
        for number, item in enumerate((first, second, third)):
            item.query(str(number))
        assert [run.sample.question for run in capture.runs] == ["0", "1"]


def test_wrong_text_mode_is_refused_at_construction() -> None:
    """Misconfiguration raises with the fix in the message."""
    capture = Captured()
    with pytest.raises(ConfigurationError, match="'llm' or 'none'"):
        RagMeterHandler(capture.meter, text_mode="all")  # type: ignore[arg-type]
    capture.meter.shutdown(60)


def test_instrument_attaches_globally_and_uninstrument_takes_it_back() -> None:
    """One handler for the process; calling it again replaces the meter."""
    first, second = InMemoryExporter(), InMemoryExporter()
    meters = [RagMeter(metrics=["retrieval_health"], exporters=[item]) for item in (first, second)]
    try:
        instrument(meters[0], frameworks=["llama_index"], name="support")
        instrument(meters[0], frameworks=["llama_index"], name="support")
        assert attached() == 1
        engine_of().query("first")
        instrument(meters[1], frameworks=["llama_index"])
        engine_of().query("second")
    finally:
        uninstrument()
    assert attached() == 0
    engine_of().query("third")
    for meter in meters:
        meter.shutdown(60)

    assert [(r.sample.question, r.sample.name) for r in first.results] == [("first", "support")]
    assert [run.sample.question for run in second.results] == ["second"]


@expect(ids=["paris", "rome"])
def test_dispatcher_shutdown_gives_up_what_is_running() -> None:
    """``Dispatcher.shutdown()`` reads open spans and closes every handler."""
    root = get_dispatcher()
    if not hasattr(root, "shutdown"):
        pytest.skip("this version of llama-index-core has no Dispatcher.shutdown")
    root.shutdown()
    engine_of().query(QUESTION)


def test_what_other_tools_ask_of_every_handler() -> None:
    """class_name, open_spans and the propagation hooks exist and are harmless (mlflow#24326)."""
    capture = Captured()
    handler = capture.handler
    assert handler.class_name() == "RagMeterHandler"
    assert handler.open_spans == {}
    assert handler.capture_propagation_context() == {}
    handler.restore_propagation_context({"anything": 1})
    capture.meter.shutdown(60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_captures_in_a_forked_child() -> None:
    """After fork, in the middle of the parent's request: the child captures its own requests."""
    program = """
import os, sys
sys.path.insert(0, sys.argv[1])
from llama_index_fakes import *
from llama_index.core.query_engine import RetrieverQueryEngine
with captured() as capture:
    engine_of(nodes(), streaming=True).query("open")
    stream = engine_of(nodes(), streaming=True).query("kept")
    pid = os.fork()
    if pid == 0:
        assert capture.handler.open_entries == 0
        engine_of(nodes()).query("child")
        good = [run.sample.question for run in capture.runs if run.sample.question != "open"]
        os._exit(0 if good == ["child"] else 1)
    _, status = os.waitpid(pid, 0)
    list(stream.response_gen)
    print(os.waitstatus_to_exitcode(status), capture.runs[-1].sample.question)
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, os.path.dirname(__file__)],  # noqa: PTH120
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.stdout.split() == ["0", "kept"], done.stderr
