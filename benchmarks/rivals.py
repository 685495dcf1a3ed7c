"""Captured requests of twenty ways to retrieve, and added cost per request: other tools beside ragmeter.

``python benchmarks/rivals.py``. Each rival runs in its own environment (`peers.toml`), where ragmeter runs
beside it on the same framework versions: the requests of `rival_langchain.py` and `rival_llama_index.py` for
capture, and for CPU the chain of `langchain_app.py` and the query engine of `llama_index_app.py` with nothing
attached, with ragmeter and with the rival, in turn. A run counts as captured if question, contexts in the
order the model saw them, and answer are all right and nothing else is reported as a request; three of the
twenty require that nothing is reported as answered, which a tool without any report gets right.

Included are tools that attach to an application in a line, install with pip and need no server. Only ragmeter
must capture all twenty (`tests/benchmarks/test_rivals.py`). The CPU of a rival with its own store (MLflow:
SQLite) includes that store's work if it is done on the request's path.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from typing import Any

from measure import (
    Row,
    Settings,
    Worker,
    WorkerError,
    absent_rows,
    interleave,
    median,
    number,
    reason,
    run,
    spread,
    start,
)
from request_path import Cost, Path, SpanCount, tracer_provider

RIVALS = ("openinference", "openlit", "deepeval", "mlflow")
"""Each has the environment and the peer ``rival-<name>`` in `peers.toml`."""
WAYS = {"LangChain": "LCEL invoke", "LlamaIndex": "query"}
"""For each framework the request whose CPU is measured: the plainest one."""


class Capture:
    """The worker's half: one tool, and the number of a framework's runs that it reports correctly."""

    def __init__(self, variant: str) -> None:
        from rival_tools import attach

        self._tool = attach(variant)

    def commands(self) -> dict[str, Any]:
        return {"capture": self.capture}

    def capture(self, framework: str, only: list[str] | None = None) -> dict[str, str]:
        """Return for each run an empty text, or in short the error."""
        module = {"LangChain": "rival_langchain", "LlamaIndex": "rival_llama_index"}[framework]
        runs = importlib.import_module(module).runs()
        return {name: self._judge(run) for name, run in runs.items() if only is None or name in only}

    def _judge(self, run: Any) -> str:
        self._tool.take()
        try:
            with self._tool.around():
                run.send(self._tool.callbacks)
        except Exception as error:
            self._tool.take()
            return f"the application failed: {type(error).__name__}"
        told = self._tool.take()
        if not run.asked:
            told = [one for one in told if one.clean]
        if len(told) != len(run.asked):
            return f"{len(told)} requests told instead of {len(run.asked)}"
        left = list(run.asked)
        for one in told:
            right = next((asked for asked in left if one.tells(asked)), None)
            if right is None:
                known = any(one.is_about(asked) for asked in left)
                return "contexts" if known else "question or answer"
            left.remove(right)
        return ""


def prepare(variant: str, options: dict[str, Any]) -> Any:
    """Run as a worker: for capture, or with ``cpu``, a framework, for the cost of its request."""
    framework = options.get("cpu")
    if not framework:
        return Capture(variant).commands()
    spans = SpanCount()
    callbacks, drain = _attach_for_cpu(variant, framework, spans)
    loop = asyncio.new_event_loop()
    if framework == "LangChain":
        from langchain_app import requests

        asked = requests(loop, callbacks)
    else:
        from llama_index_app import requests as queries

        asked = queries(loop)
    way = WAYS[framework]
    return Path({way: asked[way]}, spans, drain).commands()


def _attach_for_cpu(variant: str, framework: str, spans: SpanCount) -> tuple[list[Any], Any]:
    """Attach `variant` as its users do, with spans discarded if it has a setting for their destination."""
    provider = tracer_provider(spans)
    if variant in ("none", "no-op", "ours", "openinference"):
        if framework == "LlamaIndex":
            import request_overhead_llama_index

            return [], request_overhead_llama_index.attach(variant, provider, spans)
        import request_overhead_langchain

        return request_overhead_langchain.attach(variant, provider)
    import rival_tools

    if variant == "openlit":
        rival_tools.start_openlit(provider)
        return [], provider.force_flush
    tool = rival_tools.attach(variant)
    if variant == "deepeval":
        from deepeval.tracing import trace_manager

        trace_manager.post_trace = lambda trace: None
    return tool.callbacks, tool.drain


def _told(verdicts: dict[str, str]) -> str:
    """Return the runs that were not captured, with the reasons, as text."""
    return "; ".join(f"{name}: {why}" for name, why in verdicts.items() if why)


def _capture(python: Any, tool: str, only: list[str] | None) -> dict[str, dict[str, str]]:
    options = {"cpu": None}
    with contextlib.closing(Worker(__file__, tool, python, options)) as worker:
        return {
            framework: worker.ask("capture", framework=framework, only=only)
            for framework in ("LangChain", "LlamaIndex")
        }


def _captured(
    rival: str | None, python: Any, own: dict[str, dict[str, str]], only: list[str] | None
) -> list[Row]:
    theirs = _capture(python, rival, only) if rival is not None else {}
    rows = []
    for framework, verdicts in own.items():
        right = sum(not why for why in verdicts.values())
        beside = theirs.get(framework)
        there = None if beside is None else float(sum(not why for why in beside.values()))
        notes = [f"ours misses {_told(verdicts)}"] if _told(verdicts) else []
        notes += [f"{rival} misses {_told(beside)}"] if beside and _told(beside) else []
        rows.append(
            Row("rivals", f"{framework}: runs captured rightly, of {len(verdicts)}", "runs",
                float(right), there, rival, target=f"{len(verdicts)}", met=right == len(verdicts),
                note=". ".join(notes) or None)
        )  # fmt: skip
    return rows


def _costs(rival: str | None, python: Any, *, quick: bool) -> list[Row]:
    rows: list[Row] = []
    for framework in WAYS:
        rows += _cost(framework, rival, python, quick=quick)
    return rows


def _cost(framework: str, rival: str | None, python: Any, *, quick: bool) -> list[Row]:
    way = WAYS[framework]
    variants = dict.fromkeys(["none", "no-op", "ours", *([rival] if rival else [])], python)
    workers, absent = start(__file__, variants, ["none", "no-op", "ours"], {"cpu": framework})
    try:
        rounds, count = (2, 3) if quick else (30, 8)
        cost = Cost(interleave(workers, rounds, "batch", way=way, count=count))
    finally:
        for worker in workers.values():
            worker.close()
    ours = cost.added("ours")
    there = cost.added(rival) if rival in workers else None
    ratio = median(there) / median(ours) if there and median(ours) > 0 else None
    note = (
        f"ratio is theirs by ours; bare request {number(cost.bare)} µs, a handler that does nothing "
        f"adds {number(median(cost.added('no-op')))} µs"
    )
    apart = spread(ours) + ("" if there is None else f"; peer {spread(there)}")
    row = Row("rivals", f"{framework} {way}: CPU added, p50", "µs", median(ours),
              None if there is None else median(there), rival, ratio, spread=apart, note=note)  # fmt: skip
    return [row, *absent_rows("rivals", absent)]


def benchmark(settings: Settings) -> list[Row]:
    only = ["plain", "rerank in a plain function", "fusion", "no retrieval"] if settings.quick else None
    rows: list[Row] = []
    beside = {
        rival: python for rival in RIVALS if (python := settings.python_of(f"rival-{rival}", f"rival-{rival}"))
    }
    if not beside:
        own = _capture(None, "ragmeter", only)
        return _captured(None, None, own, only) + _costs(None, None, quick=settings.quick)
    for rival, python in beside.items():
        rows += _beside(rival, python, only, quick=settings.quick)
    return rows


def _beside(rival: str, python: Any, only: list[str] | None, *, quick: bool) -> list[Row]:
    try:
        rows = _captured(rival, python, _capture(python, "ragmeter", only), only)
        return rows + _costs(rival, python, quick=quick)
    except WorkerError as error:
        return absent_rows("rivals", {rival: reason(error)})


if __name__ == "__main__":
    run(benchmark, prepare)
