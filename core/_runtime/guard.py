"""The one place where ragmeter swallows an exception.

All ragmeter code that runs inside the host application, on our worker threads or at exit runs under a
`Guard`: callbacks, scoring, exporters, shutdown. A guard contains `Exception` only, counts it by component
and logs it at most once per component and minute. `BaseException` (KeyboardInterrupt, SystemExit,
CancelledError) passes through: stopping the process is the host's decision. So does an exception of the
host's signal handler that hits while our code runs, such as a task queue's time limit.

The text of an error is logged only if the error is ragmeter's own: errors of a user's hook or a framework may
quote the text of a request.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from traceback import extract_tb
from types import FrameType
from weakref import ref

from ragmeter.metrics._display.printing import Lines
from ragmeter.metrics.errors import loggable

from .stats import REPEAT_AFTER_S, OncePerMinute, Tally

logger = logging.getLogger("ragmeter")

CO_VARARGS = 0x04
"""A code object's flag for ``*args``, as in `inspect`, which is slow to import."""

_observers: list[Callable[[str, Exception], None]] = []


@contextmanager
def observed_errors(observer: Callable[[str, Exception], None]) -> Iterator[None]:
    """Pass every contained error within the block to `observer`; for ragmeter's own tests."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


class ErrorLog:
    """Counts contained errors by component and logs each kind at most once a minute. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._counts = Tally()
        self._may_log = OncePerMinute(clock)

    @property
    def counts(self) -> dict[str, int]:
        """Contained errors so far, by component."""
        return {str(component): count for component, count in self._counts.counts().items()}

    def report(self, component: str, error: Exception) -> None:
        """Count `error`, and log it unless the same kind was logged recently."""
        self._counts.add((component, 1))
        if self._may_log.allows((component, type(error).__name__)):
            try:
                logger.error(
                    "ragmeter contained an error in %s: %s. Your application is not affected; "
                    "scores of this request may be missing. (further ones like it are counted, not "
                    "logged, for %d s; where it was raised at DEBUG)",
                    component,
                    loggable(error),
                    int(REPEAT_AFTER_S),
                )
                said = "%s in %s was raised here:\n%s"
                logger.debug(said, type(error).__name__, component, Lines(_where(error)))
            except Exception:  # noqa: BLE001 -- standard error is closed, a handler of the host raises
                self._counts.add(("logging", 1))
        for observer in tuple(_observers):
            observer(component, error)


def _where(error: Exception) -> Iterator[str]:
    """Yield two lines a frame, as Python shows them."""
    for frame in extract_tb(error.__traceback__):
        yield f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        yield f"    {frame.line}"


class Guard:
    """Contains any `Exception` raised in the block and reports it. Reusable and reentrant.

    Args:
        component: Name of the callback or step, e.g. ``"langchain.on_retriever_end"``; a constant, as it
            becomes a metric attribute.
        log: Counts and logs the contained errors.
    """

    __slots__ = ("_component", "_log")

    def __init__(self, component: str, log: ErrorLog) -> None:
        self._component = component
        self._log = log

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> bool:
        return isinstance(error, Exception) and self.contains(error)

    def contains(self, error: Exception) -> bool:
        """Report `error` and return True; return False for the host's, which the caller must raise again.

        For code that runs many times in a request: a ``with`` block costs two calls, and ``except Exception
        as error: if not guard.contains(error): raise`` none.
        """
        if is_hosts(error):
            return False
        self._log.report(self._component, error)
        return True


class _FrontDoor(ErrorLog):
    """Reports errors of code without a meter to the meter built last, if any."""

    def __init__(self) -> None:
        super().__init__()
        self._meters: list[ref[ErrorLog]] = []

    def serve(self, log: ErrorLog) -> None:
        """Report to `log` from now on, as long as its meter lives."""
        self._meters = [known for known in self._meters if known() is not None] + [ref(log)]

    def report(self, component: str, error: Exception) -> None:
        """Report `error` to the latest living meter, else here."""
        alive = [log for log in (known() for known in reversed(self._meters)) if log is not None]
        if alive:
            alive[0].report(component, error)
        else:
            super().report(component, error)


front_door = _FrontDoor()


def is_hosts(error: BaseException | None) -> bool:
    """Return whether a signal handler of the host raised `error` during other code.

    Python calls a handler with the signal's number and the interrupted frame, which is the frame below the
    handler's: no other function is called like that.
    """
    step = None if error is None else error.__traceback__
    below: FrameType | None = None
    while step is not None:
        frame = step.tb_frame
        if below is not None and _is_handler(frame, below):
            return True
        below, step = frame, step.tb_next
    return False


def _is_handler(frame: FrameType, below: FrameType) -> bool:
    code = frame.f_code
    number = code.co_argcount + bool(code.co_flags & CO_VARARGS)
    if number < 1:
        return False
    values = frame.f_locals
    given: list[object] = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & CO_VARARGS:
        given += values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]) or ()
    return any(isinstance(one, int) and other is below for one, other in pairwise(given))
