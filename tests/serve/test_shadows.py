"""Another retriever on the page and in the API: what an application's meter exports of it, and no more."""

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from stored import scored, told
from test_api import PROTOBUF, ask, running

from ragmeter.exporters.changes import RetrieverDifference
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.serve.store import _shadows

WORDS, JUDGED = "lexical_context_relevance", "judged_ndcg"


def exported(*differences, service="shop"):
    """An export of an application whose meter has these differences."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], resource=Resource({"service.name": service}), shutdown_on_exit=False)
    otel = OpenTelemetryExporter(meter_provider=provider, span_mode="off", events="off")
    otel.observe_shadow(
        lambda: [
            RetrieverDifference(name=name, score=score, mean=mean, lower=mean - 0.125, upper=mean + 0.125)
            for name, score, mean in differences
        ]
    )  # fmt: skip
    return encode_metrics(reader.get_metrics_data())


def test_page_and_api_say_what_words_and_judge_may_say():
    spans, records = told(scored(3))
    metrics = exported(("misses", WORDS, -0.25), ("finds", WORDS, 0.25), ("finds", JUDGED, 0.25))
    with running() as (_, client):
        for signal, body in (("traces", spans), ("logs", records), ("metrics", metrics)):
            client.post(f"/v1/{signal}", content=body.SerializeToString(), headers=PROTOBUF).raise_for_status()
        found = ask(client, "/api/overview", service="shop")["shadows"]
        elsewhere = ask(client, "/api/overview", service="museum")["shadows"]
        pages = {language: client.get("/", params={"lang": language}).text for language in ("en", "ru", "zh")}

    assert [(one["name"], one["score"], one["word"]) for one in found] == [
        ("finds", JUDGED, "better"),
        ("finds", WORDS, "nothing seen"),
        ("misses", WORDS, "worse"),
    ]
    assert (found[2]["service"], found[2]["difference"], found[2]["upper"]) == ("shop", -0.25, -0.125)
    assert elsewhere == []
    for language, word, warning in (
        ("en", "worse", "words never say better"),
        ("ru", "хуже", "по словам «лучше» не скажешь"),
        ("zh", "更差", "仅凭词语无法判断更好"),
    ):
        card = pages[language].partition('id="shadows"')[2].partition("</section>")[0]
        assert card.count("<li>") == 3
        assert (card.count(f">{word}<"), card.count(warning)) == (1, 2)


def test_the_latest_results_are_held_and_no_more(monkeypatch):
    monkeypatch.setattr(_shadows, "MOST_SHADOWS", 2)
    board = _shadows.ShadowBoard()
    for name, mean in (("a", 0.0), ("b", 0.0), ("a", 0.1), ("c", 0.0), ("no share", 7.0)):
        board.take(exported((name, WORDS, mean)))
    assert [(one.name, one.difference) for one in board.shadows(None)] == [("a", 0.1), ("c", 0.0)]
