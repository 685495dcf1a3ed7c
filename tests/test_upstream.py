"""The proposals' figures are what their script prints."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "upstream"


def test_the_proposals_have_the_tables_that_their_script_prints():
    script = [sys.executable, str(FOLDER / "figures.py")]
    done = subprocess.run(script, capture_output=True, text=True, check=True, timeout=120)
    documents, histogram = done.stdout.strip().split("\n\n")
    assert documents in (FOLDER / "retrieval-documents.md").read_text("utf-8")
    assert histogram in (FOLDER / "evaluation-histogram.md").read_text("utf-8")
    scores = dict(line.strip("| ").split(" | ", 1) for line in documents.splitlines()[2:])
    assert scores["`support`"] == "– | yes"
    assert scores["`empty_retrieval`"] == "yes | yes"
