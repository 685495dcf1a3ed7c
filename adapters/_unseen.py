"""Unseen retrievals: requests that called a model and gave no sample, and the possible retrievers.

While a request runs, an adapter records the output of its tools and functions, by reference, and only for the
first requests of a meter. When one ends without a retrieval, the worker checks whether such a text was in a
prompt: its producer may be a retriever, and the log has the line that configures it. Results of tools and
functions that the user has named as retrieving are read here as well, by the rules for spans.

A tool that was not named counts as a retrieval if it returned passages and a later call was sent them
(`shaped_documents`). Texts that contain the question or a model's reply derive from these and are left out. A
named result in which no document is recognised leaves contexts unknown.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from ragmeter.adapters import default_meter
from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters.reading.fields import FIELD_NAMES, fields_of, items_of, strings_in
from ragmeter.adapters.reading.letters import letters_of, weight_of
from ragmeter.adapters.reading.prompt_documents import PromptTemplates
from ragmeter.adapters.reading.prompts import MAX_PROMPTS, Sent
from ragmeter.adapters.reading.results import (
    ANY_TOOL,
    RetrievalTool,
    as_tools,
    cut,
    is_list,
    reads_as_retrieved,
    tool_for,
)
from ragmeter.adapters.reading.route import Found, Who
from ragmeter.exporters.protocol import Suspects
from ragmeter.requests.lone_retrieval import RecentRetrievals

if TYPE_CHECKING:
    from ragmeter import RagMeter
    from ragmeter.adapters.reading.step import Step


LOOKS = 100
"""Requests of a meter whose tools' and functions' output an adapter records."""
MORE_LOOKS = 5
"""Requests that are checked again when the number of those without a retrieval has doubled."""
MOST_GIVEN = 50
"""Maximum output texts recorded per request."""
MIN_SHOWN = 60
"""A prompt of fewer characters shows no documents."""
MIN_LETTERS = 20
"""A text of fewer letters is a label or a number, not a retrieved text."""
MAX_ITEMS = 200
_MAX_DEPTH = 6


class RetrievalRules(NamedTuple):
    """The tools and functions that the user declared to retrieve."""

    tools: tuple[RetrievalTool, ...] = ()
    functions: tuple[RetrievalTool, ...] = ()

    def rule_for(self, name: str | None, *, is_tool: bool) -> RetrievalTool | None:
        """Return the user's rule for a tool or function of this name, or None."""
        rules = self.tools if is_tool else self.functions
        if not rules or name is None:
            return None
        return tool_for(name, rules)


def retrieval_rules(
    tools: Iterable[str | RetrievalTool], functions: Iterable[str | RetrievalTool]
) -> RetrievalRules | None:
    """Return the user's rules, or None.

    Raises:
        ConfigurationError: One is neither a name nor a rule, or all are one string.
    """
    rules = RetrievalRules(as_tools(tools), as_tools(functions, "retrieval_functions"))
    return rules if any(rules) else None


def may_show(calls: Iterable[Sent]) -> bool:
    """Return whether a model was sent enough text to contain documents."""
    return any(len(text) >= MIN_SHOWN for sent in calls for _, texts in sent for text in texts)


def context_in(variables: Mapping[str, Any]) -> str | None:
    """Return the value of a template's context variable, if it is a text."""
    for key in _CONTEXTS:
        text = variables.get(key)
        if type(text) is str:
            return text
    return None


def documents_of(result: Any, rule: RetrievalTool) -> tuple[ContextSnapshot, ...] | None:
    """Return the documents in a result copied by `plain_of`; None if no part of it is known to be one."""
    found = cut(result, rule)
    if found is None or any(item.text is None for item in found):
        return None
    return tuple(ContextSnapshot.take(*item[:4]) for item in found)


N = TypeVar("N", bound=Found)


def retrieved_by_shape(notes: Sequence[N], calls: Sequence[Step], *, lists_only: bool = False) -> list[N]:
    """Return the unnamed tools that retrieved, with their documents set; rules as in `shaped_documents`."""
    results = [(note.ended_order or 0, note.result) for note in notes]
    found: list[N] = []
    for note, documents in zip(notes, shaped_documents(results, calls, lists_only=lists_only), strict=True):
        if documents:
            note.contexts, note.result = documents, None
            found.append(note)
    return found


