"""All checks, in the order of their dependencies. Called by `app`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragmeter.metrics import RagmeterError
from ragmeter.settings.from_settings import scoring_arguments

from ._configuration import check_configuration, settings_or_none
from ._findings import TEST_REQUEST, Finding
from ._instrumentations import check_instrumentations
from ._packages import check_packages, installed_version
from ._queue import check_queue
from ._redis import check_shared


def examine(otlp: str | None = None, chunks: Path | None = None, *, judge: bool = True) -> Iterator[Finding]:
    """Run every check and yield each finding at once.

    Args:
        otlp: Endpoint to try instead of the environment's.
        chunks: The current index, to check the golden labels against.
        judge: Whether to ask judge and embedder, which may cost a fraction of a cent.
    """
    from ._golden import check_golden  # noqa: PLC0415 -- brings rich, and applications are examined without

    yield from check_packages()
    yield from check_configuration()
    settings = settings_or_none()
    yield from check_golden(settings, chunks)
    yield from check_instrumentations(os.environ)
    yield from check_queue(os.environ)
    if settings is not None:
        yield from check_shared(settings)
    if installed_version("opentelemetry-sdk") is None:
        yield TEST_REQUEST.skipped("everything", "needs the OpenTelemetry SDK")
        return
    # These modules need the SDK.
    from ._backends import check_backends, find_destinations  # noqa: PLC0415
    from ._trial import try_delivery, try_requests  # noqa: PLC0415

    destinations, findings = find_destinations(otlp, os.environ)
    yield from findings
    reachable = True
    for finding in check_backends(destinations):
        reachable = reachable and finding.state == "ok"
        yield finding
    if settings is None:
        yield TEST_REQUEST.skipped("everything", "needs settings that can be read")
        return
    asked: Any = _judge() if judge and settings.judge_model is not None else None
    if judge:
        from ._models import check_embedder, check_judge  # noqa: PLC0415 -- loads client and judged metrics

        yield from check_embedder(settings)
        findings = list(check_judge(settings, asked))
        yield from findings
        if any(one.state == "failed" for one in findings):
            asked = None
    try:
        collected = yield from try_requests(settings, asked)
    except RagmeterError as error:
        yield TEST_REQUEST.failed("everything", str(error), "see `configured` above")
        return
    if destinations and reachable:
        yield from try_delivery(collected, destinations)
    elif destinations:
        yield TEST_REQUEST.skipped("sending", "not tried: nothing listens there")


def _judge() -> Any:
    """Return the environment's judge, or the error of making it."""
    try:
        return scoring_arguments()["judge"]
    except RagmeterError as error:
        return error
