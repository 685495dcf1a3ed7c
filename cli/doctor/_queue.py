"""Checks the queue of ``RAGMETER_SCORING=queue``: whether it can be reached, and its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragmeter.fleet.queue import open_queue
from ragmeter.fleet.transport import TransportDownError, address_shown
from ragmeter.metrics import RagmeterError

from ._findings import CONFIGURED, REACHABLE, Finding

_VARIABLE = "RAGMETER_QUEUE_URL"
_SCORING = "RAGMETER_SCORING"


def check_queue(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings about the queue; none if no queue is set."""
    url = environ.get(_VARIABLE)
    if not url:
        return
    try:
        queue = open_queue(url)
    except RagmeterError as error:
        yield CONFIGURED.failed(_VARIABLE, str(error), f"correct {_VARIABLE}")
        return
    where = address_shown(url)
    try:
        status = queue.status()
    except TransportDownError as error:
        yield REACHABLE.failed(where, str(error), f"start the broker, or correct {_VARIABLE}")
        return
    workers = "" if status.workers is None else f", {status.workers} workers connected"
    yield REACHABLE.ok(where, f"{status.waiting} messages wait{workers}")
    if status.waiting and status.workers == 0:
        yield REACHABLE.warning(where, "no worker scores what waits", "start `ragmeter worker`")
    if not status.waiting and status.workers == 0 and environ.get(_SCORING) == "queue":
        yield REACHABLE.warning(where, "no worker is connected to score what comes", "start `ragmeter worker`")
    if status.dead:
        yield REACHABLE.warning(
            where,
            f"{status.dead} messages could not be scored",
            "`ragmeter queue dead list` says why; `dead replay N` sends them again, `dead drop N` deletes them",
        )
    for name in status.differing:
        yield REACHABLE.warning(
            where,
            f"{name} was declared with other bounds than ragmeter's",
            "fine if meant; else delete it while it is empty, and run `ragmeter queue declare`",
        )
