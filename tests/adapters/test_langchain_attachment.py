"""Attaching: anywhere, twice, late, globally; copying and pickling the handler."""

import asyncio
import copy
import gc
import pickle
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from expected import check
from langchain_core.callbacks import CallbackManager
from langchain_core.runnables import RunnableLambda
from langchain_fakes import FixedRetriever, TellingModel, Watch, docs, expect, lcel, saw, watching
from waiting import until

from ragmeter.adapters import instrument, uninstrument
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.metrics import ConfigurationError


@pytest.fixture
def attached_globally(watch: Watch) -> Iterator[Watch]:
    """A watch whose meter is the process's."""
    instrument(watch.meter, frameworks=["langchain"])
    yield watch
    uninstrument()


@expect(**saw("a", "b"))
def test_twice_in_one_list(watch: Watch, chain: Any) -> None:
    """langchain#22227: upstream announces such a root twice."""
    chain.invoke("who?", config={"callbacks": [watch.handler, watch.handler]})


@expect(**saw("a", "b"))
def test_by_with_config_and_by_invoke(watch: Watch, chain: Any) -> None:
    """langchain#24642: attached to the chain and to the call."""
    chain.with_config(**watch.config).invoke("who?", config=watch.config)


@expect(**saw("a", "b"))
def test_two_handlers_of_one_meter(watch: Watch, chain: Any) -> None:
    """A handler per call and one on the chain: still one request for the meter."""
    config = {"callbacks": [RagMeterCallbackHandler(watch.meter), watch.handler]}
    chain.with_config(callbacks=[RagMeterCallbackHandler(watch.meter)]).invoke("who?", config=config)


def test_two_meters_each_get_everything(watch: Watch, chain: Any) -> None:
    """Two meters with metrics of their own do not disturb each other."""
    with watching() as other:
        chain.invoke("who?", config={"callbacks": [watch.handler, other.handler]})

        check(watch.only, saw("a", "b"))
        check(other.only, saw("a", "b"))


@expect(**saw("a", "b"))
def test_late(watch: Watch) -> None:
    """Attached below the top: the topmost run the handler sees is the request."""
    inner = lcel(FixedRetriever(found=docs("a", "b")))
    outer = RunnableLambda(lambda question: inner.invoke(question, config=watch.config))
    outer.invoke("who?")


@expect(**saw("a", "b"))
def test_unknown_parent(watch: Watch) -> None:
    """langfuse#7794: a run below a parent that was never seen is a root, not an error."""
    manager = CallbackManager([watch.handler], inheritable_handlers=[watch.handler], parent_run_id=uuid4())
    lcel(FixedRetriever(found=docs("a", "b"))).invoke("who?", config={"callbacks": manager})


def test_ends_of_unknown_runs_are_ignored(watch: Watch) -> None:
    """langchain#18254: an end without a start changes nothing and logs nothing."""
    handler = watch.handler
    handler.on_chain_end({}, run_id=uuid4())
    handler.on_chain_error(ValueError(), run_id=uuid4())
    handler.on_retriever_end([], run_id=uuid4())
    handler.on_retriever_error(ValueError(), run_id=uuid4())
    handler.on_llm_end(None, run_id=uuid4())
    handler.on_llm_error(ValueError(), run_id=uuid4())
    handler.on_tool_end(None, run_id=uuid4())
    handler.on_tool_error(ValueError(), run_id=uuid4())
    handler.on_interrupt()
    handler.on_resume()

    assert watch.results == []


def test_globally_in_threads_tasks_and_batches(attached_globally: Watch, chain: Any) -> None:
    """A new thread has a context of its own, and the hook works there."""
    thread = threading.Thread(target=chain.invoke, args=("thread",))
    thread.start()
    thread.join()
    asyncio.run(chain.ainvoke("task"))
    chain.batch(["one", "two"])

    questions = sorted(str(sample.question) for sample in attached_globally.samples)
    assert questions == ["one", "task", "thread", "two"]


@expect(**saw("a", "b"))
def test_globally_and_by_hand(attached_globally: Watch, chain: Any) -> None:
    """Attached both ways to the same meter is one request."""
    chain.invoke("who?", config=attached_globally.config)


@expect(**saw("a", "b"))
def test_global_fallbacks_are_one_request(attached_globally: Watch, chain: Any) -> None:
    """langchain#36072, with the global handler."""
    broken = lcel(FixedRetriever(found=docs("x")), TellingModel(fail=9))
    broken.with_fallbacks([chain]).invoke("who?")


