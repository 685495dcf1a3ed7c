"""The LlamaIndex application that the benchmarks send requests to: a retriever query engine.

A retriever that returns five nodes of 200 words at once and a model that answers at once. Used by the
overhead benchmark; it must not depend on what is attached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import CompletionResponse, CompletionResponseGen, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from texts import text

ANSWER = text(30, 77)


class FixedModel(CustomLLM):
    """Returns the same answer at once."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=32_000, num_output=256, model_name="fixed")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=ANSWER)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        def words() -> CompletionResponseGen:
            so_far = ""
            for word in ANSWER.split(" "):
                so_far += word + " "
                yield CompletionResponse(text=so_far, delta=word + " ")

        return words()


class FixedRetriever(BaseRetriever):
    """Returns the same nodes to every query."""

    def __init__(self, contexts: int = 5, words: int = 200) -> None:
        super().__init__()
        self._nodes = [
            TextNode(id_=f"node-{n}", text=text(words, n), metadata={"source": f"{n}.md"})
            for n in range(contexts)
        ]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=node, score=0.9 - n / 10) for n, node in enumerate(self._nodes)]


def requests(loop: Any) -> dict[str, Callable[[str], Any]]:
    """Return, for each calling method, a function that sends one request and waits for its end."""
    model, retriever = FixedModel(), FixedRetriever()
    engine = RetrieverQueryEngine(retriever, get_response_synthesizer(llm=model))
    streaming = RetrieverQueryEngine(retriever, get_response_synthesizer(llm=model, streaming=True))

    def stream(question: str) -> None:
        for _ in streaming.query(question).response_gen:
            pass

    return {
        "query": engine.query,
        "aquery": lambda q: loop.run_until_complete(engine.aquery(q)),
        "streaming query": stream,
    }