def shaped_documents(
    results: Sequence[tuple[int, object]], calls: Sequence[Step], *, lists_only: bool = False
) -> list[tuple[ContextSnapshot, ...]]:
    """Return the documents that each tool retrieved, as far as recognisable; on the worker.

    A tool counts if a later call was sent the first of its passages, and no earlier call's reply contains it:
    an agent called as a tool returns a reply.

    Args:
        results: Output of tools: its time, in the units of `Step.started_ns`, and its copy by `plain_of`.
        calls: The request's calls of models.
        lists_only: Whether a text counts only if it is a list: in a request with a known retrieval, a tool's
            text may be anything.
    """
    if not (results and calls) or sum(len(text) for call in calls for _, text in call.sent) > MAX_PROMPTS:
        return [() for _ in results]
    pages = [
        (call.started_ns, "\0".join(letters_of(text) for _, text in call.sent), letters_of(call.words))
        for call in calls
    ]
    shaped: list[tuple[ContextSnapshot, ...]] = []
    for order, result in results:
        is_read = not lists_only or is_list(result)
        found = (documents_of(result, ANY_TOOL) if is_read else None) or ()
        head = (reads_as_retrieved(found) or "")[:_HEAD]  # type: ignore[arg-type]  # they have its fields
        is_sent = head and any(began >= order and head in sent for began, sent, _ in pages)
        is_reply = any(began < order and head in said for began, _, said in pages)
        shaped.append(found if is_sent and not is_reply else ())
    return shaped


_HEAD = 64
"""Letters of a passage that are looked for in prompts."""


def content_of(output: object) -> object:
    """Return a tool's content for the model, by reference if it is a text.

    A command of LangGraph's has it in the messages of its update.
    """
    if type(output).__name__ == "Command":
        update = getattr(output, "update", None)
        messages = update.get("messages") if isinstance(update, Mapping) else None
        output = messages[-1] if isinstance(messages, (list, tuple)) and messages else None
    content = output if type(output) is str else getattr(output, "content", None)
    return content if type(content) is str else plain_of(output)


_UNREADABLE = object()


