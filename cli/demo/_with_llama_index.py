"""The demo's LlamaIndex application: a vector index and its query engine, as a user has them.

Only the last lines know ragmeter, and they are the ones the demo advertises.  Called by `demo`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core import PromptTemplate, VectorStoreIndex
from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import CustomLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.schema import TextNode

from ragmeter import RagMeter
from ragmeter.adapters.llama_index import RagMeterHandler

from ._embedding import HashedNgramEmbedding
from ._responders import INSTRUCTION, Responder
from .corpus import Chunk

SNIPPET = """\
from ragmeter import RagMeter
from ragmeter.adapters.llama_index import RagMeterHandler

meter = RagMeter(references="golden.jsonl")          # references are optional
RagMeterHandler(meter).attach()
answer = query_engine.query(question)                # unchanged"""
"""Code to attach ragmeter to one's own engine."""


class HashedNgramEmbeddings(BaseEmbedding):
    """`HashedNgramEmbedding` with LlamaIndex's interface. For the demo only: it knows no meaning."""

    source: Any

    def _get_text_embedding(self, text: str) -> list[float]:
        return self.source.embed(text)  # type: ignore[no-any-return]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class ResponderLLM(CustomLLM):
    """A `Responder` as a LlamaIndex language model."""

    responder: Any

    @property
    def metadata(self) -> LLMMetadata:
        """Name and window of the model."""
        return LLMMetadata(model_name=self.responder.name, context_window=16_384)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer one prompt."""
        del formatted, kwargs
        return CompletionResponse(text=self.responder.respond(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Answer one prompt in a single piece."""
        reply = self.complete(prompt, formatted, **kwargs)
        yield CompletionResponse(text=reply.text, delta=reply.text)


@contextmanager
def attached_chain(
    chunks: Sequence[Chunk], embedding: HashedNgramEmbedding, responder: Responder, meter: RagMeter, top_k: int
) -> Iterator[Callable[[str], str]]:
    """Index `chunks`, build the engine, attach ragmeter, and return a function that asks the engine."""
    index = VectorStoreIndex(
        [
            TextNode(
                id_=chunk.id,
                text=chunk.text,
                metadata={"title": chunk.title, "language": chunk.language},
                excluded_embed_metadata_keys=["title", "language"],
                excluded_llm_metadata_keys=["title", "language"],
            )
            for chunk in chunks
        ],
        embed_model=HashedNgramEmbeddings(source=embedding, model_name="hashed-ngrams"),
    )
    model = ResponderLLM(responder=responder)
    engine = RetrieverQueryEngine(
        retriever=index.as_retriever(similarity_top_k=top_k),
        response_synthesizer=get_response_synthesizer(
            llm=model,
            response_mode=ResponseMode.COMPACT,
            text_qa_template=PromptTemplate(
                INSTRUCTION + "\n\n<text>{context_str}</text>\n\n<question>{query_str}</question>"
            ),
        ),
    )
    with RagMeterHandler(meter):
        yield lambda question: str(engine.query(question))
