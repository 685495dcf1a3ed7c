"""A fourth framework in one file, `examples/haystack_tracer.py`, gives the samples that a framework's own adapter would."""

import asyncio
import os
import runpy
from contextlib import nullcontext
from pathlib import Path

import pytest

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # is read when haystack is imported
pytest.importorskip("haystack", reason="the peer is not installed")

from haystack import Document, Pipeline, component, tracing
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage

from ragmeter import RagMeter, suppress
from ragmeter.exporters.memory import InMemoryExporter

EXAMPLE = Path(__file__).parents[2] / "examples" / "haystack_tracer.py"
TEXTS = {
    "refund": "Refunds are paid back within 14 days of receiving the returned item, to the original card.",
    "shipping": "Standard shipping takes 3 to 5 working days; express shipping takes one and costs 9 euros.",
    "hours": "The shop in Oslo opens at nine and closes at five in the evening, on Sundays at three.",
}
QUESTION = "How long do refunds take?"
ANSWER = "Refunds are paid back within 14 days to the original card."
WHOLE = "{% for one in documents %}{{ one.content }}\n\n{% endfor %}Question: {{ question }}"
CUT = "{% for one in documents %}{{ one.content[:60] }}\n\n{% endfor %}Question: {{ question }}"


@component
class ShelfRetriever:
    """Finds these texts, or fails."""

    def __init__(self, *names, fails=False):
        self.names, self.fails = names, fails

    @component.output_types(documents=list[Document])
    def run(self, query: str):
        if self.fails:
            raise LookupError("the store is down")
        return {"documents": [Document(id=name, content=TEXTS[name]) for name in self.names]}


@component
class Last:
    """Ranks: the last ones first, and two of them."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]):
        return {"documents": documents[::-1][:2]}


def says(_):
    return ANSWER


def fails(_):
    raise ValueError("the model failed")


def pipeline(*names, template=WHOLE, ranks=False, answers=says, down=False):
    """The pipeline of every tutorial."""
    made = Pipeline()
    made.add_component("retriever", ShelfRetriever(*names, fails=down))
    message = ChatMessage.from_user(template)
    builder = ChatPromptBuilder(template=[message], required_variables=["documents", "question"])
    made.add_component("prompt", builder)
    made.add_component("model", MockChatGenerator(response_fn=answers))
    if ranks:
        made.add_component("ranker", Last())
        made.connect("retriever.documents", "ranker.documents")
    made.connect("ranker.documents" if ranks else "retriever.documents", "prompt.documents")
    made.connect("prompt.prompt", "model.messages")
    return made


@pytest.fixture
def ask():
    """Runs a pipeline; returns what was scored."""
    memory = InMemoryExporter()
    meter = RagMeter(exporters=[memory])
    tracing.enable_tracing(runpy.run_path(str(EXAMPLE))["RagMeterTracer"](meter))

    def run(made, *, wait=False, broken=False):
        given = {"retriever": {"query": QUESTION}, "prompt": {"question": QUESTION}}
        with pytest.raises(Exception, match=r"down|failed") if broken else nullcontext():
            asyncio.run(made.run_async(given)) if wait else made.run(given)
        assert meter.flush(30)
        return memory.results

    yield run
    tracing.disable_tracing()
    meter.shutdown(30)


REFUND, SHIPPING = TEXTS["refund"], TEXTS["shipping"]
CASES = {
    "plain": (pipeline("refund", "shipping"), [REFUND, SHIPPING], ANSWER, "ok"),
    "ranked": (pipeline("hours", "refund", "shipping", ranks=True), [SHIPPING, REFUND], ANSWER, "ok"),
    "cut": (
        pipeline("refund", template=CUT),
        ["Refunds are paid back within 14 days of receiving the returned"],
        ANSWER,
        "ok",
    ),
    "nothing found": (pipeline(), [], ANSWER, "ok"),
    "not shown": (
        pipeline("hours", "refund", template=WHOLE.replace("documents %}", "documents[1:] %}")),
        [REFUND],
        ANSWER,
        "ok",
    ),
    "model fails": (pipeline("refund", answers=fails), [REFUND], None, "error"),
    "retriever fails": (pipeline("refund", down=True), None, None, "error"),
}


@pytest.mark.parametrize("wait", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", CASES)
def test_a_pipelines_run_is_one_sample(ask, name, wait):
    made, texts, answer, status = CASES[name]

    [result] = ask(made, wait=wait, broken=status == "error")

    sample = result.sample
    shown = None if sample.contexts is None else [one.text for one in sample.contexts]
    assert (sample.question, shown, sample.answer, sample.status) == (QUESTION, texts, answer, status)
    if name == "ranked":
        assert [(one.kind, len(one.contexts), one.inputs) for one in sample.stages[:2]] == [
            ("retriever", 3, ()),
            ("postprocessor", 2, (0,)),
        ]


def test_what_is_suppressed_is_not_captured(ask):
    with suppress():
        assert ask(pipeline("refund")) == []
