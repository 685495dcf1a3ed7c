"""The commands for scoring outside the application and their options: ``ragmeter worker``.

`app` adds them to the others; each one's work lives in a folder of its own.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ._console import say
from ._docstring_options import options_from_docstring
from ._ending import EXIT_FAILED, exit_with_line

__all__ = ["worker"]


@options_from_docstring
def worker(
    queue: str | None = None,
    processes: Annotated[int | None, typer.Option(min=1, max=256)] = None,
    once: bool = False,
    require_export: bool = False,
) -> None:
    """Score requests that applications publish (RAGMETER_SCORING=queue), until SIGTERM.

    Metrics, judge and exporters are set by the same variables as in an application that scores its own
    requests: RAGMETER_METRICS, RAGMETER_JUDGE_MODEL, RAGMETER_JSONL, OTEL_EXPORTER_OTLP_ENDPOINT.

    Args:
        queue (URL): Where applications publish: spool:///DIR, or a broker's address. Default:
            RAGMETER_QUEUE_URL, which keeps a password out of the list of processes.
        processes: Number of scoring processes. (default: one per core)
        once: Score the waiting requests, and exit.
        require_export: Requeue requests whose scores cannot be sent, instead of counting them as lost.
    """
    with exit_with_line():
        from .worker.run import run

        done = run(queue, processes=processes, once=once, require_export=require_export, say=say)
    if not done:
        raise typer.Exit(EXIT_FAILED)
