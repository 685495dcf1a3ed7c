"""What all LangChain handlers of one meter share: its run tracker, its guards, its notes.

Handlers are cheap and may be made per request; the state stands here, one per meter, held by the
meter's life and found again by pickled handlers through a token.  Nothing here knows
LangChain's classes.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ragmeter import RagMeter
from ragmeter.adapters._default_meter import default_meter
from ragmeter.adapters._open_requests import OpenRequests
from ragmeter.context import RequestScope, parse_scope
from ragmeter.metrics import _fork as fork

from ._state import Options, RunTracker

__all__ = ["Attachment", "attachment_of", "default_attachment", "restore_handler"]


class Attachment:
    """The shared state of one meter's handlers."""

    def __init__(self, meter: RagMeter) -> None:
        self._meter = weakref.ref(meter)
        self.token = uuid.uuid4().hex
        self.tracker = RunTracker(self._evicted)
        self.annotations: OpenRequests[UUID, RequestScope] = OpenRequests(lambda _key, _note: None)
        self.on_chain_start = meter.guard("langchain.on_chain_start")
        self.on_chain_end = meter.guard("langchain.on_chain_end")
        self.on_retriever_start = meter.guard("langchain.on_retriever_start")
        self.on_retriever_end = meter.guard("langchain.on_retriever_end")
        self.on_retriever_error = meter.guard("langchain.on_retriever_error")
        self.on_llm_start = meter.guard("langchain.on_llm_start")
        self.on_llm_end = meter.guard("langchain.on_llm_end")
        self.on_tool_start = meter.guard("langchain.on_tool_start")
        self.on_tool_end = meter.guard("langchain.on_tool_end")
        self.on_error = meter.guard("langchain.on_error")
        self.on_note = meter.guard("langchain.metadata")
        self.on_annotate = meter.guard("langchain.annotate")
        self.on_override = meter.guard("langchain.override")
        self.on_span_lookup = meter.guard("langchain.target_span")

    @property
    def meter(self) -> RagMeter | None:
        """The meter, or None once nobody holds it any more."""
        return self._meter()

    def annotate(self, run_id: UUID, note: Mapping[str, Any]) -> None:
        """Keep a note for the request with this root run."""
        scope = parse_scope(note)
        if scope is not None:
            earlier = self.annotations.close(run_id)
            self.annotations.open(run_id, scope.merged_over(earlier))

    def take_annotation(self, run_id: UUID) -> RequestScope | None:
        """Return and forget the note for a request."""
        return self.annotations.close(run_id) if len(self.annotations) else None

    def _evicted(self) -> None:
        meter = self._meter()
        if meter is not None:
            meter.lost("evicted")


_lock = fork.lock()
_attachments: weakref.WeakKeyDictionary[RagMeter, Attachment] = weakref.WeakKeyDictionary()
_latest: list[Attachment | None] = [None]


def attachment_of(meter: RagMeter) -> Attachment:
    """Return the shared state of a meter's handlers."""
    with _lock:
        attached = _attachments.get(meter)
        if attached is None:
            attached = _attachments[meter] = Attachment(meter)
            meter.attached("langchain")
        return attached


def default_attachment() -> Attachment | None:
    """Return the state of the process's default meter, or None when there is none."""
    meter = default_meter()
    if meter is None:
        return None
    latest = _latest[0]
    if latest is None or latest.meter is not meter:
        latest = _latest[0] = attachment_of(meter)
    return latest


def restore_handler(kind: type[Any], token: str | None, options: Options) -> Any:
    """Rebuild a pickled handler: with its meter in the same process, else with the default one."""
    meter = None
    if token is not None:
        with _lock:
            found = [known for known, attached in _attachments.items() if attached.token == token]
        meter = found[0] if found else None
    handler = kind(meter)
    handler._options = options  # noqa: SLF001 -- this is the handler's own constructor
    return handler
