"""Accounts of received spans: number scored, reasons for the others, and the line that enables scoring."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from ragmeter.adapters._unseen import MOST_GIVEN, GaveOut, suspects_in
from ragmeter.adapters.reading.answer import is_label, is_long
from ragmeter.adapters.reading.step import Step, Unknown
from ragmeter.adapters.reading.values import opened
from ragmeter.quality.segments import OTHER

from ._contexts import Read
from ._found import FoundRequest
from ._repeats import is_unanswered
from .conventions import READERS, is_indexing, is_writing, reading
from .heard import Account, UnscoredReason
from .record import SpanRecord

_LINES = json.loads(Path(__file__).with_name("remedies.json").read_text(encoding="utf-8"))
REMEDIES: Mapping[str, str] = _LINES["by_reason"]
_SWITCHES: Mapping[str, str] = {reader.name: reader.switch for reader in READERS}
_BY_SCOPE = {
    reason: [(re.compile(scope, re.IGNORECASE), line) for scope, line in _LINES[table].items()]
    for reason, table in (("content_off", "by_scope"), ("prompt_not_divided", "of_streams"))
}
"""The setting that turns texts on, or keeps a trace together, of each instrumentation that has one."""
_NO_SWITCH = "this instrumentation records no texts; use one that does, such as OpenInference"
_NO_RESULT = "record what the tool returns on its span"
_MOST_ACCOUNTS = 100
_MOST_SCOPE = 200
_MOST_TOOLS = 5


class Unheard(NamedTuple):
    """An entry of an account: a request, or spans without one, with the reason if not scored."""

    service: str
    """``service.name``; empty: unknown."""
    scope: str
    """Name of the instrumentation."""
    reason: str
    """The reason; empty if scored."""
    tools: tuple[str, ...] = ()
    """Tools that were called, some of which may retrieve."""
    spans: tuple[str, ...] = ()
    """Spans with an output, likewise."""
    suspects: tuple[str, ...] = ()
    """Tools whose texts were sent to a model; if there are any, they are the ``tools``."""
    convention: str = ""
    """Name of the convention of its spans."""
    is_request: bool = False


def unheard_of(reads: Sequence[Read], calls: Sequence[Step], *, is_divided: bool | None) -> Unheard:
    """Return the entry, with its reason, of spans that belong together and are no request.

    Their prompt shows the ends of documents or not; None: it has no place for any.
    """
    models = [read for read in reads if read.role == "model"]
    tools = [read for read in reads if read.role == "tool"]
    suspects = _names_in_prompts(tools, calls)
    names = suspects or tuple(dict.fromkeys(read.reader.tool_name(read.span) for read in tools))
    first = (models or tools or reads)[0]
    # A request that embeds and calls a model may search; one that writes into a store does not.
    fills = is_writing if models else is_indexing
    # Tools without a recorded output give no information, named or not. One that failed has none.
    ended = [read for read in tools if not read.span.failed]
    silent = ended and all(read.reader.result(read.span) is None for read in ended)
    if not tools and any(fills(read.span) for read in reads):
        reason = "indexing"
    elif not models:
        reason = "content_off" if silent else "no_model_call"
    elif is_divided is False:
        reason = "prompt_not_divided"
    elif not any(call.sent for call in calls) and not all(read.span.failed for read in models):
        reasons = {call.messages.reason for call in calls if isinstance(call.messages, Unknown)}
        reason = next((one for one in ("redacted", "truncated") if one in reasons), "content_off")
    elif not tools and all(is_unanswered(read.span) for read in models):
        reason = "no_reply"
    elif tools:
        reason = "content_off" if silent else "tool_not_shown"
    else:
        reason = "no_retrieval_seen"
    spans = () if tools else _steps_that_gave(reads)
    return Unheard(
        first.span.service, first.span.scope, reason, names[:_MOST_TOOLS], spans, suspects,
        first.reader.name,
    )  # fmt: skip


def _names_in_prompts(tools: Sequence[Read], calls: Sequence[Step]) -> tuple[str, ...]:
    """Return the names of tools with a text that a model was sent and that no model wrote."""
    given: list[GaveOut] = []
    for read in sorted(tools, key=lambda read: read.span.ended_ns)[:MOST_GIVEN]:
        result = opened(read.reader.result(read.span))
        one = GaveOut.of("tool", read.reader.tool_name(read.span), result)
        given += [] if one is None else [one]
    prompts = [text for call in calls for _, text in call.sent]
    found = suspects_in(given, prompts, [call.words for call in calls]) if given else []
    return tuple(dict.fromkeys(one.name for one in found))


def _steps_that_gave(reads: Sequence[Read]) -> tuple[str, ...]:
    """Return the names of innermost steps with an output: the user may declare that they retrieve."""
    above = {read.span.parent_id for read in reads}
    names = (
        read.span.name
        for read in reads
        if read.role in ("step", "join", "other")
        and read.span.parent_id is not None
        and read.span.span_id not in above
        and not is_indexing(read.span)
        and read.reader.result(read.span) is not None
    )
    return tuple(dict.fromkeys(names))[:_MOST_TOOLS]


class Accounts:
    """Counts received requests and spans. Not locked: one thread adds, and any may read.

    Args:
        in_process: Whether the line to add is an argument of the processor rather than an option of the
            server.
    """

    def __init__(self, *, in_process: bool = False) -> None:
        self._in_process = in_process
        self._counts: dict[tuple[str, str], Counter[str]] = {}
        self._requests: Counter[tuple[str, str]] = Counter()
        self._notes: dict[tuple[str, str, str], Unheard] = {}

    def add(self, one: Unheard) -> bool:
        """Count an entry; return whether its reason is new for this instrumentation and service."""
        key = one.service[:_MOST_SCOPE], one.scope[:_MOST_SCOPE]
        if key not in self._counts and len(self._counts) >= _MOST_ACCOUNTS:
            key = OTHER, OTHER
        self._counts.setdefault(key, Counter())[one.reason] += 1
        self._requests[key] += one.is_request
        place = key[0], key[1], one.reason
        known = self._notes.get(place)
        before = one if known is None else known
        self._notes[place] = before._replace(
            tools=tuple(dict.fromkeys(before.tools + one.tools))[:_MOST_TOOLS],
            spans=tuple(dict.fromkeys(before.spans + one.spans))[:_MOST_TOOLS],
        )
        return known is None

    def table(self) -> tuple[Account, ...]:
        """Return an account for each service and instrumentation, by name."""
        return tuple(
            Account(
                service,
                scope,
                sum(counts.values()),
                self._requests[service, scope],
                counts[_SCORED],
                tuple(
                    UnscoredReason(reason, count, note.tools, line_of(note, in_process=self._in_process))
                    for reason, count in counts.most_common()
                    if reason != _SCORED
                    for note in [self._notes[service, scope, reason]]
                ),
            )
            for (service, scope), counts in sorted(self._counts.items(), key=itemgetter(0))
        )


_SCORED = ""


PROCESSOR_LINE = "RagMeterSpanProcessor(meter, {})"
"""The code to change in the process itself."""


def line_of(note: Unheard, *, in_process: bool = False) -> str:
    """Return the line to add so that the entry is scored."""
    line = REMEDIES.get(note.reason) or _SWITCHES.get(note.convention, "")
    if note.convention in ("gen_ai", "any"):
        switches = (line for scope, line in _BY_SCOPE.get(note.reason, ()) if scope.search(note.scope))
        otherwise = _NO_RESULT if note.tools else _NO_SWITCH
        line = next(switches, otherwise if note.reason == "content_off" else line)
    fields = ":text=…,id=…" if note.reason == "unreadable_result" else ""
    named = [
        (kind, [name + fields for name in names])
        for kind, names in (("tool", note.tools), ("span", note.spans))
        if names
    ]
    if in_process and named:
        rules = ", ".join(f"retrieval_{kind}s={json.dumps(names, ensure_ascii=False)}" for kind, names in named)
        option = PROCESSOR_LINE.format(rules)
    else:
        option = " ".join(f"--retrieval-{kind} {name!r}" for kind, names in named for name in names)
    if note.reason == "content_off" and option:
        line = f"{line}; then {REMEDIES['tool_not_shown']}"
    return line.format(option).removesuffix(": ").removesuffix("; or name what retrieves")


def account_of(found: FoundRequest, *, scored: bool) -> Unheard:
    """Return the entry of a request."""
    first = found.span or found.members[0]
    reason = _SCORED if scored else found.reason or "captured"
    scope, convention = found.scope, found.convention
    if reason == "content_off" and found.answer is None:
        # A store's client has no switch, and the prompt may have its documents once the model's has it on.
        calls = (
            (one.scope, known[0].name)
            for one in found.members
            if (known := reading(one)) and known[1] == "model"
        )
        scope, convention = next(calls, (scope, convention))
    unread = [one.read for one in found.seen if one.documents.missing == "unreadable_result"]
    tools = tuple(one.reader.tool_name(one.span) for one in unread if one.role == "tool")
    spans = tuple(one.span.name for one in unread if one.role != "tool")
    return Unheard(first.service, scope, reason, tools, spans, (), convention, is_request=True)


def note_of(span: SpanRecord, reason: str) -> Unheard:
    """Return the entry of a span that is no request, with its reason.

    ``no_model_call``: no span of a trace is of a model or a retrieval. ``evaluation``: no user asked.
    ``repeated``: a call is in another trace, too.
    """
    return Unheard(span.service, span.scope, reason)


_EVALUATES = re.compile(
    r"(?:(?<![A-Za-z])e|E)val(?:s|uat\w*)?(?![a-z])|(?:(?<![A-Za-z])j|J)udge|[a-z]Metric\b|\bragas\b"
)


def is_evaluation(span: SpanRecord) -> bool:
    """Return whether a span without a retrieval is an evaluation, by its name; a server route is none."""
    return not span.is_entry and _EVALUATES.search(span.name) is not None


_EVALUATORS = re.compile(
    r"\s*(?:please tell if a given piece of information is supported by the context\b|"
    r"your task is to evaluate if the (?:response for the query|retrieved context)\b|"
    r"we want to understand if the following (?:information is present|query and response is))",
    re.IGNORECASE,
)
"""How LlamaIndex's evaluators begin their prompts. They ask engines, and no span has their name."""


