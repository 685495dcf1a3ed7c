"""Many requests at once, on one handler: none mixes with another, none is left behind."""

import asyncio
import gc
import random
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_fakes import PROMPT, EchoRetriever, TellingModel, Watch, Wrapper, joined, texts

entered: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
"""Set when a retriever began to hang for a question."""


class UnevenRetriever(EchoRetriever):
    """Takes its time, differently for each query; ``hang`` hangs until it is cancelled."""

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if query.startswith("hang"):
            entered[query].set()
            await asyncio.sleep(3600)
        await asyncio.sleep(random.random() / 200)
        return self._get_relevant_documents(query, run_manager=run_manager)


def fail_if_asked(question: str) -> str:
    """``fail...`` questions fail after their retrieval."""
    if question.startswith("fail"):
        raise ValueError(question)
    return question


def chains() -> list[Runnable[Any, Any]]:
    """Chains of different shapes over the same parts, all shared by all requests."""
    retriever = UnevenRetriever()
    model = TellingModel()
    tail = PROMPT | model | (lambda message: message.content)

    def chain(source: Any) -> Runnable[Any, Any]:
        head = {"context": source | joined, "question": RunnablePassthrough()}
        return head | RunnablePassthrough.assign(question=lambda x: fail_if_asked(x["question"])) | tail

    return [
        chain(retriever),
        chain(Wrapper(base=retriever)),
        chain(retriever | RunnableLambda(lambda found: found[::-1])),
        chain(RunnableLambda(lambda question: [Document(f"doc-{question}-x")])).with_fallbacks(
            [chain(retriever)]
        ),
        chain(retriever).with_config(run_name="named"),
    ]


def expected_texts(question: str, shape: int) -> list[str]:
    """What the sample of a question must hold."""
    both = [f"doc-{question}-1", f"doc-{question}-2"]
    if shape == 2:
        return both[::-1]
    return [f"doc-{question}-x"] if shape == 3 else both


def config_of(watch: Watch, question: str) -> Any:
    """Each request brings a reference of its own."""
    note = {"reference": {"answer": question}, "user_id": question}
    return {"callbacks": [watch.handler], "metadata": {"ragmeter": note}}


async def one(watch: Watch, chain: Any, question: str, way: int) -> None:
    """One asynchronous request, in one of several ways."""
    config = config_of(watch, question)
    try:
        if question.startswith("hang"):
            task = asyncio.ensure_future(chain.ainvoke(question, config=config))
            await entered[question].wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        elif way == 0:
            await chain.ainvoke(question, config=config)
        elif way == 1:
            async for _ in chain.astream(question, config=config):
                pass
        else:
            await asyncio.to_thread(chain.invoke, question, config)
    except ValueError:
        pass


def sync(watch: Watch, chain: Any, questions: list[str], way: int) -> None:
    """Synchronous requests of one thread."""
    configs = [config_of(watch, question) for question in questions]
    if way == 0:
        chain.batch(questions, config=configs, return_exceptions=True)
        return
    for question, config in zip(questions, configs, strict=True):
        with suppress(ValueError):
            if way == 1:
                chain.invoke(question, config=config)
            else:
                list(chain.stream(question, config=config))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_interleaved_requests_never_mix(watch: Watch, seed: int) -> None:
    """braintrust#621, langfuse#3491: threads × asyncio × batch; every sample is its own request's."""
    choose = random.Random(seed)
    entered.clear()
    shapes = chains()
    asked: dict[str, int] = {}

    def new_question(kinds: list[str]) -> tuple[str, int]:
        shape = choose.randrange(len(shapes))
        kind = choose.choice(kinds)
        if kind != "q" and shape == 3:
            kind = "q"
        question = f"{kind}{len(asked)}"
        asked[question] = shape
        return question, shape

    jobs: list[Any] = []
    with ThreadPoolExecutor(8) as pool:
        for _ in range(24):
            shape = choose.randrange(len(shapes))
            questions = []
            for _ in range(5):
                question, _ = new_question(["q", "q", "fail"])
                asked[question] = shape
                if shape == 3 and question.startswith("fail"):
                    del asked[question]
                    continue
                questions.append(question)
            jobs.append(pool.submit(sync, watch, shapes[shape], questions, choose.randrange(3)))

        async def many() -> None:
            tasks = []
            for _ in range(120):
                question, shape = new_question(["q", "q", "fail", "hang"])
                tasks.append(one(watch, shapes[shape], question, choose.randrange(3)))
            await asyncio.gather(*tasks)

        asyncio.run(many())
        for job in jobs:
            job.result(60)

    results = watch.results
    counts = Counter(result.sample.question for result in results)
    assert set(counts.values()) == {1}
    assert set(counts) == set(asked)
    for result in results:
        sample = result.sample
        question = str(sample.question)
        assert sample.reference is not None
        assert (sample.reference.answer, result.run.user_id) == (question, question)
        if question.startswith("hang"):
            assert (sample.status, sample.contexts) == ("cancelled", None)
            continue
        wanted = expected_texts(question, asked[question])
        assert texts(sample) == wanted
        if question.startswith("fail"):
            assert (sample.status, sample.answer) == ("error", None)
        else:
            assert (sample.status, sample.answer) == ("ok", "saw " + ",".join(wanted))


def test_nothing_is_left_after_hundreds_of_requests_of_all_endings() -> None:
    """openllmetry#2790, langsmith-sdk#2097: the handler's own state is zero at the end."""
    from ragmeter import RagMeter
    from ragmeter.adapters.langchain import RagMeterCallbackHandler

    watch = Watch()
    watch.meter.shutdown(timeout_s=60)
    watch.meter = RagMeter(metrics=[], exporters=[watch.memory], sample_rate=0.0)
    watch.handler = RagMeterCallbackHandler(watch.meter)
    retriever = UnevenRetriever(k=1)
    chain = retriever | RunnableLambda(lambda found: fail_if_asked(found[0].page_content[4:]))
    config = watch.config
    hundred = [f"{'fail' if i % 3 == 0 else 'q'}{i}" for i in range(100)]
    for _ in range(3):
        chain.batch(hundred, config=config, return_exceptions=True)
    for i in range(100):
        stream = chain.stream(f"q{i}", config=config)
        if i % 2:
            next(stream)
            stream.close()
        del stream

    async def more() -> None:
        async def left(i: int) -> None:
            async for _ in chain.astream(f"q{i}", config=config):
                break

        async def cancelled() -> None:
            task = asyncio.ensure_future(chain.ainvoke("hang", config=config))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        await asyncio.gather(*(left(i) for i in range(100)))
        await asyncio.gather(*(cancelled() for _ in range(100)))
        gc.collect()
        await asyncio.sleep(0.05)

    asyncio.run(more())
    gc.collect()

    assert watch.state == 0
    assert watch.handler.open_requests == 0
    assert watch.meter.stats().captured >= 500
    watch.close()
