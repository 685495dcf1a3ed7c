"""The redaction hook sees every text first; explanations quote none."""

import logging

import pytest
from fakes_core import awaited_metric, scored
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmeter import RagMeter, Scoring
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample, Reference, RetrievedContext, ScoreItem, metric

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
    meter = RagMeter(metrics=[look], exporters=[memory], scoring=Scoring(redact=_hide))

    _secret_request(meter)
    assert meter.flush(60)

    assert SECRET not in seen[0]
    assert SECRET not in repr(memory.results[0])
    sample = memory.results[0].sample
    assert sample.answer == "It is <hidden>."
    assert sample.search_query == "find <hidden>"
    assert sample.reference == Reference(answer="<hidden>", contexts=("<hidden>",), context_ids=("1",))


def test_references_are_looked_up_by_the_question_as_asked():
    references = {f"What is {SECRET}": SECRET}
    sample = RagSample(question=f"What is {SECRET}?")
    [result], _ = scored(sample, metrics=[], references=references, scoring=Scoring(redact=_hide))

    assert result.sample.reference == Reference(answer="<hidden>")


@pytest.mark.contains_errors
@pytest.mark.parametrize("hook", [lambda text: 1 / 0, lambda text: None, lambda text: b"x"])
def test_a_failing_hook_loses_the_request_and_not_its_secrecy(hook):
    memory = InMemoryExporter()
    meter = RagMeter(metrics=[], exporters=[memory], scoring=Scoring(redact=hook))

    _secret_request(meter)
    assert meter.flush(60)

    assert memory.results == []
    assert meter.stats().dropped == {"error": 1}


def test_explanations_tell_why_without_quoting_content(caplog):
    @metric(needs=("reference.answer",))
    def needing(sample):
        return 1.0

    @metric
    def fine(sample):
        return 0.25

    with caplog.at_level(logging.DEBUG, "ragmeter.explain"):
        scored(RagSample(question=SECRET, contexts=[SECRET], answer=SECRET), metrics=[needing, fine])

    (record,) = [r for r in caplog.records if r.name == "ragmeter.explain"]
    assert "needing: no value, missing_input: not given: reference.answer" in record.message
    assert "fine: 0.25, ok" in record.message
    assert "1 contexts, an answer, no reference" in record.message
    assert SECRET not in record.message


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(), min_size=1, max_size=5))
def test_the_hook_sees_every_text(texts):
    seen = []
    asked, said = texts[0], texts[-1]
    sample = RagSample(question=asked, contexts=texts, carried=texts, answer=said, contexts_by="prompt")
    hook = Scoring(redact=lambda text: seen.append(text) or "x")
    [result], _ = scored(sample, metrics=[], scoring=hook)

    assert sorted(seen) == sorted([asked, *texts, *texts, said])
    redacted = result.sample
    assert {context.text for context in redacted.contexts} == {"x"}
    assert redacted == sample.model_copy(
        update={name: getattr(redacted, name) for name in ("question", "contexts", "carried", "answer")}
    )


def _quotes(self, sample):
    """A judge's words may hold what it made up, or what stands in a prompt."""
    item = ScoreItem(id="chunk-1", verdict=True, text=SECRET, evidence=SECRET, reason=SECRET)
    return [self.make_score("talkative", 1.0, explanation=f"because of {SECRET}", items=(item,))]


def _talk(hook):
    sample = RagSample(question="q", contexts=["a"], answer="b")
    [result], _ = scored(
        sample, metrics=[awaited_metric("talkative", _quotes, judged=False)], scoring=Scoring(redact=hook)
    )
    return result.scores["talkative"]


def test_what_metrics_and_judge_wrote_is_redacted_too():
    score = _talk(_hide)

    assert score.explanation == "because of <hidden>"
    (item,) = score.items
    assert (item.text, item.evidence, item.reason) == ("<hidden>", "<hidden>", "<hidden>")
    assert (item.id, item.verdict, score.value) == ("chunk-1", True, 1.0)


def test_a_comment_given_as_feedback_is_redacted_too():
    memory = InMemoryExporter()
    meter = RagMeter(metrics=[], exporters=[memory], scoring=Scoring(redact=_hide))
    meter.submit(RagSample(question="q", contexts=["a"]))
    assert meter.flush(60)

    run_id = memory.results[0].run.run_id
    meter.feedback(run_id, "thumbs_up", 1.0, explanation=f"not {SECRET} again")
    assert meter.flush(60)

    assert memory.results[1].scores["thumbs_up"].explanation == "not <hidden> again"


@pytest.mark.contains_errors
def test_a_hook_that_fails_on_an_explanation_withholds_it_and_keeps_the_score():
    def hook(text):
        if SECRET in text:
            raise LookupError
        return text

    score = _talk(hook)

    assert (score.value, score.explanation) == (1.0, None)
    assert SECRET not in repr(score)


def test_the_stages_are_redacted_and_share_their_documents_still():
    memory = InMemoryExporter()
    with RagMeter(metrics=[], exporters=[memory], scoring=Scoring(redact=_hide)) as meter:
        with meter.request("Who?") as request:
            request.retrieved([f"card {SECRET}", "other"])
            request.kept([f"card {SECRET}"], stage="rerank")
        assert meter.flush(60)

    run = memory.results[0].run
    assert SECRET not in run.sample.model_dump_json()
    (found, kept) = run.sample.stages
    assert [context.text for context in found.contexts] == ["card <hidden>", "other"]
    assert kept.contexts[0] is found.contexts[0] is run.sample.contexts[0]
    assert run.retrievals[0].contexts[0] is found.contexts[0]
