"""Python scripts in a separate process, with the tests' interpreter, and their allowed configuration."""

import os
import subprocess
import sys
from collections.abc import Mapping
from os import PathLike

__all__ = ["plain_environment", "run_python"]


def plain_environment() -> dict[str, str]:
    """Return the environment without settings of OpenTelemetry, a model, a backend or ragmeter."""
    prefixes = ("OPENAI_", "OTEL_", "PHOENIX_", "RAGMETER_")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def run_python(
    *arguments: "str | PathLike[str]",
    cwd: "str | PathLike[str] | None" = None,
    env: "Mapping[str, str] | None" = None,
    check: bool = False,
    timeout: "float | None" = None,
) -> "subprocess.CompletedProcess[str]":
    """Return the output of the process, and its exit."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        encoding="utf-8",
        check=check,
        cwd=cwd,
        env=env,
        timeout=timeout,
    )
