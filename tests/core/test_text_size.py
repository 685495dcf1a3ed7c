"""One text that is too long skips the metrics that read it: free, judged, here and in the worker."""

import pytest
from fakes_core import scored
from openai_server import OpenAIServer

from ragmeter import Limits
from ragmeter.metrics import RagSample, Reference
from ragmeter.metrics.judge import OpenAIJudge

SAMPLE = RagSample(
    question="How tall?",
    contexts=["It is 21 metres tall.", "x" * 2_000],
    answer="21 metres.",
    reference=Reference(answer="21 metres."),
)
METRICS = ["lexical_groundedness", "answer_overlap", "context_relevancy", "answer_relevancy"]


@pytest.mark.parametrize("scoring", ["thread", "process"])
def test_too_long_is_a_status(scoring):
    """What reads the long context is skipped and the judge never asked; the rest is measured."""
    with OpenAIServer() as server:
        judge = OpenAIJudge(model="m", base_url=server.url, api_key="k")
        limits = Limits(max_text_chars=1_000, hold_s=60)
        [result], _ = scored(SAMPLE, metrics=METRICS, judge=judge, scoring=scoring, limits=limits)
        asked = len(server.requests)

    for name in ("lexical_groundedness", "context_relevancy"):
        score = result.scores[name]
        assert (score.value, score.status, score.error_type) == (None, "skipped", "too_long")
        assert score.explanation == ("too long: a text of 2000 characters, max_text_chars is 1000")
    for name in ("rouge_l", "token_f1", "answer_relevancy"):
        assert result.scores[name].status == "ok"
    assert asked == 1
