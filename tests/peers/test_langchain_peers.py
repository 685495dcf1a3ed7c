"""Side by side with other instrumentations in one process: the scores land in their traces.

Needs the peers: ``pip install -r tests/peers/requirements-langchain.txt``; without one, its tests are
skipped and say so.  Each peer runs in a process of its own, as each wraps LangChain for good.
"""

import json
import textwrap
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from python_process import run_python

PEERS = {
    "openinference": (
        "openinference.instrumentation.langchain",
        "from openinference.instrumentation.langchain import LangChainInstrumentor",
    ),
    "traceloop": (
        "opentelemetry.instrumentation.langchain",
        "from opentelemetry.instrumentation.langchain import LangchainInstrumentor as LangChainInstrumentor",
    ),
    "opentelemetry": (
        "opentelemetry.instrumentation.genai.langchain",
        "from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor",
    ),
}

PROGRAM = """
import asyncio, json, logging, sys, warnings
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

records = []
class Keep(logging.Handler):
    def emit(self, record): records.append(record.getMessage())
logging.getLogger().addHandler(Keep())

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
{peer}
LangChainInstrumentor().instrument(tracer_provider=provider)

from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import LetterEmbeddings, context_tally, docs, lcel, store_of
from ragmeter import RagMeter
from ragmeter.adapters import instrument
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter

memory = InMemoryExporter()
meter = RagMeter(
    metrics=[context_tally], exporters=[memory, OpenTelemetryExporter(metrics=False, events="off")]
)
how, call, count = sys.argv[1:4]
config = {{}}
if how == "peer alone":
    pass
elif how == "global":
    instrument(meter, frameworks=["langchain"])
else:
    config = {{"callbacks": [RagMeterCallbackHandler(meter)]}}
chain = lcel(store_of("a", "b").as_retriever())
tracer = trace.get_tracer("app")

def one():
    if call == "invoke":
        return chain.invoke("who?", config=config)
    if call == "stream":
        return "".join(chain.stream("who?", config=config))
    return asyncio.run(chain.ainvoke("who?", config=config))

answers = []
for _ in range(int(count)):
    with tracer.start_as_current_span("app"):
        answers.append(one())
assert meter.flush(30)
def row(span):
    return {{
        "name": span.name,
        "scope": span.instrumentation_scope.name,
        "trace": span.context.trace_id,
        "id": span.context.span_id,
        "parent": span.parent.span_id if span.parent else None,
        "links": [link.context.span_id for link in span.links],
        "attributes": {{k: v for k, v in (span.attributes or {{}}).items() if isinstance(v, (str, int, float))}},
    }}
print(json.dumps({{
    "answers": answers,
    "spans": [row(span) for span in spans.get_finished_spans()],
    "runs": [
        {{
            "target": r.run.target.span_id if r.run.target else None,
            "retrieval": [q.target.span_id if q.target else None for q in r.run.retrievals],
            "status": r.sample.status, "question": r.sample.question, "answer": r.sample.answer,
            "contexts": len(r.sample.contexts or ()),
        }} for r in memory.results
    ],
    "logs": records,
}}))
"""


def run(peer: str, how: str, call: str, count: int = 1) -> dict[str, Any]:
    """Run the program beside a peer and return what it saw."""
    module, statement = PEERS[peer]
    try:
        missing = find_spec(module) is None
    except ModuleNotFoundError:
        missing = True
    if missing:
        pytest.skip(f"{module} is not installed (tests/peers/requirements-langchain.txt)")
    fakes = str(Path(__file__).parent.parent / "adapters")
    program = f"import sys; sys.path.append({fakes!r})\n" + textwrap.dedent(PROGRAM).format(peer=statement)
    done = run_python("-I", "-c", program, how, call, str(count))
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


@pytest.mark.parametrize("call", ["invoke", "stream", "ainvoke"])
@pytest.mark.parametrize("how", ["config", "global"])
@pytest.mark.parametrize("peer", list(PEERS))
def test_scores_land_in_the_same_trace(peer: str, how: str, call: str) -> None:
    """One sample; its scores are on or below or linked to the peer's spans, in one trace."""
    seen = run(peer, how, call)

    (sample,) = seen["runs"]
    assert (sample["status"], sample["question"], sample["contexts"]) == ("ok", "who?", 2)
    ours = [span for span in seen["spans"] if span["scope"].startswith("ragmeter")]
    theirs = [span for span in seen["spans"] if not span["scope"].startswith(("ragmeter", "app"))]
    assert theirs
    assert ours
    assert {span["trace"] for span in ours} == {span["trace"] for span in theirs}
    ids = {span["id"] for span in theirs}
    assert sample["target"] in ids
    scored = [span for span in ours if "ragmeter.score.context_tally" in span["attributes"]]
    assert scored
    for span in scored:
        assert span["parent"] in ids or set(span["links"]) & ids
    assert not [line for line in seen["logs"] if "ended span" in line or "ragmeter" in line]


def shape(seen: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    """The spans that are not ours, by name, parent's name and attribute keys."""
    names = {span["id"]: span["name"] for span in seen["spans"]}
    return Counter(
        (span["name"], names.get(span["parent"]), tuple(sorted(span["attributes"])))
        for span in seen["spans"]
        if not span["scope"].startswith("ragmeter")
    )


@pytest.mark.parametrize("call", ["invoke", "stream", "ainvoke"])
@pytest.mark.parametrize("how", ["config", "global"])
@pytest.mark.parametrize("peer", list(PEERS))
def test_no_span_twice_and_none_of_theirs_lost(peer: str, how: str, call: str) -> None:
    """Theirs are as without us, attribute by attribute; ours say scores and do not repeat the request."""
    alone, beside = run(peer, "peer alone", call), run(peer, how, call)
    ours = [span for span in beside["spans"] if span["scope"].startswith("ragmeter")]

    assert alone["runs"] == []
    assert shape(beside) == shape(alone)
    assert len({span["trace"] for span in beside["spans"]}) == 1
    assert {span["name"].split()[0] for span in ours} == {"evaluation"}
    assert len({span["id"] for span in beside["spans"]}) == len(beside["spans"])


@pytest.mark.parametrize("call", ["invoke", "ainvoke"])
@pytest.mark.parametrize("peer", list(PEERS))
def test_the_retrieval_span_of_the_peer_is_found(peer: str, call: str) -> None:
    """Retrieval scores point at the span that the peer recorded for the retrieval."""
    seen = run(peer, "config", call)

    (target,) = seen["runs"][0]["retrieval"]
    names = {span["id"]: span["name"] for span in seen["spans"]}
    assert "retriev" in names[target].lower()


@pytest.mark.parametrize("peer", list(PEERS))
def test_requests_in_a_row_stay_apart(peer: str) -> None:
    """Spans that a peer leaves current belong to the request before, not to the next."""
    seen = run(peer, "config", "ainvoke", count=3)

    targets = [sample["target"] for sample in seen["runs"]]
    assert len(set(targets)) == 3
    assert None not in targets