_SUMMARY = "Describe what the provided text is about."
"""How LlamaIndex asks for the summaries of an index."""


def why_unasked(one: FoundRequest, earlier: Sequence[FoundRequest]) -> str | None:
    """Return the reason why no user asked: an index was built, or an evaluator asked; None if one did.

    An evaluator is one of LlamaIndex's, or asks for a label on an earlier answer.
    """
    question, answer = one.question or "", one.answer or ""
    if question.startswith(_SUMMARY):
        return "indexing"
    if "llama" in one.scope:
        models = ((known[0], span) for span in one.members if (known := reading(span)) and known[1] == "model")
        authors = ((reader, span) for reader, span in models if reader.said(span) == answer)
        if any(_EVALUATORS.match(text) for reader, span in authors for _, text in reader.prompt(span)):
            return "evaluation"
    others = (other.answer for other in earlier if other.answer and is_long(other.answer))
    return "evaluation" if is_label(answer.rstrip(".")) and any(text in question for text in others) else None


def notes_of_unread(spans: Sequence[SpanRecord]) -> list[Unheard]:
    """Return the entry of a trace in which nothing is a request and no other reason was found.

    No entry if it only makes an agent or asks a server of tools what it has: other traces have the requests.
    """
    judges = next(filter(is_evaluation, spans), None)
    if judges is None and all(
        span.attributes.get("gen_ai.operation.name") == "create_agent"
        or span.attributes.get("mcp.method.name", "tools/call") != "tools/call"
        for span in spans
    ):
        return []
    return [note_of(judges or spans[0], "no_model_call" if judges is None else "evaluation")]
