"""One application gives one sample and the same scores, by whatever way it is watched, or for a reason that is counted."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from python_process import run_python

HERE = Path(__file__).parent
sys.path.append(str(HERE))

from differences import DIFFERENCES, FRAMEWORKS, PAGE, REASONS, WAYS  # noqa: E402


def run(program):
    """Run a program beside the applications: they set up frameworks for good."""
    paths = f"import runpy, sys; sys.path += [{str(HERE)!r}, {str(HERE.parent / 'adapters')!r}]; "
    done = run_python("-I", "-c", paths + program)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=FRAMEWORKS)
def told(request):
    """What each way tells of each application; each framework in a process of its own: OpenInference wraps it for good."""
    framework = request.param
    pytest.importorskip(f"openinference.instrumentation.{framework}", reason="the peer is not installed")
    program = f"sys.argv[1:] = [{framework!r}]; runpy.run_path({str(HERE / 'ways.py')!r})"
    return framework, json.loads(run(program).strip().splitlines()[-1])


def test_every_way_tells_the_same_or_differs_for_a_known_reason(told):
    framework, read = told
    found = {}
    for name, ways in read["told"].items():
        assert set(ways) == set(WAYS)
        rows = ways["handler"]
        for way, others in ways.items():
            pairs = zip(rows, others, strict=False)
            fields = {key for row, other in pairs for key in row if row[key] != other[key]}
            if len(rows) != len(others):
                fields = {"requests"}
            if fields:
                found[name, way] = fields

    assert found == {
        (one.application, way): set(one.fields)
        for one in DIFFERENCES
        if one.framework == framework
        for way in one.ways
    }


def test_what_the_callback_captured_spans_do_not_count_again(told):
    assert told[1]["twice"] == 0


def test_each_reason_is_one_of_the_list_and_used():
    assert {one.reason for one in DIFFERENCES} == set(REASONS)


@pytest.mark.skipif(
    not all(map(find_spec, ("langchain_classic", "langgraph", "llama_index"))),
    reason="the applications need both frameworks",
)
def test_the_page_says_what_differs():
    """``make ways`` writes it."""
    shown = run("import json, differences; print(json.dumps(differences.page()))")
    assert PAGE.read_text(encoding="utf-8") == json.loads(shown)
