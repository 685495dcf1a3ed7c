"""The means of quality as gauges: the same numbers as the API and the meter have, and nothing that is not known."""

from types import SimpleNamespace

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from otlp_receiver import attributes_of
from served import PATIENCE_S, until
from stored import scored
from test_api import ask as read
from test_api import running, tell
from test_telemetry import ask, over_http

from ragmeter.exporters import semconv
from ragmeter.quality.estimates import Estimate
from ragmeter.serve import _gauges
from ragmeter.serve._gauges import QualityGauges, store_points
from ragmeter.serve.store import CellKey, Mean, UnreadableStoreError

FIELDS = ("mean", "lower", "upper", "objective")


def sent(backend):
    """The last value of each gauge by service, workflow, segment, score and field."""
    found = {}
    for request in backend.metric_requests:
        for group in request.resource_metrics:
            for scoped in group.scope_metrics:
                for metric in scoped.metrics:
                    field = metric.name.removeprefix("ragmeter.quality.")
                    if field not in FIELDS:
                        continue
                    assert attributes_of(group.resource)["service.name"] == "ragmeter"
                    for point in metric.gauge.data_points:
                        of = attributes_of(point)
                        key = (
                            of.get("ragmeter.service.name", ""),
                            of.get("gen_ai.workflow.name", ""),
                            of.get("ragmeter.segment", ""),
                            of["gen_ai.evaluation.name"],
                        )
                        found[(*key, field)] = point.as_double
    return found


def expected(client, service):
    """The same as the API says it."""
    found = {}
    for group in read(client, "/api/overview", service=service)["groups"]:
        for score, estimate in group["estimates"].items():
            if estimate["method"] == "none":
                continue
            for field in FIELDS:
                if estimate[field] is not None:
                    key = (service, group["workflow"], group["segment"], score, field)
                    found[key] = estimate[field]
    return found


def test_gauges_api_and_meter_say_the_same_of_what_is_scored_here_and_elsewhere(backend):
    wanted = ("museum:lexical_groundedness>=0.6 for 90%", "duplicate_ratio<=0.3 for 90%")
    with running(objectives=wanted) as (server, client):
        for number in range(8):
            ask(over_http(server), "shop", f"How long do {number} refunds take?")
        tell(client, scored(40), service="museum")
        until(lambda: read(client, "/api/overview")["requests"] == 48, what="not all are there")
        assert server.meter.flush(PATIENCE_S)
        said = {**expected(client, "shop"), **expected(client, "museum")}
        here = server.meter.quality("lexical_groundedness", service="shop")
        ratio = server.meter.quality("duplicate_ratio", workflow="ask", service="shop")
        whole = {one["name"]: one for one in read(client, "/api/overview")["scores"]}
        assert server.stop(PATIENCE_S)
        found = sent(backend)

    assert found == said
    shop = ("shop", "ask", "", "lexical_groundedness")
    assert (found[(*shop, "mean")], found[(*shop, "lower")]) == (here.mean, here.lower)
    museum = ("museum", "museum", "", "lexical_groundedness")
    assert found[(*museum, "objective")] == 0.6
    assert (*shop, "objective") not in found
    assert here.objective is None
    assert ratio.objective == found["shop", "ask", "", "duplicate_ratio", "objective"] == 0.3
    # Of all workflows together only the objective speaks that is one for all of them.
    assert whole["lexical_groundedness"]["estimate"]["objective"] is None
    assert whole["duplicate_ratio"]["estimate"]["objective"] == 0.3
    assert any(segment.startswith("language:") for _, _, segment, *_ in found)


def collected(gauges):
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    gauges.publish(provider)

    def collect():
        data = reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics if data else ()
        return {
            metric.name: {tuple(point.attributes.items()): point.value for point in metric.data.data_points}
            for metric in metrics
        }

    return collect


class Contained:
    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        return kind is None or issubclass(kind, Exception)


def some(mean, *, method="all", n=10):
    return Estimate(mean=mean, lower=0.1, upper=0.9, n_requests=n, n_judged=n, method=method, objective=None)


def mean_of(estimate, *, judge="", judged=False):
    return Mean("higher", estimate, "1", judge, judged)


def test_two_judges_have_two_gauges_and_each_is_named():
    known = {
        CellKey("shop", "qa", "", "faithfulness", name): mean_of(some(mean), judge=judge, judged=True)
        for name, judge, mean in (("aa", "judge-1", 0.9), ("bb", "judge-2", 0.4))
    }
    found = collected(QualityGauges(lambda: known, Contained()))()["ragmeter.quality.mean"]
    said = {
        (dict(of)["ragmeter.judge"], dict(of)["ragmeter.evaluation.judge.model"]): value
        for of, value in found.items()
    }
    assert said == {("aa", "judge-1"): 0.9, ("bb", "judge-2"): 0.4}


def test_what_is_not_known_has_no_gauge():
    known = {
        CellKey("shop", "qa", "", "few"): mean_of(some(None, method="wilson", n=3)),
        CellKey("shop", "qa", "", "none"): mean_of(some(None, method="none")),
    }
    collect = collected(QualityGauges(lambda: known, Contained()))
    found = collect()
    assert set(found) == {"ragmeter.quality.lower", "ragmeter.quality.upper"}
    [only] = found["ragmeter.quality.lower"]
    assert dict(only)["gen_ai.evaluation.name"] == "few"
    known.clear()
    assert collect() == {}


def test_a_store_that_is_away_stops_no_other_metric():
    def away(*_):
        raise UnreadableStoreError("the store is away")

    assert collected(QualityGauges(away, Contained()))() == {}
    store = SimpleNamespace(gaps=away, chunks=away, conversations=away)
    assert store_points(store, Contained()) == []


def test_series_are_bounded_and_who_has_one_keeps_it(monkeypatch):
    monkeypatch.setattr(_gauges, "MAX_SERIES", 3)
    order = ["a", "b", "c", "d"]
    collect = collected(
        QualityGauges(lambda: {CellKey("s", name, "", "x"): mean_of(some(0.5)) for name in order}, Contained())
    )
    first = collect()["ragmeter.quality.mean"]
    order.reverse()
    assert collect()["ragmeter.quality.mean"] == first
    workflows = {dict(each)[semconv.GEN_AI_WORKFLOW_NAME] for each in first}
    assert workflows == {"a", "b", "c"}
