"""Every Python block of the README and the documentation type-checks as its readers write it.

The blocks of a page are one module, read from top to bottom: a block may use what an earlier one
defined.  What stands for the reader's own application (``chain``, ``question``) is declared in
`documented_names`, and nothing else is.  Checked without pydantic's plugin, which readers lack.
"""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from python_process import run_python

for needed in ("mypy", "pyright", "langchain_core", "llama_index.core", "prometheus_client"):
    pytest.importorskip(needed)

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
PAGES = [
    path
    for path in sorted([ROOT / "README.md", *ROOT.glob("*/README.md"), *ROOT.glob("docs/**/*.md")])
    if "```python" in path.read_text("utf-8")
]

STUBS = {
    "daft": ["DataType", "func", "read_parquet"],
    "dask": ["compute", "delayed"],
    "haystack": ["tracing"],
    "haystack_integrations.tracing.opentelemetry": ["OpenTelemetryTracer"],
    "langfuse": ["Langfuse"],
    "langfuse.langchain": ["CallbackHandler"],
    "mlflow": ["langchain"],
    "openinference.instrumentation.dspy": ["DSPyInstrumentor"],
    "openinference.instrumentation.haystack": ["HaystackInstrumentor"],
    "openinference.instrumentation.langchain": ["LangChainInstrumentor"],
    "openinference.instrumentation.llama_index": ["LlamaIndexInstrumentor"],
    "pydantic_ai": ["Agent"],
    "pydantic_ai.capabilities": ["Instrumentation"],
    "pydantic_ai.models.instrumented": ["InstrumentationSettings"],
    "pyspark.sql": ["SparkSession"],
    "pyspark.sql.pandas.types": ["from_arrow_schema"],
    "structlog": ["get_logger"],
    "traceloop.sdk": ["Traceloop"],
}
"""What examples use of packages that nothing of ours needs: each module's names."""


def _as_module(page: str) -> str:
    """Return a page as the module of its blocks, each line on the page's own line number."""
    lines = [""] * page.count("\n")
    for found in BLOCK.finditer(page):
        first = page.count("\n", 0, found.start(2))
        block = textwrap.dedent(found[2]).splitlines()
        lines[first : first + len(block)] = block
    lines[0] = "from documented_names import *"
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def modules(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("documented")
    for path in PAGES:
        name = path.relative_to(ROOT).as_posix().removesuffix(".md").replace("/", "_")
        module = re.sub(r"\W", "_", name).lower() + "_page.py"
        (folder / module).write_text(_as_module(path.read_text("utf-8")), "utf-8")
    for module, names in STUBS.items():
        place = folder.joinpath(*module.split("."))
        place.mkdir(parents=True)
        typed = "".join(f"{name}: Any\n" for name in names)
        (place / "__init__.pyi").write_text(f"from typing import Any\n\n{typed}", "utf-8")
        for above in place.relative_to(folder).parents[:-1]:
            (folder / above / "__init__.pyi").touch()
    (folder / "documented_names.py").write_text(
        (ROOT / "tests" / "documented_names.py").read_text("utf-8"), "utf-8"
    )
    return folder


@pytest.fixture(scope="module")
def tree() -> Path:
    """Return a folder in which tools that do not ask Python's import system find the package.

    It is the same in every run: what mypy noted of a module holds until the module changes.
    """
    folder = ROOT / "build" / "documented"
    subprocess.run([sys.executable, str(ROOT / ".ci" / "tree"), str(folder)], check=True)
    return folder


def _check(command: list[str], folder: Path, **variables: str) -> None:
    done = run_python(
        "-m",
        *command,
        cwd=folder,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", **variables},
        timeout=600,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_blocks_to_check():
    assert {"README.md", "metrics.md"} <= {path.name for path in PAGES}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mypy_accepts_every_block(modules, tree):
    """As ``mypy --strict`` reads it, without any plugin."""
    options = ["--strict", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache' / 'documented'}"]
    _check(["mypy", *options, "--follow-imports=silent", "."], modules, MYPYPATH=str(tree))


@pytest.mark.timeout(600)
def test_pyright_accepts_every_block(modules, tree):
    """As an editor shows it."""
    (modules / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(tree)]}), "utf-8")
    _check(["pyright", "--pythonpath", sys.executable, "."], modules)
