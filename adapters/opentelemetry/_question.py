"""The question of a request: under a known name, in a prompt, or of its only search; never a lone text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragmeter.adapters.reading.messages import last_of
from ragmeter.adapters.reading.prompt_documents import asked_in, stands_in
from ragmeter.adapters.reading.request_texts import arguments_in, question_in
from ragmeter.adapters.reading.step import Step
from ragmeter.adapters.reading.values import is_hidden

from ._contexts import Read, Seen


@dataclass(frozen=True, slots=True)
class RequestQuestion:
    """The question of a request, and whether the user had it hidden."""

    question: str | None
    hidden: bool = False

    def apart_from(self, texts: Iterable[str | None], calls: Sequence[Step]) -> RequestQuestion:
        """Return what is asked in a question that is a whole prompt, with a document of the request in it."""
        whole = self.question or ""
        if not any(text and len(text) > 20 and text in whole for text in texts):
            return self
        asked = asked_in(calls)
        return self if asked is None else RequestQuestion(asked)

    @classmethod
    def of(
        cls, steps: Sequence[Read], seen: Sequence[Seen], models: Sequence[Read], calls: Sequence[Step]
    ) -> RequestQuestion:
        sources = [read for item in seen for read in item.retrievals]
        queries = {read.reader.query(read.span) for read in sources}
        for place, read in enumerate(steps):
            if place and read.role == "tool":
                break  # questions below it are a model's
            if read.reader.hides(read.span, "input"):
                return cls(None, hidden=True)
            if read.is_retrieval:
                continue
            question = read.reader.question(read.span)
            if question is not None:
                return cls(question)
            # Under an unknown name it is the question only if it was searched for, or a model was sent it:
            # others are ids and settings.
            given = arguments_in(read.span.attributes.get(read.reader.input_key))
            used = [text for text in given if text in queries or stands_in(text, calls)]
            if len(used) == 1:
                return cls(used[0])
        if any(read.reader.hides(read.span, "input") for read in sources):
            return cls(None, hidden=True)
        for variables in [model.reader.variables(model.span) for model in models]:
            for name in ("question", "query", "user_question", "query_str", "input"):
                if (asked := question_in(variables.get(name))) is not None:
                    return cls(asked)
        texts = [document.text for item in seen for document in item.documents.items]
        if any(read.tool is not None for read in sources):
            said = (last_of(model.reader.prompt(model.span), "user") for model in models)
            if any(map(is_hidden, said)):
                return cls(None, hidden=True)
        asked = asked_in(sorted(calls, key=lambda call: call.started_ns), texts)
        if asked is not None:
            return cls(asked)
        # The query of a tool that a model calls is in the model's words, if a step is above.
        asking = [read for read in sources if read.tool is None or not steps or read is steps[0]]
        queries = {read.reader.query(read.span) for read in asking} - {None}
        # Several queries are parts of a question, or several questions: none of them is the question.
        return cls(queries.pop() if len(queries) == 1 else None)
