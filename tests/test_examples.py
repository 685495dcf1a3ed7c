"""Every example runs as printed, with no key and no network."""

import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from processes import free_port

EXAMPLES = Path(__file__).parents[1] / "examples"


def _mean(text, score):
    """Mean of a score's histogram, from the page that Prometheus reads."""
    found = {}
    for part in ("sum", "count"):
        line = re.search(
            rf'^gen_ai_evaluation_score_[a-z]*_?{part}{{[^}}]*"{score}"[^}}]*}} (\S+)', text, re.MULTILINE
        )
        found[part] = float(line.group(1)) if line else 0.0
    return found["sum"] / found["count"] if found["count"] else None


def test_retrieval_that_goes_bad_shows_in_prometheus():
    port = free_port()
    command = [sys.executable, "-I", str(EXAMPLES / "watch_live.py"), f"--port={port}"]
    process = subprocess.Popen([*command, "--rate=40", "--turn=60"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("metrics: ")
        means = []
        # Every request is scored in its turn: the mean begins at 1 and sinks to a half.
        while not means or means[-1] > 0.7:
            time.sleep(0.05)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
                mean = _mean(page.read().decode(), "recall")
            if mean is not None:
                means.append(mean)
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()

    assert means[0] > 0.9