def plain_of(value: object, depth: int = 0) -> Any:
    """Copy an object's stored values in JSON's types, texts by reference; of documents their content."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Enum):
        return plain_of(value.value, depth)
    if isinstance(value, (date, Decimal, UUID)):
        return str(value)
    items = items_of(value) if depth < _MAX_DEPTH else None
    if items is not None:
        if isinstance(value, (list, tuple)) and len(value) > MAX_ITEMS:
            return _UNREADABLE
        return [plain_of(item, depth + 1) for item in items]
    fields = fields_of(value) if depth < _MAX_DEPTH else None
    if not fields:
        return {} if value == {} else _UNREADABLE
    if not isinstance(value, dict):
        if "raw_output" in fields or "content" in fields:  # of LlamaIndex's tools, or a message
            return plain_of(fields.get("raw_output", fields.get("content")), depth + 1)
        if "id_" in fields:  # a node
            fields["id"] = fields.pop("id_")
    return {key: plain_of(item, depth + 1) for key, item in fields.items()}


def result_in(output: object, taken: object) -> object:
    """Return the result of a function: the new fields of a state that it passes on, or the contexts."""
    if type(output) is not dict:
        return output
    before = taken if type(taken) is dict else {}
    new = {key: item for key, item in output.items() if before.get(key, output) is not item}
    if len(new) == 1:
        return next(iter(new.values()))
    return next((new[key] for key in _CONTEXTS if key in new), output)


_CONTEXTS = FIELD_NAMES["context"]


def query_of(given: object) -> str | None:
    """Return the query of a tool or function call, if it has one text."""
    texts = [item.text for item in strings_in(given)] if not isinstance(given, str) else [given]
    return texts[0] if len(texts) == 1 else None


class GaveOut(NamedTuple):
    """The output of a tool or function."""

    who: Who
    name: str
    """Empty if it has none."""
    texts: tuple[str, ...]

    @classmethod
    def of(cls, who: Who, name: str, held: object) -> GaveOut | None:
        """Return the texts of the output; None if it holds only labels and numbers."""
        texts = tuple(item.text for item in strings_in(held) if len(item.text) >= MIN_LETTERS)
        return cls(who, name, texts) if texts else None


class Lookout:
    """Records requests without a retrieval for one meter, and decides for how long texts are recorded.

    Args:
        meter: Counts them.
        framework: The adapter.
        line: The code that fixes it, with ``{}`` for the arguments to add.
    """

    def __init__(self, meter: RagMeter, framework: str, line: str) -> None:
        self._meter = weakref.ref(meter)
        self._framework = framework
        self._line = line
        self._unseen = 0
        self._templates = PromptTemplates()
        self.alone = RecentRetrievals()
        self.looks = LOOKS
        """Remaining requests whose tools' and functions' output is recorded; those that retrieved count,
        too."""

    def documents_shown(
        self,
        calls: Sequence[Step],
        name: str,
        question: str | None,
        answer: str | None,
        filled: str | None = None,
    ) -> tuple[ContextSnapshot, ...]:
        """Return the documents in the prompt of a request that retrieved nothing; on the worker.

        Only if its layout, or that of the context that a template was `filled` with, divides them, and beside
        a question.
        """
        if question is None:
            return ()
        shown = self._templates.shown(name, calls, answer, question, filled)
        found = shown.documents if shown is not None and shown.is_divided else ()
        return tuple(ContextSnapshot.take(*item[:4]) for item in found)

    def note(
        self, calls: Sequence[Sent], given: Sequence[GaveOut], question: str | None, said: Sequence[str | None]
    ) -> None:
        """Record a request that called a model and gave no sample. Compares nothing yet."""
        self._unseen += 1
        if self.looks:
            self.looks -= 1
        elif self._unseen & (self._unseen - 1) == 0:
            self.looks = MORE_LOOKS
        self._count("no_retrieval", lambda: self._suspects(calls, given, question, said))

    def unreadable(self, who: Who, name: str) -> None:
        """Record a named tool or function in whose result no document was recognised."""
        suspect = Suspects(self._line, *(((name,), ()) if who == "tool" else ((), (name,))))
        self._count("unreadable_result", lambda: suspect)

    def _count(self, reason: str, look: Callable[[], Suspects]) -> None:
        meter = self._meter()
        if meter is not None:
            meter.port.retrieval_unseen(self._framework, reason, look)

    def _suspects(
        self, calls: Sequence[Sent], given: Sequence[GaveOut], question: str | None, said: Sequence[str | None]
    ) -> Suspects:
        line = self._line
        if default_meter() is not None and default_meter() is self._meter():
            line = "instrument(meter, {})"
        prompts = [text for call in calls for _, texts in call for text in texts]
        found = suspects_in(given, prompts, [question, *said])
        return Suspects(
            line,
            tuple(dict.fromkeys(item.name for item in found if item.who == "tool")),
            tuple(dict.fromkeys(item.name for item in found if item.who == "function")),
        )


def read_results(notes: Iterable[Found], lookout: Lookout) -> bool:
    """Read the documents in the results of user-named calls; return whether all could be read."""
    all_read = True
    for note in notes:
        if note.rule is not None:
            note.contexts = documents_of(note.result, note.rule)
            note.result = None
            if note.contexts is None:
                all_read = False
                lookout.unreadable(note.who, note.name)
    return all_read


def suspects_in(given: Iterable[GaveOut], prompts: Sequence[str], known: Iterable[str | None]) -> list[GaveOut]:
    """Return the first producer of each output text that occurred in a prompt; runs on the worker.

    A text that contains one known by another origin, the question or a reply, derives from it.
    """
    if sum(map(len, prompts)) > MAX_PROMPTS:
        return []
    page = "\0".join(map(letters_of, prompts))
    others = [letters for text in known if text and weight_of(letters := letters_of(text)) >= MIN_LETTERS]
    found: list[GaveOut] = []
    letters_found: list[str] = []
    nameless: GaveOut | None = None
    for item in given:
        for text in item.texts:
            letters = letters_of(text)
            if weight_of(letters) < MIN_LETTERS or letters not in page:
                continue
            if any(one in letters or letters in one for one in others):
                continue
            if any(one in letters or letters in one for one in letters_found):
                continue
            if not item.name:
                nameless = nameless or item
                continue
            letters_found.append(letters)
            if item not in found:
                found.append(item)
    return found or ([nameless] if nameless else [])
