"""The reader's application that `documented_names` declares: the environment of documented blocks.

A real LangChain chain and a real LlamaIndex engine, each with a model that answers by rule. Executed by
`test_documented_blocks` in a separate process, before the blocks of each page.
"""

from typing import Any
from uuid import uuid4

from langchain_core.runnables import Runnable, RunnableLambda
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms.mock import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from opentelemetry.sdk.trace import TracerProvider
from rag_chain import DOCUMENTS, QUESTION, rag_chain

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.memory import InMemoryExporter


class _Finds(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=one.page_content), score=0.5) for one in DOCUMENTS]


def names() -> dict[str, Any]:
    """Return a new application: each name that `documented_names` declares, and its value."""
    meter = RagMeter(exporters=[InMemoryExporter()])
    synthesizer = get_response_synthesizer(llm=MockLLM())
    retriever = _Finds()
    chain: Runnable[Any, str] = RunnableLambda(_text_of) | rag_chain()
    return {
        "chain": chain,
        "engine": RetrieverQueryEngine(retriever, synthesizer),
        "retriever": retriever,
        "synthesizer": synthesizer,
        "question": QUESTION,
        "rewritten": "river rise",
        "golden": [QUESTION],
        "contexts": [one.page_content for one in DOCUMENTS],
        "documents": list(DOCUMENTS),
        "text": "It rises in the north.",
        "config": {},
        "run_id": uuid4(),
        "public_key": "pk-lf-none",
        "secret_key": "sk-lf-none",
        "meter": meter,
        "handler": RagMeterCallbackHandler(meter),
        "provider": TracerProvider(),
    }


def _text_of(given: Any) -> str:
    return str(given)
