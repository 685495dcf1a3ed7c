"""The examples in the documentation run as printed."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("framework", ["langchain", "llama_index"])
def test_quickstart(framework: str) -> None:
    """No key, no network: an answer and real scores."""
    done = subprocess.run(
        [sys.executable, "-I", str(EXAMPLES / f"{framework}_quickstart.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )

    assert done.returncode == 0, done.stderr
    lines = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines()[1:])
    assert done.stdout.startswith("answer: The ferry leaves at seven in the morning.")
    names = ("recall", "context_count", "hit_rate")
    assert [lines[name] for name in names] == ["1.000", "3.000", "1.000"]
