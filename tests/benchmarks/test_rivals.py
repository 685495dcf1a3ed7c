"""Twenty ways to retrieve: ragmeter tells each of them rightly, and the comparison can tell wrong from right."""

import importlib
import json
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from python_process import run_python

for needed in ("langchain", "langchain_classic", "langgraph", "llama_index.core"):
    pytest.importorskip(needed)
pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="benchmarks need Python 3.11")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
CAPTURE = """
import json, sys
from rivals import Capture

print("\\n" + json.dumps(Capture("ragmeter").capture(sys.argv[1])))
"""


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("rival_tools")


@pytest.fixture
def rivals(tools):
    return importlib.import_module("rivals")


@pytest.mark.parametrize(("framework", "count"), [("LangChain", 12), ("LlamaIndex", 8)])
def test_each_way_to_retrieve_is_captured_as_it_happened(framework, count):
    """Question, contexts in the order the model saw them, answer, and nothing else."""
    done = run_python("-c", CAPTURE, framework, cwd=BENCHMARKS, timeout=240)

    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert len(told) == count
    assert {name: why for name, why in told.items() if why} == {}


class _Says:
    """A tool that says what it is told to say, whatever was asked."""

    def __init__(self, *said):
        self.callbacks = []
        self.around = nullcontext
        self._said = [[], list(said)]

    def take(self):
        return self._said.pop(0) if self._said else []


def _judged(rivals, run, *said):
    capture = object.__new__(rivals.Capture)
    capture._tool = _Says(*said)
    return capture._judge(run)


def test_what_is_wrong_is_not_taken_for_captured(rivals, tools):
    """Order, a missing text, half an answer, one request too many or none at all."""
    requests = importlib.import_module("rival_requests")
    one = requests.Asked("why?", ("doc-a", "doc-b"), "saw doc-a,doc-b")
    run = requests.Run(lambda callbacks: None, (one,))
    right = tools.Report('{"q": "why?"}', ("doc-a", "doc-b"), "saw doc-a,doc-b", True)
    turned = tools.Report("why?", ("doc-b", "doc-a"), "saw doc-a,doc-b", True)
    half = tools.Report("why?", ("doc-a", "doc-b"), "saw doc-a", True)
    more = tools.Report("why?", ("doc-a", "doc-b"), "saw doc-a,doc-b,doc-c", True)

    assert _judged(rivals, run, right) == ""
    assert _judged(rivals, run, turned) == "contexts"
    assert _judged(rivals, run, half) == "question or answer"
    assert _judged(rivals, run, more) == "question or answer"
    assert _judged(rivals, run) == "0 requests told instead of 1"
    assert _judged(rivals, run, right, right) == "2 requests told instead of 1"
    assert _judged(rivals, requests.Run(lambda callbacks: None), right).startswith("1 requests")


def test_a_trace_is_read_in_the_tool_s_favour(tools):
    """Outermost retrievals count once; a reranker's output stands for what it was given."""
    a, b = "doc-a says what is known of a.", "doc-b says what is known of b."

    def span(name, parent, kind, output, at):
        return tools.Span("t", name, parent, kind, "why?", output, True, at)

    root = span("root", None, "", "saw", 0)
    outer = span("outer", "root", "retrieval", f"[{a!r}, {b!r}, {a!r}]", 1)
    inner = span("inner", "outer", "retrieval", a, 2)
    reranked = span("rerank", "root", "rerank", f"{b} {a}", 3)

    assert [one.contexts for one in tools.requests_of([inner, outer, root])] == [(a, b)]
    assert [one.contexts for one in tools.requests_of([inner, outer, root, reranked])] == [(b, a)]
    assert tools.requests_of([root]) == []
