"""The demo's LangChain application: a vector store, a retriever and an LCEL chain, as a user has them.

Only its last lines know ragmeter, and they are the ones the demo advertises.  Called by `demo`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.vectorstores import VectorStore

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

from ._embedding import HashedNgramEmbedding
from ._responders import INSTRUCTION, Responder, format_contexts
from .corpus import Chunk

SNIPPET = """\
from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

meter = RagMeter(references="golden.jsonl")          # references are optional
handler = RagMeterCallbackHandler(meter)
answer = chain.invoke(question, config={"callbacks": [handler]})"""
"""Code to attach ragmeter to one's own chain."""


class LibraryStore(VectorStore):
    """A vector store over a few documents. LangChain's own needs numpy, which LangChain does not install."""

    def __init__(self, embedding: HashedNgramEmbedding, documents: Sequence[Document]) -> None:
        self._embedding = embedding
        self._vectors = [(embedding.embed(one.page_content), one) for one in documents]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the `k` documents that are most similar to the query, the most similar first."""
        del kwargs
        wanted = [(slot, value) for slot, value in enumerate(self._embedding.embed(query)) if value]

        def similarity(one: tuple[Sequence[float], Document]) -> float:
            return sum(value * one[0][slot] for slot, value in wanted)

        return [document for _, document in heapq.nlargest(k, self._vectors, similarity)]

    @classmethod
    def from_texts(cls, *args: Any, **kwargs: Any) -> LibraryStore:
        """Raise: documents have ids."""
        del args, kwargs
        raise TypeError("a LibraryStore is built from documents")


class ResponderChatModel(BaseChatModel):
    """A `Responder` as a LangChain chat model."""

    responder: Any

    @property
    def _llm_type(self) -> str:
        return "ragmeter-demo"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.responder.name}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager, kwargs
        answer = self.responder.respond(str(messages[-1].content))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=answer))])


def _format(documents: Sequence[Document]) -> str:
    return format_contexts(document.page_content for document in documents)


@contextmanager
def attached_chain(
    chunks: Sequence[Chunk], embedding: HashedNgramEmbedding, responder: Responder, meter: RagMeter, top_k: int
) -> Iterator[Callable[[str], str]]:
    """Index `chunks`, build the chain, and return a function that asks it with ragmeter attached."""
    documents = [
        Document(
            id=chunk.id, page_content=chunk.text, metadata={"title": chunk.title, "language": chunk.language}
        )
        for chunk in chunks
    ]
    store = LibraryStore(embedding, documents)
    retriever = store.as_retriever(search_kwargs={"k": top_k})
    prompt = ChatPromptTemplate.from_messages(
        [("human", INSTRUCTION + "\n\n{context}\n\n<question>{question}</question>")]
    )
    chain: Runnable[str, str] = (
        {"context": retriever | _format, "question": RunnablePassthrough()}
        | prompt
        | ResponderChatModel(responder=responder)
        | StrOutputParser()
    )
    handler = RagMeterCallbackHandler(meter)
    yield lambda question: chain.invoke(question, config={"callbacks": [handler], "run_name": "demo"})
