"""Records a streamed answer as the caller reads it, without reading it ourselves.

`watch` puts a transparent proxy around a generator that belongs to the caller. It looks like the generator to
``inspect``, ``isinstance``, ``hash`` and ``==`` (other instrumentations key their tables by it), passes every
item and every exception on unchanged, and records the text. The end is reported once: read to the end, broken
off, dropped unread (by garbage collection), cancelled, or failed.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import wrapt

from ragmeter.metrics.sample import SampleStatus
from ragmeter.requests.by_hand import error_type, status_of_error

from ._calls import refusal_in

if TYPE_CHECKING:
    _Proxy = wrapt.ObjectProxy[Any]
else:
    _Proxy = wrapt.ObjectProxy  # not generic at run time in wrapt 1

_Step = tuple["Token[StreamedText | None]", "Token[StreamedText | None] | None"]
"""One step of a stream being read, for its end: what was current before."""

MAX_CHARACTERS = 1_000_000
"""Characters stored of an answer; a longer one is reported as ``partial``, so that memory stays bounded."""


being_read: ContextVar[StreamedText | None] = ContextVar("ragmeter_being_read", default=None)
"""The stream whose first item its reader is waiting for: only then does LlamaIndex call the model, and
nothing else identifies the request. Set for the duration of that one step."""


heard_by: ContextVar[StreamedText | None] = ContextVar("ragmeter_heard_by", default=None)
"""The stream whose reader is waiting for an item: the model's responses meanwhile belong to it."""


@dataclass(slots=True, eq=False)
class StreamedText:
    """The text of one streamed answer as far as it was read, and its end."""

    on_end: Callable[[StreamedText], None] | None
    """Called once, with this object, on the thread on which the stream ended, possibly the garbage
    collector's."""
    owner: Any = None
    """The owner of the stream; dropped when it ends."""
    begun: bool = False
    """Whether its first item was requested."""
    around: StreamedText | None = None
    """The record of another meter that watches the same stream."""
    status: SampleStatus | None = None
    """The status of its end; None while it is open."""
    refusal: str | None = None
    """The words of the refusal in a response of the stream, possibly empty; None without one."""
    error_type: str | None = None
    """The class of the exception that it raised."""
    _hands_on_responses: bool = False
    _heard: object = None
    _parts: list[str] = field(default_factory=list)
    _size: int = 0

    def take(self) -> str:
        """Return the text read so far and release it: the caller may hold the stream for ever."""
        parts, self._parts = self._parts, []
        return "".join(parts)

    def begin_step(self) -> _Step:
        """Begin a step of the stream: it is now the one that is read."""
        self.around = heard_by.get()
        first = None if self.begun else being_read.set(self)
        self.begun = True
        return heard_by.set(self), first

    def end_step(self, step: _Step, item: object = None, error: BaseException | None = None) -> None:
        """End a step, and record its item (a piece of text, or a chat response with a ``delta``) or its end."""
        self.around = None
        try:
            heard_by.reset(step[0])
            if step[1] is not None:
                being_read.reset(step[1])
        except ValueError:  # an abandoned coroutine may be closed in another context
            pass
        if error is not None:
            if isinstance(error, (StopIteration, StopAsyncIteration)):
                self.end("ok")
            else:
                self.fail(error)
            return
        if self.status is not None:
            return
        if not isinstance(item, str):
            self._hands_on_responses = True
            if (said := refusal_in(item)) is not None:
                self._note_refusal(said)
            item = getattr(item, "delta", None)
        if isinstance(item, str) and self._size <= MAX_CHARACTERS:
            self._size += len(item)
            self._parts.append(item)

    def hear(self, response: object) -> None:
        """Record a response of which the stream, and those it is read within, pass only the words on."""
        # Each decorator around it reports it, and the end reports it once more.
        if not (self.status or self._hands_on_responses or response is self._heard):
            self._heard = response
            if (said := refusal_in(response)) is not None:
                self._note_refusal(said)
        if self.around is not None:
            self.around.hear(response)

    def _note_refusal(self, said: str) -> None:
        before = self.refusal or ""
        # Some report all of it each time, others a piece.
        self.refusal = said if said.startswith(before) else before + said

    def end(self, status: SampleStatus, error: BaseException | None = None) -> None:
        """Record the end; only the first one counts."""
        # Removing the callback is atomic: reader and garbage collector may both get here.
        on_end, self.on_end = self.on_end, None
        if on_end is None:
            return
        if status == "ok" and self._size > MAX_CHARACTERS:
            status = "partial"
        self.status = status
        self.error_type = error_type(error)
        on_end(self)
        self.owner = self._heard = None

    def drop(self) -> None:
        """Record that it cannot be read further: broken off, or never started."""
        self.end("partial")

    def fail(self, error: BaseException) -> None:
        """Record the error raised at the stream's reader; ``GeneratorExit`` means it was broken off."""
        if isinstance(error, GeneratorExit):
            self.end("partial")
        else:
            status = status_of_error(error)
            self.end(status, None if status == "cancelled" else error)


def watch(stream: Any, text: StreamedText) -> Any:
    """Return a proxy of `stream`, a generator or iterator, sync or async, that fills `text`."""
    # Other instrumentations' proxies have the methods of both kinds: the innermost decides.
    inner = inspect.unwrap(stream)
    proxy: Any = _AsyncStream(stream, text) if hasattr(inner, "__anext__") else _Stream(stream, text)
    weakref.finalize(proxy, text.drop).atexit = False
    return proxy


class _Stream(_Proxy):
    """Proxy of the caller's generator."""

    def __init__(self, wrapped: Any, text: StreamedText) -> None:
        super().__init__(wrapped)
        self._self_text = text

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._pass(self.__wrapped__.__next__)

    def send(self, value: Any) -> Any:
        return self._pass(self.__wrapped__.send, value)

    def throw(self, *args: Any) -> Any:
        return self._pass(self.__wrapped__.throw, *args)

    def close(self) -> None:
        try:
            self.__wrapped__.close()
        except BaseException as error:
            self._self_text.fail(error)
            raise
        self._self_text.drop()

    def _pass(self, step: Callable[..., Any], *args: Any) -> Any:
        text = self._self_text
        begun = text.begin_step()
        try:
            item = step(*args)
        except BaseException as error:
            text.end_step(begun, error=error)
            raise
        text.end_step(begun, item)
        return item


class _AsyncStream(_Proxy):
    """Proxy of the caller's async generator."""

    def __init__(self, wrapped: Any, text: StreamedText) -> None:
        super().__init__(wrapped)
        self._self_text = text

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    def __anext__(self) -> Awaitable[Any]:
        return self._pass(self.__wrapped__.__anext__())

    def asend(self, value: Any) -> Awaitable[Any]:
        return self._pass(self.__wrapped__.asend(value))

    def athrow(self, *args: Any) -> Awaitable[Any]:
        return self._pass(self.__wrapped__.athrow(*args))

    async def aclose(self) -> None:
        try:
            await self.__wrapped__.aclose()
        except BaseException as error:
            self._self_text.fail(error)
            raise
        self._self_text.drop()

    async def _pass(self, step: Awaitable[Any]) -> Any:
        text = self._self_text
        begun = text.begin_step()
        try:
            item = await step
        except BaseException as error:
            text.end_step(begun, error=error)
            raise
        text.end_step(begun, item)
        return item
