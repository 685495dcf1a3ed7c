"""Requests told by OpenInference's spans score as those told by our callback; with both, each counts once."""

import json
from pathlib import Path

import pytest
from python_process import run_python

HERE = Path(__file__).parent


@pytest.mark.parametrize("framework", ["langchain", "llama_index"])
def test_scores_of_spans_are_those_of_the_callback(framework):
    pytest.importorskip(
        f"openinference.instrumentation.{framework}", reason="the peer is not installed"
    )
    program = (
        "import runpy, sys; "
        f"sys.path.append({str(HERE.parent / 'adapters')!r}); sys.argv[1:] = [{framework!r}]; "
        f"runpy.run_path({str(HERE / 'same_scores.py')!r})"
    )
    done = run_python("-I", "-c", program)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.strip().splitlines()[-1])

    assert len(told["callback"]) == 3
    assert told["spans"] == told["callback"]
    assert told["both"] == [6, 0]
    assert told["missing"] == []
