"""Looks at the process it is begun in, and says at its end what becomes of the requests of that application.

Begun before a program's first line by ``ragmeter doctor APP.py``, or with the import of ragmeter where
``RAGMETER_DOCTOR`` is set.  Until the end it only listens to what is logged: nothing is imported, wrapped or
started that the application has not, and no handler is added.  The report goes to standard error.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys

__all__ = ["VARIABLE", "begin", "said"]

VARIABLE = "RAGMETER_DOCTOR"
"""``1``, or the id of the process that is asked about: others report only if they saw requests."""
_MOST = 200

said: dict[tuple[str, str], tuple[int, str]] = {}
"""Warnings and errors of OpenTelemetry and ragmeter, by logger and template: how often, an example."""


def begin() -> None:
    """Examine this process from now on. Does nothing when that was begun."""
    if _begun:
        return
    _begun.append(os.getpid())
    # First in, last out: whatever else ends with the process has ended by then.
    atexit.register(_report)
    make = logging.getLogRecordFactory()

    def note(*args: object, **kwargs: object) -> logging.LogRecord:
        record: logging.LogRecord = make(*args, **kwargs)
        if record.levelno >= logging.WARNING and record.name.startswith(_LOGGERS):
            known = said.get(key := (record.name, str(record.msg)))
            if known is not None and record.name != "ragmeter":
                said[key] = known[0] + 1, known[1]
            elif len(said) < _MOST:
                said[key] = 1, record.getMessage()  # of ragmeter, the last: it knows most
        return record

    logging.setLogRecordFactory(note)


_begun: list[int] = []
_LOGGERS = ("opentelemetry", "ragmeter")


def _report() -> None:
    from ragmeter._runtime.guard import ErrorLog, Guard  # noqa: PLC0415

    with Guard("doctor", ErrorLog()):
        from .doctor._application import report  # noqa: PLC0415 -- at the very end

        report(
            is_asked_about=os.environ.get(VARIABLE) in ("1", str(os.getpid())),
            is_fork=os.getpid() != _begun[0],
            said=said,
        )
    if sys.stderr is not None:
        sys.stderr.flush()
