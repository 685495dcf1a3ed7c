"""The help desk of a small shop. Where a recipe imports it, you have your own application.

Retrieval by common words, and a model that repeats the first thing it is given: no key, no network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models.chat_models import SimpleChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

NOTES = {
    "returns": "Goods can be sent back within 30 days.",
    "delivery": "Delivery takes two days, and three on the islands.",
    "voucher": "A voucher is valid for two years.",
    "shop": "The shop opens at nine and closes at six.",
}
"""What the shop knows, by id."""


def find(question: str, k: int = 2) -> list[tuple[str, str]]:
    """Return the `k` notes, as (id, text), that share most words with the question."""
    asked = set(re.findall(r"\w+", question.lower()))
    return sorted(NOTES.items(), key=lambda note: -len(asked & set(re.findall(r"\w+", note[1].lower()))))[:k]


class Notes(BaseRetriever):
    """Finds notes, as a vector store's retriever would."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [Document(text, id=key) for key, text in find(query)]


class Clerk(SimpleChatModel):
    """Repeats the first note of its prompt, word by word where it is streamed."""

    @property
    def _llm_type(self) -> str:
        return "clerk"

    def _call(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> str:
        return messages[-1].text.splitlines()[0]

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for word in re.findall(r"\S+\s*", self._call(messages)):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


def build_chain() -> Runnable[str, str]:
    """Return retriever, prompt and model as one chain."""
    prompt = ChatPromptTemplate.from_template("{notes}\n\nQuestion: {question}")
    return (
        {
            "notes": Notes() | (lambda found: "\n".join(one.page_content for one in found)),
            "question": RunnablePassthrough(),
        }
        | prompt
        | Clerk()
        | StrOutputParser()
    )
