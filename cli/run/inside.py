"""The part of ``ragmeter run`` that starts in the program's process, before its first line.

It waits until the program imports a framework or makes a meter of its own, and shows the requests from then
on: other processes that the program starts pay for nothing.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from typing import TYPE_CHECKING

from ragmeter.adapters import FRAMEWORKS, is_installed
from ragmeter.metrics._process.after_import import after_import, unnoticed_imports
from ragmeter.settings.beside import beside

from .plan import PLAN, Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ragmeter.exporters.protocol import Exporter

    from .display import Display


_INSTRUMENTATIONS = ("openinference.instrumentation.", "opentelemetry.instrumentation.")
_MOST_NAMES = 3


class _Process:
    """The program's process, or one that it started."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._display: Display | None = None

    def attach(self) -> None:
        """Score the requests of the frameworks, unless the program has made a meter.

        Never raises: it is called within an import of the program.
        """
        from ragmeter._runtime.guard import Guard, front_door  # noqa: PLC0415 -- only if there is something to show
        from ragmeter.metrics import RagmeterError  # noqa: PLC0415 -- likewise

        with Guard("run.attach", front_door):
            if self._display is None:
                beside.remove(self.join)  # the meter made here needs none
                try:
                    self._ready_display().attach()
                except RagmeterError as error:
                    _say(str(error))
                finally:
                    beside.append(self.join)

    def join(self, theirs: Sequence[Exporter]) -> Iterable[Exporter]:
        """Return the exporters to add to a meter of the program."""
        return self._ready_display().join(theirs)

    def _ready_display(self) -> Display:
        from .display import Display  # noqa: PLC0415 -- brings the SDK

        self._display = self._display or Display(self._plan)
        return self._display

    def say_how_it_went(self) -> None:
        """Print the last line, with the counts; not in a forked worker, which has those of the program, too."""
        if os.getpid() != self._plan.process:
            return
        words = None if self._display is None else self._display.words
        if words:
            counts = ", ".join(f"{count} {word}" for word, count in words.items())
            _say(f"{counts}{' in this process' if _has_workers() else ''}; look at {self._plan.url}")
            return
        own = self._display is not None and not self._display.is_attached
        seen = "no RAG request was seen" + (" by the program's own meter" if own else "")
        # Workers, forked or started, have their own counts, and may end without a last line.
        if self._display is None and (hidden := _hidden_frameworks()):
            how = "call ragmeter.adapters.instrument() after the import"
            _say(f"{seen}: an import hook of the program imported {hidden} past ragmeter's; {how}")
        elif _has_workers():
            _say(f"{seen} in this process; those of its workers, if any, stand above")
        elif (tracing := self._tracing()) is not None:
            is_page = self._plan.to == "page"
            how = f"with OTEL_EXPORTER_OTLP_ENDPOINT={self._plan.url}, " if is_page else ""
            _say(f"{seen}; the program traces itself ({tracing}): {how}ragmeter serve scores its spans")
        else:
            _say(f"{seen}; ragmeter doctor says why")

    def _tracing(self) -> str | None:
        """Return the packages by which the program traces what ragmeter serve can score, if any."""
        found = sorted(
            name
            for name, module in [*sys.modules.items()]
            if name.startswith(_INSTRUMENTATIONS) and name.count(".") == 2 and hasattr(module, "__path__")
        )
        # Ragmeter's own display imports the SDK, too.
        sdk = self._display is None and "opentelemetry.sdk.trace" in sys.modules
        return ", ".join(found[:_MOST_NAMES]) or ("opentelemetry.sdk" if sdk else None)


def begin() -> None:
    """Wait for the program's first import of a framework, or its first meter."""
    plan = Plan(*json.loads(os.environ[PLAN]))
    process = _Process(plan)
    installed = [one for one in FRAMEWORKS.values() if is_installed(one.probe)]
    if plan.process == os.getpid():
        # Registered before the meter, which flushes at exit, and so called after it.
        atexit.register(process.say_how_it_went)
        if not installed:
            _say("neither LangChain nor LlamaIndex is installed here: only a meter of the program's own scores")
    beside.append(process.join)
    for one in installed:
        after_import(one.core, process.attach)


def _hidden_frameworks() -> str:
    unnoticed = unnoticed_imports()
    return " and ".join(one.name for one in FRAMEWORKS.values() if one.core in unnoticed)


def _has_workers() -> bool:
    """Return whether the process had others; those that still run are known on Linux only."""
    from pathlib import Path  # noqa: PLC0415 -- every process of the program imports this module

    return os.times().children_user > 0 or any(
        place.read_text() for place in Path("/proc/self/task").glob("*/children")
    )


def _say(line: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"ragmeter run: {line}\n")
