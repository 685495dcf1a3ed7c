"""What other tools' users ran into, one test each."""

import asyncio
import logging
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableLambda
from langchain_fakes import (
    FixedRetriever,
    TellingModel,
    Watch,
    docs,
    expect,
    frameworks_deprecate,
    joined,
    lcel,
)
from opentelemetry import context as otel_context

from ragmeter.adapters import instrument, uninstrument


def test_context_is_never_attached(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    """langfuse#8780, openllmetry#3231: "Failed to detach context"; ours never attaches one."""
    chain = lcel(FixedRetriever(found=docs("a")))
    caplog.set_level(logging.DEBUG, logger="opentelemetry")
    before = otel_context.get_current()

    async def read() -> None:
        inside = otel_context.get_current()
        await chain.ainvoke("async", config=watch.config)
        async for _ in chain.astream("stream", config=watch.config):
            break
        assert otel_context.get_current() is inside

    chain.invoke("sync", config=watch.config)
    asyncio.run(read())

    assert otel_context.get_current() is before
    assert not [r for r in caplog.records if r.name.startswith("opentelemetry")]
    watch.meter.flush(60)


def test_serialized_none(watch: Watch) -> None:
    """langchain#26773, langfuse#3578: ``serialized`` is None for every runnable."""
    handler, root, tool, model = watch.handler, uuid4(), uuid4(), uuid4()
    handler.on_chain_start(None, {"question": "who?"}, run_id=root)  # type: ignore[arg-type]
    handler.on_tool_start(None, "x", run_id=tool, parent_run_id=root)  # type: ignore[arg-type]
    handler.on_tool_end("x", run_id=tool)
    handler.on_llm_start(None, ["x"], run_id=model, parent_run_id=root)  # type: ignore[arg-type]
    handler.on_llm_end(None, run_id=model)
    handler.on_chain_end(None, run_id=root)

    assert watch.results == []


@expect(question="who?", texts=["doc-a", "doc-b"], answer="doc-a says so.")
def test_arguments_by_their_names(watch: Watch) -> None:
    """A wrapper of handlers hands on what it is given by the names that LangChain's own class declares."""
    handler, root, search, model = watch.handler, uuid4(), uuid4(), uuid4()
    said = LLMResult(generations=[[ChatGeneration(message=AIMessage("doc-a says so."))]])
    handler.on_chain_start(serialized={}, inputs="who?", run_id=root)
    handler.on_retriever_start(serialized={}, query="who?", run_id=search, parent_run_id=root)
    handler.on_retriever_end(documents=docs("a", "b"), run_id=search, parent_run_id=root)
    messages = [[HumanMessage("doc-a doc-b who?")]]
    handler.on_chat_model_start(serialized={}, messages=messages, run_id=model, parent_run_id=root)
    handler.on_llm_end(response=said, run_id=model, parent_run_id=root)
    handler.on_chain_end(outputs="doc-a says so.", run_id=root)


@expect(status="error")
def test_an_error_by_its_name(watch: Watch) -> None:
    handler, root, search = watch.handler, uuid4(), uuid4()
    handler.on_chain_start(serialized={}, inputs="who?", run_id=root)
    handler.on_retriever_start(serialized={}, query="who?", run_id=search, parent_run_id=root)
    handler.on_retriever_error(error=OSError("gone"), run_id=search, parent_run_id=root)
    handler.on_chain_error(error=OSError("gone"), run_id=root)


def test_synchronous_call_inside_a_running_loop(watch: Watch) -> None:
    """langchain#23909, open_deep_research#60: no second loop, no thread, no "bound to a different event loop"."""

    async def call() -> None:
        lcel(FixedRetriever(found=docs("a"))).invoke("who?", config=watch.config)

    asyncio.run(call())

    assert watch.sample.status == "ok"
    assert watch.handler.run_inline


@expect(status="retrieval_only", texts=["doc-a"])
def test_retrieval_in_a_plain_thread_is_a_request_of_its_own(watch: Watch) -> None:
    """langsmith-sdk#771: a bare thread has no context; the documented limit, not a mixed sample."""
    retriever = FixedRetriever(found=docs("a"))

    def search(question: str) -> Any:
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(retriever.invoke, question).result(60)
        return TellingModel().invoke(joined(found)).content

    instrument(watch.meter, frameworks=["langchain"])
    try:
        RunnableLambda(search).invoke("who?")
    finally:
        uninstrument()


def test_a_short_lived_process_loses_nothing(tmp_path: Path) -> None:
    """langfuse#797: a script that ends right after its request still reports it."""
    out = tmp_path / "scores.jsonl"
    code = f"""
        from langchain_core.documents import Document
        from langchain_core.retrievers import BaseRetriever
        from ragmeter import Limits, RagMeter
        from ragmeter.adapters.langchain import RagMeterCallbackHandler
        from ragmeter.exporters.jsonl import JsonlExporter

        class R(BaseRetriever):
            def _get_relevant_documents(self, query, *, run_manager):
                return [Document("x")]

        handler = RagMeterCallbackHandler(RagMeter(exporters=[JsonlExporter({str(out)!r})], limits=Limits(shutdown_timeout_s=60)))
        R().invoke("q", config={{"callbacks": [handler]}})
    """
    subprocess.run([sys.executable, "-I", "-c", textwrap.dedent(code)], check=True, timeout=60)

    assert len(out.read_text(encoding="utf-8").splitlines()) == 1


@expect(answer="saw doc-a")
@frameworks_deprecate
def test_attaching_everything_that_is_installed(watch: Watch) -> None:
    """`instrument` without names finds LangChain by itself, and gives the meter back."""
    assert instrument(watch.meter) is watch.meter
    try:
        lcel(FixedRetriever(found=docs("a"))).invoke("who?")
    finally:
        uninstrument()
