"""What a result says of the meter that it comes from."""

import pytest
from fakes_core import FakeJudge

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import JudgeIdentity
from ragmeter.metrics import Score
from ragmeter.metrics.judge import OpenAIJudge


def _result(**options):
    exporter = InMemoryExporter()
    with RagMeter(exporters=[exporter], **options) as meter:
        with meter.request("Wer?", metadata={"tenant": "acme"}) as request:
            request.retrieved(["Er."])
            request.answered("Er.")
        assert meter.flush(60)
    (result,) = exporter.results
    return result


def test_a_result_bears_the_parts_that_were_named_by_the_names_that_were_given():
    result = _result(segments=("metadata.tenant", "index_version"))
    assert result.segments == {"metadata.tenant": "acme", "index_version": "unknown"}
    assert not result.alarms


def test_a_result_says_that_its_meter_tells_of_changes():
    assert _result(alarms=True).alarms


def test_without_either_there_is_nothing_on_it():
    result = _result()
    assert result.segments == {}
    assert not result.alarms


@pytest.mark.parametrize(
    ("url", "version", "kind"),
    [
        ("https://api.openai.com/v1", None, "openai"),
        ("https://shop.openai.azure.com", "2024-10-21", "azure"),
        ("https://shop.openai.azure.com/openai/v1", None, "azure"),
        ("http://127.0.0.1:8000/v1", None, "local"),
        ("http://[::1]:8000/v1", None, "local"),
        ("http://10.1.2.3/v1", None, "local"),
        ("http://vllm:8000/v1", None, "local"),
        ("https://gateway.example.com/v1", None, "compatible"),
    ],
)
def test_of_a_judges_endpoint_the_kind_is_told_and_no_address(url, version, kind):
    judge = OpenAIJudge("m", base_url=url, api_key="none", api_version=version)
    assert judge.endpoint_kind == kind


def test_a_judge_of_the_applications_own_is_custom():
    assert _result(judge=FakeJudge()).judge == JudgeIdentity(model="fake-model", endpoint="custom")


def test_a_price_that_is_half_known_is_not_known():
    score = Score(name="s", value=1.0, status="ok", method="llm", definition="1", input_tokens=10**6)
    assert JudgeIdentity(model="m", input_price=2.0).cost_of(score) is None
    assert JudgeIdentity(model="m", input_price=2.0, output_price=0.0).cost_of(score) == 2.0
