"""Fixed costs of ragmeter: seconds to import, bytes to install.

``python benchmarks/footprint.py``. Each import runs in a fresh interpreter and is timed in CPU, the bare
interpreter subtracted, with compiled bytecode as in an installation; sizes are those of a package and
everything it requires, as installed. For comparison: ragmeter's base dependencies alone, the cost of an
extra's own package, and the peers in their own environments.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from environments import ROOT, child_environment
from measure import Row, Settings, median, run, spread

BASE = "pydantic, opentelemetry.trace"
"""The base dependencies that a request needs; the others load with the metrics that use them."""

IMPORTS = {
    "import ragmeter": "import ragmeter",
    "its base dependencies alone": f"import {BASE}",
    "from ragmeter import RagMeter": "from ragmeter import RagMeter",
    "a meter with every free metric": (
        "from ragmeter import RagMeter\n"
        "from ragmeter.exporters.memory import InMemoryExporter\n"
        "RagMeter(exporters=[InMemoryExporter()])"
    ),
}

LANGCHAIN = "from langchain_core.runnables import RunnableLambda"
LLAMA_INDEX = "from llama_index.core.instrumentation import get_dispatcher"
OPENAI = "from openai import AsyncOpenAI, OpenAI"
SDK = "from opentelemetry.sdk import metrics, trace"
METER = "from ragmeter import RagMeter\n"
WITH_EXTRAS = {
    "langchain": (LANGCHAIN, f"{METER}from ragmeter.adapters.langchain import RagMeterCallbackHandler"),
    "llama-index": (LLAMA_INDEX, f"{METER}from ragmeter.adapters.llama_index import RagMeterHandler"),
    "judge": (OPENAI, f"{METER}from ragmeter.metrics.judge import OpenAIJudge\nOpenAIJudge('m', 'http://x', 'k')"),
    "otlp": (SDK, f"{METER}from ragmeter.exporters.otel import OpenTelemetryExporter"),
    "pytest": ("import pytest", "import ragmeter.testing.plugin"),
}  # fmt: skip
"""Extra: an application's own import without ragmeter, and ragmeter's imports for it: with a meter, but for
pytest, which loads the plugin in every run."""

PEERS = {
    "openinference-langchain": ("langchain", "from openinference.instrumentation.langchain import LangChainInstrumentor"),
    "traceloop-langchain": ("langchain", "from opentelemetry.instrumentation.langchain import LangchainInstrumentor"),
    "langfuse": ("langchain", "from langfuse.langchain import CallbackHandler"),
    "continuous-eval": ("continuous-eval", "from continuous_eval.metrics.retrieval import PrecisionRecallF1"),
    "ragas": ("ragas", "import ragas.metrics"),
    "deepeval": ("deepeval", "import deepeval.metrics"),
    "trulens": ("trulens", "import trulens.feedback"),
}  # fmt: skip

DISTRIBUTIONS = {
    "openinference-langchain": "openinference-instrumentation-langchain",
    "traceloop-langchain": "opentelemetry-instrumentation-langchain",
    "trulens": "trulens-feedback",
}


def import_cpu_ms(python: Path | str, statement: str) -> float:
    """Return the milliseconds of CPU that a fresh interpreter needs for `statement`."""
    # -I would hide the checkout; the folder of the caller is not on the path either way.
    code = f"{statement}\nimport time; print('cpu', time.process_time())"
    done = subprocess.run(
        [str(python), "-c", code], check=True, capture_output=True, text=True, env=child_environment()
    )
    return float(done.stdout.rsplit("cpu", 1)[1]) * 1000


def installed(names: list[str]) -> dict[str, int]:
    """Return bytes by distribution for `names` and all that they require, as far as installed."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        from pip._vendor.packaging.requirements import Requirement  # type: ignore[assignment]

    sizes: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(name) for name in names]
    while waiting:
        wanted = waiting.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        extras = {"", *wanted.extras}
        if all((name, extra) in seen for extra in extras):
            continue
        seen.update((name, extra) for extra in extras)
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if name not in sizes:
            paths = (Path(str(file.locate())) for file in found.files or () if file.suffix != ".pyc")
            sizes[name] = sum(path.stat().st_size for path in paths if path.is_file())
        for line in found.requires or ():
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(needed)
    return sizes


def prepare(variant: str, options: dict[str, Any]) -> Any:
    del variant, options
    return {"installed": lambda names: sum(installed(names).values())}


def installed_mb(python: Path | str, names: list[str]) -> float:
    """Return megabytes of `names` and their requirements in the environment of `python`."""
    done = subprocess.run(
        [str(python), __file__, "--worker", "size", "{}"],
        input=json.dumps(["installed", {"names": names}]) + "\n",
        check=True,
        capture_output=True,
        text=True,
        env=child_environment(),
    )
    return json.loads(done.stdout.splitlines()[-1])["ok"] / 1e6


