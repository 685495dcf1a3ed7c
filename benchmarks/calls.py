"""Python calls that one LangChain request causes, by thread: a measure without the machine's noise.

``python benchmarks/calls.py``. A five-document LCEL chain with all free metrics, spans and events going to a
real SDK; counted with ``sys.setprofile`` on the application's thread and on ragmeter's, after a warm-up. Time
depends on the machine and its load; calls show whether a change made the path longer or shorter.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import sys
import threading
from collections import Counter
from types import FrameType
from typing import Any

from measure import Row, Settings, Worker, run

NAME = "calls"
WARM_UP = 30
COUNTED = 10
AIMS = {"application": 60, "calls": 1300, "files": 55}


class Calls:
    """Calls of Python functions, by kind of thread and place, during a request or its processing."""

    def __init__(self) -> None:
        self.on = self.working = False
        self.own = threading.get_ident()
        self.application: Counter[tuple[str, str]] = Counter()
        self.beside: Counter[tuple[str, str]] = Counter()
        self._ours: dict[int, bool] = {}

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not (self.on or self.working):
            return
        code = frame.f_code
        place = (code.co_filename, code.co_name)
        ident = threading.get_ident()
        if ident not in self._ours:
            self._ours[ident] = threading.current_thread().name.startswith("ragmeter")
        if self._ours[ident]:
            self.beside[place] += 1
        elif self.on and (ident == self.own or is_ours(code.co_filename)):
            self.application[place] += 1


def prepare(variant: str, options: dict[str, Any]) -> Any:
    del variant, options
    calls = Calls()
    threading.setprofile(calls.note)  # threads that begin from now on
    from langchain_app import requests
    from request_path import SpanCount, attach_meter, tracer_provider

    from ragmeter.adapters.langchain import RagMeterCallbackHandler

    meter = attach_meter(tracer_provider(SpanCount()))
    ask = requests(asyncio.new_event_loop(), [RagMeterCallbackHandler(meter)])["LCEL invoke"]

    def count() -> dict[str, Any]:
        """Return the calls of `COUNTED` requests, each with its background finished, by place."""
        for number in range(WARM_UP):
            ask(f"warm up {number}?")
        assert meter.flush(60)
        _folders()  # imports
        sys.setprofile(calls.note)
        for number in range(COUNTED):
            calls.on = calls.working = True
            ask(f"What was built in {number}?")
            calls.on = False
            assert meter.flush(60)
            calls.working = False
        sys.setprofile(None)
        return {
            "application": [[*place, times] for place, times in calls.application.items() if is_ours(place[0])],
            "beside": [[*place, times] for place, times in calls.beside.items()],
        }

    return {"count": count}


def is_ours(file: str) -> bool:
    return file.startswith(_folders())


@functools.cache
def _folders() -> tuple[str, ...]:
    """Return the folders of the package, which are several for an editable install."""
    rooms = ("", ".adapters", ".exporters", ".metrics")
    paths = [importlib.import_module(f"ragmeter{room}").__path__[0] for room in rooms]
    return tuple(path + os.sep for path in paths)


def benchmark(settings: Settings) -> list[Row]:
    worker = Worker(__file__, "ours", settings.python_of("langchain"))
    try:
        found = worker.ask("count")
    finally:
        worker.close()
    application = sum(n for *_, n in found["application"]) / COUNTED
    beside = sum(n for *_, n in found["beside"]) / COUNTED
    files = len({file for file, *_ in found["beside"]})
    return [
        Row(NAME, "calls on the application's threads, LCEL of six runs", "", application,
            target=f"≤ {AIMS['application']}", met=application <= AIMS["application"]),
        Row(NAME, "calls on our own threads for scoring and export", "", beside,
            target=f"≤ {AIMS['calls']:,}", met=beside <= AIMS["calls"]),
        Row(NAME, "files that they stand in", "", files,
            target=f"≤ {AIMS['files']}", met=files <= AIMS["files"]),
    ]  # fmt: skip


if __name__ == "__main__":
    run(benchmark, prepare)