@expect(**saw("a", "b"), name="bot")
def test_switching_off_and_on_again(watch: Watch, chain: Any) -> None:
    """`uninstrument` is heard at once; `instrument` again does not count twice."""
    instrument(watch.meter, frameworks=["langchain"])
    uninstrument()
    chain.invoke("unheard")
    instrument(watch.meter, frameworks=["langchain"], name="bot")
    instrument(watch.meter, frameworks=["langchain"], name="bot")
    chain.invoke("who?")
    uninstrument()


def test_instrument_makes_a_meter_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, chain: Any
) -> None:
    """Without a meter, the environment says what to do; `uninstrument` ends that meter."""
    out = tmp_path / "scores.jsonl"
    monkeypatch.setenv("RAGMETER_JSONL", str(out))
    meter = instrument(frameworks=["langchain"])
    chain.invoke("who?")
    assert meter.flush(60)
    uninstrument()

    assert "context_count" in out.read_text(encoding="utf-8")


def test_unknown_framework() -> None:
    """The error names what is known."""
    with pytest.raises(ConfigurationError, match="known: langchain, llama_index"):
        instrument(frameworks=["langchian"])


def test_wrong_arguments_are_named() -> None:
    """Misconfiguration raises at construction, with the fix."""
    with pytest.raises(ConfigurationError, match="question=3"):
        RagMeterCallbackHandler(question=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="include='docs'"):
        RagMeterCallbackHandler(include="docs")


def test_deep_copies_of_chains_share_the_handler(watch: Watch, chain: Any) -> None:
    """langchain#12141: a handler must not keep a chain from being copied."""
    bound = chain.with_config(**watch.config)
    copied = copy.deepcopy(bound)
    copied.invoke("who?")

    assert copy.copy(watch.handler) is watch.handler
    check(watch.only, saw("a", "b"))


def keep(question: Any) -> Any:
    """A function other processes can import."""
    return question


@expect(**saw("a", "b"), name="bot")
def test_pickled_handler_finds_its_meter(watch: Watch, chain: Any) -> None:
    """In the same process it comes back with meter and options; it stays hashable."""
    handler = RagMeterCallbackHandler(watch.meter, question=keep, answer=lambda x: x, name="bot")
    restored = pickle.loads(pickle.dumps({"callbacks": [handler]}))["callbacks"][0]
    chain.invoke("who?", config={"callbacks": [restored]})

    assert len({handler, restored}) == 2
    assert restored.meter is watch.meter


def test_pickled_handler_in_another_process() -> None:
    """There it does nothing until that process has a meter of its own."""
    with watching() as watch:
        pickled = pickle.dumps(watch.handler)
    code = f"""
        import pickle
        from langchain_core.runnables import RunnableLambda
        from langchain_core.retrievers import BaseRetriever
        from langchain_core.documents import Document
        from ragmeter import RagMeter
        from ragmeter.adapters import instrument
        from ragmeter.exporters.memory import InMemoryExporter

        class R(BaseRetriever):
            def _get_relevant_documents(self, query, *, run_manager):
                return [Document("x")]

        handler = pickle.loads({pickled!r})
        assert handler.meter is None
        R().invoke("unheard", config={{"callbacks": [handler]}})
        memory = InMemoryExporter()
        meter = instrument(RagMeter(exporters=[memory]), frameworks=["langchain"])
        R().invoke("q", config={{"callbacks": [handler]}})
        assert meter.flush(60)
        print([r.sample.question for r in memory.results])
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == "['q']", done.stderr


def test_a_meter_is_not_kept_alive_by_what_handlers_share() -> None:
    """When meter and handlers are gone, so is their state."""
    watch = Watch()
    lcel(FixedRetriever(found=docs("a"))).invoke("who?", config=watch.config)
    watch.close()
    gone = weakref.ref(watch.meter)
    del watch
    until(lambda: gc.collect() >= 0 and gone() is None)  # the worker's last frame may hold it for a moment


def test_importing_adapters_imports_no_framework() -> None:
    """`ragmeter.adapters` is cheap; frameworks load when they are attached."""
    code = (
        "import sys, ragmeter.adapters, ragmeter.adapters.instrumentors;"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in"
        " ('langchain_core', 'llama_index', 'langgraph')))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
