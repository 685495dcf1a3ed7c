"""The example in the documentation runs as printed."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama_index_quickstart.py"


@pytest.mark.timeout(300)
def test_quickstart() -> None:
    """No key, no network: an answer and real scores."""
    done = subprocess.run(
        [sys.executable, "-I", str(EXAMPLE)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )

    assert done.returncode == 0, done.stderr
    lines = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines()[1:])
    assert done.stdout.startswith("answer: The ferry leaves at seven in the morning.")
    assert lines["recall"] == "1.000"
    assert lines["context_count"] == "3.000"
    assert lines["hit_rate"] == "1.000"
