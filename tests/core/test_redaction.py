"""The redaction hook sees every text first; explanations quote none."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample, Reference, RetrievedContext, metric

SECRET = "4711-0815"


def _hide(text):
    return text.replace(SECRET, "<hidden>")


def _secret_request(meter):
    with meter.request(
        f"What is {SECRET}?",
        reference={"answer": SECRET, "contexts": [SECRET], "context_ids": ["1"]},
        metadata={"note": SECRET, "deep": {"list": [SECRET]}},
    ) as request:
        request.retrieved(
            [RetrievedContext(text=f"card {SECRET}", id="1", metadata={"owner": SECRET})],
            query=f"find {SECRET}",
        )
        request.answered(f"It is {SECRET}.")


def test_metrics_judge_and_exporters_see_redacted_text_only():
    seen = []

    @metric
    def look(sample):
        seen.append(sample.model_dump_json())
        return 1.0

    memory = InMemoryExporter()
    meter = RagMeter(metrics=[look], exporters=[memory], redact=_hide)

    _secret_request(meter)
    assert meter.flush(10)

    assert SECRET not in seen[0]
    assert SECRET not in repr(memory.results[0])
    sample = memory.results[0].sample
    assert sample.answer == "It is <hidden>."
    assert sample.reference == Reference(
        answer="<hidden>", contexts=("<hidden>",), context_ids=("1",)
    )


def test_references_are_looked_up_by_the_question_as_asked():
    memory = InMemoryExporter()
    meter = RagMeter(
        metrics=[], exporters=[memory], redact=_hide, references={f"What is {SECRET}": SECRET}
    )

    meter.submit(RagSample(question=f"What is {SECRET}?"))
    meter.flush(10)

    assert memory.results[0].sample.reference == Reference(answer="<hidden>")


@pytest.mark.contains_errors
@pytest.mark.parametrize("hook", [lambda text: 1 / 0, lambda text: None, lambda text: b"x"])
def test_a_failing_hook_loses_the_request_and_not_its_secrecy(hook):
    memory = InMemoryExporter()
    meter = RagMeter(metrics=[], exporters=[memory], redact=hook)

    _secret_request(meter)
    assert meter.flush(10)

    assert memory.results == []
    assert meter.stats().dropped == {"error": 1}


def test_explanations_tell_why_without_quoting_content(caplog):
    @metric(needs=("reference.answer",))
    def needing(sample):
        return 1.0

    @metric
    def fine(sample):
        return 0.25

    memory = InMemoryExporter()
    meter = RagMeter(metrics=[needing, fine], exporters=[memory])
    with caplog.at_level(logging.DEBUG, "ragmeter.explain"):
        meter.submit(RagSample(question=SECRET, contexts=[SECRET], answer=SECRET))
        meter.flush(10)

    (record,) = [r for r in caplog.records if r.name == "ragmeter.explain"]
    assert "needing: no value, missing_input: not given: reference.answer" in record.message
    assert "fine: 0.25, ok" in record.message
    assert "1 contexts, an answer, no reference" in record.message
    assert SECRET not in record.message


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(), min_size=1, max_size=5))
def test_the_hook_sees_every_text(texts):
    seen = []
    memory = InMemoryExporter()
    meter = RagMeter(metrics=[], exporters=[memory], redact=lambda text: seen.append(text) or "x")

    sample = RagSample(question=texts[0], contexts=texts, answer=texts[-1], contexts_by="prompt")
    meter.submit(sample)
    assert meter.flush(10)

    assert sorted(seen) == sorted([texts[0], *texts, texts[-1]])
    redacted = memory.results[0].sample
    assert {context.text for context in redacted.contexts} == {"x"}
    assert redacted == sample.model_copy(
        update={name: getattr(redacted, name) for name in ("question", "contexts", "answer")}
    )
