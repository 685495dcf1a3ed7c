"""The demo's LangChain application: a vector store, a retriever and an LCEL chain, as a user has them.

Only its last lines know ragmeter, and they are the ones the demo advertises.  Called by `demo`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

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


class HashedNgramEmbeddings(Embeddings):
    """`HashedNgramEmbedding` with LangChain's interface. For the demo only: it knows no meaning."""

    def __init__(self, embedding: HashedNgramEmbedding) -> None:
        self._embedding = embedding

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed many texts."""
        return [self._embedding.embed(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed one query."""
        return self._embedding.embed(text)


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
    chunks: Sequence[Chunk],
    embedding: HashedNgramEmbedding,
    responder: Responder,
    meter: RagMeter,
    top_k: int,
) -> Iterator[Callable[[str], str]]:
    """Index `chunks`, build the chain, and return a function that asks it with ragmeter attached."""
    store = InMemoryVectorStore(HashedNgramEmbeddings(embedding))
    store.add_documents(
        [
            Document(
                id=chunk.id,
                page_content=chunk.text,
                metadata={"title": chunk.title, "language": chunk.language},
            )
            for chunk in chunks
        ]
    )
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
    yield lambda question: chain.invoke(
        question, config={"callbacks": [handler], "run_name": "demo"}
    )