def own_size_mb() -> float:
    """Return megabytes of ragmeter's own files."""
    rooms = ("core", "metrics", "exporters", "adapters", "fleet", "testing", "serve", "cli")
    files = [f for room in rooms for f in (ROOT / room).rglob("*") if f.suffix in (".py", ".md", ".typed")]
    return sum(file.stat().st_size for file in files) / 1e6


def import_rows(settings: Settings) -> list[Row]:
    plan: dict[str, tuple[Path | str, str]] = {"bare": (sys.executable, "pass")}
    plan |= {name: (sys.executable, code) for name, code in IMPORTS.items()}
    for peer, (env, code) in PEERS.items():
        python = settings.python_of(env, peer)
        if python is not None:
            plan[f"peer {peer}"] = (python, code)
            plan[f"bare {env}"] = (python, "pass")
    extras = dict(list(WITH_EXTRAS.items())[: 1 if settings.quick else None])
    for extra, (theirs, ours) in extras.items():
        plan[f"{extra} alone"] = (sys.executable, theirs)
        plan[f"{extra} and ragmeter"] = (sys.executable, f"{theirs}\n{ours}")
    for python, code in plan.values():
        import_cpu_ms(python, code)  # leaves the bytecode behind
    taken: dict[str, list[float]] = {name: [] for name in plan}
    for _ in range(2 if settings.quick else 7):
        for name, (python, code) in plan.items():
            taken[name].append(import_cpu_ms(python, code))
    own = {name: [x - median(taken["bare"]) for x in taken[name]] for name in IMPORTS}
    rows = []
    for name in IMPORTS:
        if name == "its base dependencies alone":
            continue
        base = median(own["its base dependencies alone"])
        value = median(own[name])
        # The promise is about `import ragmeter`; the larger import is shown with it.
        aimed = name != "a meter with every free metric"
        rows.append(
            Row("footprint", f"CPU of `{name}` over a bare interpreter" if aimed else f"CPU of making {name}",
                "ms", value, base, BASE, value / base if base else None,
                "≤ 150 ms" if aimed else None, value <= 150 if aimed else None, spread(own[name]))
        )  # fmt: skip
    for extra, (theirs, _) in extras.items():
        alone = [x - median(taken["bare"]) for x in taken[f"{extra} alone"]]
        added = [x - median(taken[f"{extra} alone"]) for x in taken[f"{extra} and ragmeter"]]
        rows.append(
            Row("footprint", f"CPU that importing ragmeter[{extra}] adds to `{theirs}`", "ms", median(added),
                median(alone), "that alone", median(added) / median(alone), spread=spread(added))
        )  # fmt: skip
    value = median(own["from ragmeter import RagMeter"])
    for peer, (env, code) in PEERS.items():
        if f"peer {peer}" in taken:
            theirs = median(taken[f"peer {peer}"]) - median(taken[f"bare {env}"])
            rows.append(
                Row(
                    "footprint", f"CPU of `{code.split(chr(10))[0]}`", "ms", value, theirs, peer, value / theirs
                )
            )
    return rows


def spelled_out(names: list[str], extras: dict[str, list[str]]) -> list[str]:
    """Return requirements with ``ragmeter-otel[a,b]`` replaced by what these extras require."""
    out: list[str] = []
    for name in names:
        own = re.fullmatch(r"ragmeter-otel\[(.+)\]", name)
        inner = [one for extra in own[1].split(",") for one in extras[extra]] if own else []
        out += spelled_out(inner, extras) if own else [name]
    return out


def size_rows(settings: Settings) -> list[Row]:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own, base = own_size_mb(), list(project["dependencies"])
    rows = [Row("footprint", "installed size, ragmeter's own files", "MB", own)]
    whole = own + installed_mb(sys.executable, base)
    rows.append(Row("footprint", "installed size with base dependencies", "MB", whole))
    extras = project["optional-dependencies"]
    for extra in extras:
        if extra in ("test", "docs", "instruments-any"):
            continue
        size = own + installed_mb(sys.executable, [*base, *spelled_out(extras[extra], extras)])
        rows.append(Row("footprint", f"installed size of ragmeter[{extra}]", "MB", size))
    for peer, (env, _) in PEERS.items():
        python = settings.python_of(env, peer)
        if python is not None:
            theirs = installed_mb(python, [DISTRIBUTIONS.get(peer, peer)])
            rows.append(
                Row("footprint", f"installed size beside {peer}", "MB", whole, theirs, peer, whole / theirs)
            )
    return rows


def benchmark(settings: Settings) -> list[Row]:
    return import_rows(settings) + size_rows(settings)


if __name__ == "__main__":
    run(benchmark, prepare)
