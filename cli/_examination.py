"""Examines the running application, and reports at its end what happens to its requests.

It begins before a program's first line with ``ragmeter doctor APP.py``, or with the import of ragmeter if
``RAGMETER_DOCTOR`` is set. Until the end it only counts log records: it imports, wraps and starts nothing,
and adds no handler. The report goes to standard error.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys

VARIABLE = "RAGMETER_DOCTOR"
"""``1``, or the id of the process to examine: other processes report only if they saw requests."""
_MOST = 200

said: dict[tuple[str, str], tuple[int, str]] = {}
"""Warnings and errors of OpenTelemetry and ragmeter, by logger and template: their count, and an example."""


def begin() -> None:
    """Examine this process from now on. Does nothing if an examination is in progress."""
    if _begun:
        return
    _begun.append(os.getpid())
    # Exit functions run in reverse order of registration: this one runs last.
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
