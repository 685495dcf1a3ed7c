"""Writes the demo's answers: the user's own endpoint if one is configured, else a local extract.

Both take one prompt and give one answer.  `_with_langchain` and `_with_llama_index` wrap a
`Responder` as their framework's chat model.  This module must not know any framework.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ragmeter.metrics import MissingDependencyError

from ._embedding import HashedNgramEmbedding
from .corpus import load_questions

INSTRUCTION = (
    "Answer the question in one or two sentences, in the language of the question, using only the "
    "numbered texts. If they do not contain the answer, say that you do not know."
)
"""First line of every prompt; the frameworks' templates add the texts and the question."""

_TEXT = re.compile(r"<text>(.*?)</text>", re.DOTALL)
_QUESTION = re.compile(r"<question>(.*?)</question>", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_HAN = re.compile(r"[㐀-鿿]")
_REFUSALS = {
    _HAN: "给出的文本没有回答这个问题。",
    re.compile(r"[а-яё]", re.IGNORECASE): "В найденных текстах ответа нет.",
    re.compile(""): "The texts do not answer this question.",
}

REQUEST_TIMEOUT_S = 60.0
"""Most seconds for one answer of the user's endpoint."""
DEFAULT_MODEL = "gpt-4o-mini"


class Responder(Protocol):
    """Writes one answer to one prompt."""

    name: str
    """Name of the model, as shown to the user."""

    def respond(self, prompt: str) -> str:
        """Return the answer to `prompt`."""
        ...


def format_contexts(texts: Iterable[str]) -> str:
    """Number the texts and mark their beginnings and ends, as every prompt shows them."""
    return "\n".join(f"{number}. <text>{text}</text>" for number, text in enumerate(texts, start=1))


def split_sentences(text: str) -> list[str]:
    """Split a demo text into sentences; its articles have no abbreviations, so this is enough."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


class ExtractiveResponder:
    """Answers with the one or two retrieved sentences that share most with the question. No model is used.

    Questions of `made_up` get their answer there, which is in no text: language models invent such ones.
    """

    name = "local extract"

    def __init__(self, embedding: HashedNgramEmbedding, made_up: Mapping[str, str] | None = None) -> None:
        self._embedding = embedding
        self._made_up = made_up or {}

    def respond(self, prompt: str) -> str:
        """Quote the best sentences, in reading order; refuse if nothing is shared."""
        found = _QUESTION.search(prompt)
        question = found.group(1) if found else prompt
        if question in self._made_up:
            return self._made_up[question]
        sentences = [sentence for text in _TEXT.findall(prompt) for sentence in split_sentences(text)]
        ranked = sorted(
            (
                (self._embedding.similarity(question, sentence), -position)
                for position, sentence in enumerate(sentences)
            ),
            reverse=True,
        )
        if not ranked or ranked[0][0] < self.REFUSE_BELOW:
            return next(refusal for script, refusal in _REFUSALS.items() if script.search(question))
        best = ranked[0][0]
        chosen = sorted(-position for value, position in ranked[:2] if value >= best * self.SECOND_SHARE)
        joint = "" if _HAN.search(question) else " "
        return joint.join(sentences[position] for position in chosen)

    REFUSE_BELOW = 0.12
    """Similarity below which a sentence counts as unrelated to the question."""
    SECOND_SHARE = 0.7
    """A second sentence is quoted if its similarity is at least this share of the best one's."""


class EndpointResponder:
    """Asks an OpenAI-compatible endpoint; without a URL, OpenAI's."""

    def __init__(self, model: str, base_url: str | None, api_key: str) -> None:
        try:
            from openai import OpenAI  # noqa: PLC0415 -- optional, and slow to import
        except ImportError:
            raise MissingDependencyError("openai", "judge", "asking your own endpoint") from None
        self.name = model
        self._client: Any = OpenAI(base_url=base_url, api_key=api_key, timeout=REQUEST_TIMEOUT_S, max_retries=1)

    def respond(self, prompt: str) -> str:
        """Return the first choice's text."""
        reply = self._client.chat.completions.create(
            model=self.name, messages=[{"role": "user", "content": prompt}]
        )
        return reply.choices[0].message.content or "" if reply.choices else ""


def choose_responder(embedding: HashedNgramEmbedding, *, offline: bool = False) -> Responder:
    """Return the endpoint of ``OPENAI_API_KEY`` or ``OPENAI_BASE_URL`` if set, else a local responder."""
    key, base_url = os.environ.get("OPENAI_API_KEY"), os.environ.get("OPENAI_BASE_URL")
    if offline or not (key or base_url):
        made_up = {one.question: one.made_up for one in load_questions() if one.made_up}
        return ExtractiveResponder(embedding, made_up)
    model = os.environ.get("RAGMETER_DEMO_MODEL") or DEFAULT_MODEL
    return EndpointResponder(model, base_url or None, key or "none-needed")
