"""The API: what was received is answered as JSON, by the product's own estimates, and to nobody else."""

import json
import re
import socket
import time
from base64 import urlsafe_b64encode
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict

import grpc
import httpx
import pytest
from json_schema import wrong
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from served import PATIENCE_S, traced_as, until
from starlette.applications import Starlette
from starlette.testclient import TestClient
from stored import BAD, CHUNKS, GOOD, judged, scored, told

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import VERDICT_CODES, ConfigurationError
from ragmeter.quality.estimates import Estimate
from ragmeter.quality.manner import PARTS
from ragmeter.quality.verdict_rates import VerdictRate
from ragmeter.quality.verdict_shares import VERDICT_BAD, VERDICT_NOT_GOOD
from ragmeter.serve import ServeOptions, Server
from ragmeter.serve._api import api_routes
from ragmeter.serve._openapi import parameters_of
from ragmeter.serve.page import RANGES
from ragmeter.serve.store import LATEST_MS, LONGEST_RANGE_S, MOST_CHARACTERS, Store, StoreOptions
from ragmeter.watch.change import Change

PROTOBUF = {"Content-Type": "application/x-protobuf"}


@contextmanager
def running(**options):
    """A server with a store, and a client that speaks to it."""
    given = {"http_port": 0, "grpc_port": 0, "grace_s": 0.0, "idle_s": 600.0}
    server = Server(ServeOptions(**given | {"store": StoreOptions(), "token": ""} | options))
    server.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{server.http_port}", timeout=PATIENCE_S) as client:
            yield server, client
    finally:
        server.stop(PATIENCE_S)


def tell(client, runs, **named):
    """Send the spans and the scores of requests, as applications do."""
    for signal, body in zip(("traces", "logs"), told(runs, **named), strict=True):
        answer = client.post(f"/v1/{signal}", content=body.SerializeToString(), headers=PROTOBUF)
        assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def filled():
    """A server that was told of forty requests, the client, and the requests."""
    runs = scored(40)
    with running() as (server, client):
        tell(client, runs)
        yield server, client, runs


def ask(client, address, **parameters):
    answer = client.get(address, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_overview_has_the_estimates_of_a_meter(filled):
    """The same requests, counted by a meter and by the store: the same means and intervals."""
    _, client, runs = filled
    meter = RagMeter(exporters=[])
    found = ask(client, "/api/overview")
    by_name = {score["name"]: score for score in found["scores"]}

    assert found["requests"] == 40
    assert found["verdicts"] == {"bad": 10, "good": 30}
    assert found["services"] == {"shop": 40}
    assert found["changes"] == []
    for name in ("lexical_groundedness", "lexical_context_relevance", "duplicate_ratio"):
        values = [run.scores[name].value for run in runs]
        said = by_name[name]["estimate"]
        assert said["n_requests"] == 40
        assert said["mean"] == pytest.approx(sum(values) / 40)
        assert said["lower"] <= said["mean"] <= said["upper"]
        Estimate(**said | {"bounds": tuple(said["bounds"])})
    assert by_name["context_count"]["estimate"] is None
    groups = {(group["workflow"], group["segment"]): group for group in found["groups"]}
    assert groups["museum", ""]["requests"] == 40
    parts = [groups["museum", f"metadata.tenant:{name}"] for name in ("acme", "umbrella")]
    assert sum(part["requests"] for part in parts) == 40
    meter.shutdown(60)


def test_no_mean_is_over_two_services():
    """Each service has its own, of the workflows that both call alike too; on the page likewise."""
    runs = {"library": scored(8), "shop": scored(8)[4:]}
    with running() as (_, client):
        for service, some in runs.items():
            tell(client, some, service=service)
        found = ask(client, "/api/overview")
        alone = {one: ask(client, "/api/overview", service=one) for one in runs}
        pages = {one: client.get("/scoring", params={"service": one}).text for one in ("", *runs)}

    assert list(found["services"]) == ["library", "shop"]
    for kind in ("scores", "groups"):
        assert found[kind] == [one for each in alone.values() for one in each[kind]]
        assert {one["service"] for one in alone["shop"][kind]} == {"shop"}
    rows = {one: re.findall(r"<b>[0-9.]+</b><small>[^<]*</small>", page) for one, page in pages.items()}
    assert rows[""] == [*rows["library"], *rows["shop"]]
    assert re.findall(r'scope="rowgroup".*?>([a-z]+)</a>', pages[""]) == ["library", "shop"] * 2


def test_a_meter_and_the_store_estimate_the_same():
    """Of what the server scored itself, as the meter that scored it says."""
    kept = Store()
    meter = RagMeter(exporters=[kept])
    from stored import ask as have_scored

    for number in range(30):
        have_scored(meter, number)
    assert meter.flush(PATIENCE_S)
    theirs = {name.score: estimate for name, estimate in meter.quality().items()}
    ours = {score.name: score.estimate for score in kept.reader().overview().scores}
    for name, estimate in theirs.items():
        # The store has the words themselves, and summaries.
        if name not in (VERDICT_BAD, VERDICT_NOT_GOOD, *PARTS):
            # They add the same values up in different orders.
            for part, value in asdict(estimate).items():
                assert getattr(ours[name], part) == pytest.approx(value), (name, part)
    meter.shutdown(PATIENCE_S)
    kept.close()


@pytest.mark.parametrize("sort", ["worst", "newest", "lexical_groundedness"])
@pytest.mark.parametrize("grouped", [0, 1])
def test_pages_of_a_list_hold_every_request_once_and_in_order(filled, sort, grouped):
    _, client, runs = filled
    seen, cursor = [], None
    while True:
        more = {"cursor": cursor} if cursor else {}
        page = ask(client, "/api/requests", sort=sort, limit=7, grouped=grouped, **more)
        assert page["previous_count"] == len(seen)
        seen += page["requests"]
        cursor = page["next"]
        if cursor is None:
            break
    whole = ask(client, "/api/requests", sort=sort, limit=500, grouped=grouped)

    assert [row["run_id"] for row in seen] == [row["run_id"] for row in whole["requests"]]
    assert len(seen) == whole["total"] == (5 if grouped else 40)
    assert sum(row["times"] for row in seen) == 40
    if not grouped:
        assert {row["run_id"] for row in seen} == {run.run.run_id for run in runs}
    if sort == "worst":
        ranks = [("good", "suspect", "bad").index(row["verdict"]) for row in seen]
        assert ranks == sorted(ranks, reverse=True)
    if sort == "newest":
        assert [row["at_ms"] for row in seen] == sorted((row["at_ms"] for row in seen), reverse=True)
    if sort == "lexical_groundedness":
        values = [row["scores"][sort]["value"] for row in seen]
        assert values == sorted(values)


def test_filters_leave_what_they_name(filled):
    _, client, _ = filled
    acme = ask(client, "/api/requests", segment="metadata.tenant:acme", limit=500)
    assert {row["segments"]["metadata.tenant"] for row in acme["requests"]} == {"acme"}
    assert ask(client, "/api/overview", segment="metadata.tenant:acme")["requests"] == acme["total"]
    assert ask(client, "/api/requests", verdict="bad")["total"] == 10
    assert ask(client, "/api/requests", workflow="museum")["total"] == 40
    assert ask(client, "/api/requests", workflow="")["total"] == 0
    assert ask(client, "/api/requests", service="nobody")["total"] == 0
    moment = acme["requests"][0]["at_ms"]
    since = ask(client, "/api/requests", since=moment, limit=500)
    assert all(row["at_ms"] >= moment for row in since["requests"])
    before = ask(client, "/api/requests", since=0, until=moment, limit=500)
    assert before["total"] + since["total"] == 40


def test_a_stretch_of_time_is_counted_back_from_its_end_and_never_ends_before_it_begins(filled):
    _, client, _ = filled
    at = ask(client, "/api/requests", sort="newest", limit=1)["requests"][0]["at_ms"] + 1
    found = ask(client, "/api/overview", until=at, range=60)
    assert (found["from_ms"], found["until_ms"], found["requests"]) == (at - 60_000, at, 40)
    assert ask(client, "/api/requests", until=at, range=60)["total"] == 40

    long_ago = ask(client, "/api/overview", until=1)
    assert (long_ago["from_ms"], long_ago["until_ms"], long_ago["requests"]) == (0, 1, 0)
    for to_come in (int(time.time() * 1000) + 10**8, 253_370_764_800_000):
        found = ask(client, "/api/overview", since=to_come)
        assert found["from_ms"] == found["until_ms"] == to_come
        assert (found["requests"], found["scores"]) == (0, [])
        assert client.get(f"/?since={to_come}").status_code == 200
    assert client.get("/?since=253370764800001").status_code == 400


def test_an_overview_of_a_part_that_nobody_tells_apart_is_of_the_requests_that_the_list_has():
    """Metadata of many values is no part, but can be looked for; in the list and in the overview alike."""
    results = InMemoryExporter()
    meter = RagMeter(exporters=[results])
    for number in range(50):
        with meter.request(f"Who, {number}?", metadata={"user": f"u{number % 25}"}) as one:
            one.retrieved(list(CHUNKS))
            one.answered(BAD if number % 25 == 3 and number > 25 else GOOD)
    assert meter.flush(PATIENCE_S)
    meter.shutdown(PATIENCE_S)
    with running() as (_, client):
        tell(client, results.results)
        whole = ask(client, "/api/overview")
        assert "metadata.user" not in whole["segments"]
        for segment in ("metadata.user:u3", "user:u3"):
            found = ask(client, "/api/overview", segment=segment)
            listed = ask(client, "/api/requests", segment=segment)
            assert found["requests"] == listed["total"] == 2
            values = [row["scores"]["lexical_groundedness"]["value"] for row in listed["requests"]]
            (score,) = [one for one in found["scores"] if one["name"] == "lexical_groundedness"]
            # Of so few no mean is said, but within which bounds it lies.
            assert score["estimate"]["bounds"] == [sum(values) / 2] * 2
            assert score["estimate"]["n_requests"] == sum(
                one["estimate"]["n_requests"] for one in score["trend"]
            )
            assert found["verdicts"] == Counter(row["verdict"] for row in listed["requests"])
        assert ask(client, "/api/overview", segment="metadata.user:nobody")["requests"] == 0
        assert ask(client, "/api/overview") | {"until_ms": 0, "from_ms": 0} == whole | {
            "until_ms": 0,
            "from_ms": 0,
        }


def test_a_request_without_an_answer_keeps_its_question():
    results = InMemoryExporter()
    meter = RagMeter(exporters=[results])
    with meter.request("Who painted it?") as one:
        one.retrieved(list(CHUNKS))
    assert meter.flush(PATIENCE_S)
    meter.shutdown(PATIENCE_S)
    for content, question in ((True, "Who painted it?"), (False, None)):
        with running() as (_, client):
            tell(client, results.results, content=content)
            (row,) = ask(client, "/api/requests")["requests"]
            assert (row["status"], row["question"]) == ("retrieval_only", question)
            assert ask(client, f"/api/requests/{row['run_id']}")["question"] == question


def test_a_request_is_answered_by_its_trace_and_by_its_own_id(filled):
    _, client, _ = filled
    row = ask(client, "/api/requests")["requests"][0]
    by_trace = ask(client, f"/api/requests/{row['trace_id']}")

    assert by_trace == ask(client, f"/api/requests/{row['trace_id'].upper()}")
    assert by_trace == ask(client, f"/api/requests/{row['run_id']}")
    assert by_trace == ask(client, f"/api/requests/{row['trace_id']}", span_id=row["span_id"])
    assert by_trace["question"] == row["question"]
    assert len(by_trace["contexts"]) == 2
    assert by_trace["answer"]
    groundedness = next(s for s in by_trace["scores"] if s["name"] == "lexical_groundedness")
    assert groundedness["direction"] == "higher"
    assert groundedness["usual"] is None  # it is 0 or 1, so nothing is usual
    empty = next(s for s in by_trace["scores"] if s["name"] == "empty_retrieval")
    assert empty["usual"][0] <= empty["value"] <= empty["usual"][1]


def _cursor(said):
    return "/api/requests?cursor=" + urlsafe_b64encode(json.dumps(said).encode()).decode()


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("/api/overview?range=yesterday", 400, "range is one of"),
        ("/api/overview?range=-1", 400, "range is one of"),
        ("/api/overview?range=nan", 400, "range is one of"),
        ("/api/overview?range=1_000", 400, "range is one of"),
        ("/api/overview?range=%D9%A1%D9%A2", 400, "range is one of"),
        ("/api/overview?range=1h&range=24h", 400, "range is given 2 times"),
        ("/api/requests?since=253370764800001", 400, "since is beyond the year 9999"),
        ("/api/overview?since=soon", 400, "since is a whole number"),
        ("/api/overview?since=5&until=5", 400, "since is not before until"),
        ("/api/overview?segment=zh", 400, "name:value"),
        ("/api/overview?sort=worst", 400, "unknown parameter 'sort'"),
        ("/api/requests?verdict=ugly", 400, "good, suspect or bad"),
        ("/api/requests?reason=ugly", 400, "reason is one of answered_without_context"),
        ("/api/requests?reason=", 400, "reason is empty"),
        ("/api/requests?score=support", 400, "name>=value"),
        ("/api/requests?score=support>=0.5&score=", 400, "score is empty"),
        ("/api/requests?gap=1", 400, "8 hex digits"),
        ("/api/requests?segment=a:b&segment=c", 400, "name:value"),
        ("/api/facets?q=" + "a" * 501, 400, "at most 500"),
        ("/api/facets?sort=worst", 400, "unknown parameter 'sort'"),
        ("/api/requests?limit=501", 400, "1 to 500"),
        ("/api/requests?limit=0", 400, "1 to 500"),
        ("/api/requests?grouped=perhaps", 400, "true or false"),
        ("/api/requests?cursor=nonsense", 400, "cursor"),
        ("/api/requests?cursor=W10", 400, "cursor"),
        (_cursor([["worst", False], [0, 10**15], [0, 0, 0, 0], 0]), 400, "cursor"),
        (_cursor([["worst", False], [0, 10**30], [0, 0, 0, 0], 0]), 400, "cursor"),
        (_cursor([["worst", False], [5, 4], [0, 0, 0, 0], 0]), 400, "cursor"),
        (_cursor([["worst", False], [0, float("inf")], [0, 0, 0, 0], 0]), 400, "cursor"),
        (_cursor([["worst", False], [0, 1], [float("inf"), 0, 0, 0], 0]), 400, "cursor"),
        (_cursor([["question", False], [0, 1], [float("nan"), 0, 0, 0], 0]) + "&sort=question", 400, "cursor"),
        ("/api/requests/" + "0" * 32, 404, "no such request"),
        ("/api/requests?sort=nonsense", 400, "the name of a score: context_count"),
        ("/api/requests/nobody?span_id=1", 400, "16 hex digits"),
        ("/api/requests/nobody?span_id=" + "1" * 16, 404, "no such request"),
        ("/api/nothing", 404, "/api/overview"),
        ("/api", 404, "/api/overview"),
    ],
)
def test_what_makes_no_sense_is_answered_with_words(filled, address, status, says):
    _, client, _ = filled
    answer = client.get(address)
    assert answer.status_code == status
    assert says in answer.json()["error"]


def _outside(schema):
    """Values that a parameter's schema excludes."""
    if "anyOf" in schema:
        return set.intersection(*map(_outside, schema["anyOf"])) | {"perhaps", "-1"}
    if schema["type"] != "string":
        least, most = schema.get("minimum", 0), schema.get("maximum", 1)
        return {"", " ", "x", "1.5", "null", str(least - 1), str(most + 1)}
    free = {"type", "default"} >= set(schema)
    return set() if free else {""} | ({"ugly"} if {"enum", "pattern"} & set(schema) else set())


def test_every_value_that_the_description_excludes_is_refused(filled):
    _, client, _ = filled
    for path, how in ask(client, "/api/openapi.json")["paths"].items():
        for one in how.get("get", {}).get("parameters", ()):
            if one["in"] == "query":
                for value in _outside(one["schema"]):
                    answer = client.get(path.format(trace_id="x"), params={one["name"]: value})
                    assert answer.status_code == 400, (path, one["name"], value)
                    assert one["name"] in answer.json()["error"]


def test_the_description_has_the_limits_that_hold():
    asked = parameters_of("/api/requests")
    names, seconds = asked["range"]["anyOf"]
    assert (names["enum"], seconds["maximum"]) == (list(RANGES), LONGEST_RANGE_S)
    assert asked["until"]["maximum"] == asked["since"]["maximum"] == LATEST_MS
    assert asked["reason"]["enum"] == list(VERDICT_CODES)
    assert asked["q"]["maxLength"] == MOST_CHARACTERS


def test_a_cursor_of_another_order_is_refused(filled):
    _, client, _ = filled
    cursor = ask(client, "/api/requests", sort="newest", limit=1)["next"]
    answer = client.get("/api/requests", params={"sort": "worst", "cursor": cursor})
    assert answer.status_code == 400
    assert "another order" in answer.json()["error"]


def test_changes_stand_beside_the_overview(filled):
    """Those of the time that is looked at, and those that are still on, of what the filters leave."""
    server, _, _ = filled
    estimate = Estimate(lower=0.0, upper=1.0, n_requests=1, n_judged=1, mean=0.5, method="all")
    now = time.time()

    def change(score, at, workflow="museum"):
        return Change(
            score=score, workflow=workflow, since=at - 60, at=at, before=estimate, now=estimate,
            evidence=9_000.0, kind="fell",
        )  # fmt: skip

    still = change("still", now - 90_000)
    all_ = [still, change("new", now - 5), change("old", now - 90_000), change("else", now, "shop")]
    routes = api_routes(
        server.reader, lambda *, on: [still] if on else all_, list, server.meter.port.guard("serve.api")
    )
    with TestClient(Starlette(routes=routes)) as client:
        found = client.get("/api/overview?workflow=museum").json()["changes"]
        schemas = client.get("/api/openapi.json").json()["components"]["schemas"]
    assert [(one["score"], one["on"]) for one in found] == [("still", True), ("new", False)]
    assert found[0]["before"]["mean"] == 0.5
    assert [wrong(one, schemas["Change"], schemas) for one in found] == [[], []]


def test_nothing_can_be_changed_by_reading(filled):
    """And there is nothing else to do."""
    _, client, _ = filled
    for address in ("/api/overview", "/api/requests"):
        for refused in (client.post(address), client.delete(address)):
            assert refused.status_code == 405
            assert refused.headers["allow"] == "GET, HEAD"
            assert "GET" in refused.json()["error"]
    for method, address, allowed in (
        ("TRACE", "/api/requests/nobody", "GET, HEAD"),
        ("LOOK", "/api/openapi.json", "GET, HEAD"),
        ("GET", "/api/marks", "POST"),
        ("OPTIONS", "/api/changes/accept", "POST"),
        ("GET", "/api/gaps/state", "POST"),
    ):
        refused = client.request(method, address)
        assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
        assert refused.json()["error"]


def test_the_description_is_exact(filled):
    """An OpenAPI document from which a client can be made: no field too many, none too few, all of their types."""
    _, client, _ = filled
    document = ask(client, "/api/openapi.json")
    schemas = document["components"]["schemas"]
    row = ask(client, "/api/requests")["requests"][0]
    one = f"/api/requests/{row['trace_id']}"
    now_ms = int(time.time() * 1000) + 600_000
    filters = [
        {}, {"range": "24h"}, {"range": "900"}, {"since": "0"}, {"until": str(now_ms)}, {"service": "shop"},
        {"service": "nobody"}, {"workflow": "museum"}, {"workflow": ""}, {"segment": "metadata.tenant:acme"},
    ]  # fmt: skip
    narrowing = [
        {"verdict": "bad"}, {"reason": "unsupported_answer"}, {"q": 'Rembrandt "night watch"'}, {"gap": "0" * 8},
        {"score": ["support>=0.1", "lexical_groundedness<=0.9"]}, {"conversation_id": "c"},
        {"segment": ["metadata.tenant:acme", "language:en"]},
    ]  # fmt: skip
    question = ask(client, "/api/overview", range="24h")["questions"][0]["key"]
    narrowing.append({"question": question})
    lists = [
        *narrowing, {"sort": "question"}, {"sort": "newest"}, {"sort": "lexical_groundedness"}, {"limit": "1"},
        {"grouped": "true"}, {"grouped": "0"}, {"cursor": ask(client, "/api/requests", limit=1)["next"]},
    ]  # fmt: skip
    turns = [{"limit": "1"}, {"conversation_id": "c"}, {"asked_again": "true"}]
    lanes = [{"by": "workflow"}, {"by": "metadata.tenant"}]
    answered = {
        "/api/overview": [ask(client, "/api/overview", **one) for one in filters + lanes],
        "/api/requests": [ask(client, "/api/requests", **one) for one in filters + lists],
        "/api/requests/{trace_id}": [
            ask(client, one),
            ask(client, one, span_id=row["span_id"]),
            ask(client, f"/api/requests/{row['run_id']}"),
        ],
        "/api/conversations": [ask(client, "/api/conversations", **one) for one in filters + turns],
        "/api/gaps": [ask(client, "/api/gaps", **one) for one in filters],
        "/api/chunks": [ask(client, "/api/chunks", **one) for one in filters],
        "/api/facets": [ask(client, "/api/facets", **one) for one in filters + narrowing],
    }

    assert document["openapi"].startswith("3.1")
    assert {path for path, how in document["paths"].items() if "get" in how} == set(answered)
    for path, values in answered.items():
        operation = document["paths"][path]["get"]
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert [wrong(value, schema, schemas) for value in values] == [[]] * len(values)
    tried = {
        "/api/overview": {name for one in filters + lanes for name in one},
        "/api/requests": {name for one in filters + lists for name in one},
        "/api/requests/{trace_id}": {"trace_id", "span_id"},
        "/api/conversations": {name for one in filters + turns for name in one},
        "/api/gaps": {name for one in filters for name in one},
        "/api/chunks": {name for one in filters for name in one},
    }
    for path, names in tried.items():
        assert {one["name"] for one in document["paths"][path]["get"]["parameters"]} == names
    text = json.dumps(document)
    assert [name for name in schemas if f'#/components/schemas/{name}"' not in text] == []
    operations = [one for how in document["paths"].values() for one in how.values()]
    assert len({one["operationId"] for one in operations}) == len(operations) == 10
    assert {"type": "http", "scheme": "bearer"}.items() <= (
        document["components"]["securitySchemes"]["token"].items()
    )
    assert "None" not in text


def test_what_is_refused_is_refused_as_described(filled):
    _, client, _ = filled
    document = ask(client, "/api/openapi.json")
    schemas = document["components"]["schemas"]
    refused = [
        ("/api/overview", client.get("/api/overview?range=x")),
        ("/api/requests", client.get("/api/requests?limit=0")),
        ("/api/requests", client.get("/api/requests?grouped=perhaps")),
        ("/api/requests/{trace_id}", client.get("/api/requests/" + "0" * 32)),
        ("/api/overview", client.post("/api/overview")),
        ("/api/requests", client.get("/api/requests", headers={"Host": "evil.example"})),
    ]
    json_ = {"Content-Type": "application/json"}
    refused += [
        ("/api/marks", client.post("/api/marks", content=b'{"score": null}', headers=json_)),
        ("/api/marks", client.post("/api/marks", content=b"x" * 20_000, headers=json_)),
        ("/api/marks", client.post("/api/marks", content=b"{}", headers={"Origin": "null"})),
        ("/api/gaps/state", client.post("/api/gaps/state", json={"gap": "x", "state": "closed"})),
        ("/api/gaps/state", client.post("/api/gaps/state", json={"gap": "0" * 8, "state": "gone"})),
        ("/api/changes/accept", client.post("/api/changes/accept", content=b"{}")),
        ("/api/changes/accept", client.get("/api/changes/accept")),
    ]
    assert [answer.status_code for _, answer in refused[-7:]] == [400, 413, 403, 400, 400, 415, 405]
    for path, answer in refused:
        (operation,) = document["paths"][path].values()
        described = operation["responses"][str(answer.status_code)]
        assert [name for name in described.get("headers", ()) if name not in answer.headers] == []
        assert answer.headers["Cache-Control"] == "no-store"
        schema = described["content"]["application/json"]["schema"]
        assert wrong(answer.json(), schema, schemas) == []
        assert answer.json()["error"]


def test_what_the_server_scores_itself_is_answered_with_its_texts():
    """Spans of others, sent by an application without our callback."""
    body, trace_id = traced_as(7)
    with running() as (_, client):
        client.post("/v1/traces", content=body, headers=PROTOBUF).raise_for_status()
        until(
            lambda: client.get(f"/api/requests/{trace_id}").status_code == 200,
            what="the request was not scored",
        )
        found = ask(client, f"/api/requests/{trace_id}")
    assert found["question"]
    assert found["answer"]
    assert found["contexts"][0]["text"]
    assert found["scores"]


def test_senders_wait_while_the_store_takes_nothing(tmp_path):
    """503 to senders, nothing half kept; and taken again when there is room."""
    spans, _ = told(scored(2))
    body = spans.SerializeToString()
    with running(store=StoreOptions(path=tmp_path / "serve.db")) as (server, client):
        database = server.store._home.writer
        database.execute("PRAGMA query_only = ON")
        refused = client.post("/v1/traces", content=body, headers=PROTOBUF)
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) > 0
        health = client.get("/healthz").json()
        assert "store" in health["status"]
        assert health["store"] == {
            "kind": "file", "writable": False, "why": "attempt to write a readonly database", "refused": 1, "deleted": 0,
            "other": {},
        }  # fmt: skip
        database.execute("PRAGMA query_only = OFF")
        until(
            lambda: client.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200,
            what="it was not taken again",
        )
        found = ask(client, "/api/overview")
        assert found["requests"] == 2
        (time_of_it,) = found["overloads"]
        assert time_of_it["from_ms"] <= time_of_it["until_ms"]
        assert time_of_it["refused"] == server.stats()["exports"]["busy"] == sum(time_of_it["why"].values())
        health = client.get("/healthz").json()
        assert health["overloads"] == [time_of_it]
        assert (health["status"], health["store"]["writable"], health["store"]["why"]) == ("ok", True, None)
        schemas = ask(client, "/api/openapi.json")["components"]["schemas"]
        assert wrong(time_of_it, schemas["Overload"], schemas) == []
        later = ask(client, "/api/overview", until=str(time_of_it["from_ms"]), since="0")
        assert later["overloads"] == []
        assert "came than could be taken" in client.get("/?lang=en").text


def test_while_the_store_cannot_be_read_api_and_page_say_so_and_no_number(tmp_path):
    spans, _ = told(scored(1))
    with running(store=StoreOptions(path=tmp_path / "serve.db")) as (server, client):
        client.post("/v1/traces", content=spans.SerializeToString(), headers=PROTOBUF)
        for table in ("request", "revision"):
            server.store._home.writer.execute(f"ALTER TABLE {table} RENAME TO away_{table}")
        for address in ("/api/overview", "/api/requests", "/api/requests/nobody"):
            answer = client.get(address)
            assert answer.status_code == 503
            assert int(answer.headers["Retry-After"]) > 0
            assert "ask again" in answer.json()["error"]
        for address in ("/", "/requests", "/request/" + "0" * 32, "/scoring", "/export.jsonl"):
            page = client.get(address, headers={"Accept-Language": "en"})
            assert page.status_code == 503
            assert int(page.headers["Retry-After"]) > 0
            assert "The store cannot be read" in page.text
            assert "/golden" in page.text
        with client.stream("GET", "/live") as live:
            assert next(live.iter_lines()) == "retry: 5000"
        for table in ("request", "revision"):
            server.store._home.writer.execute(f"ALTER TABLE away_{table} RENAME TO {table}")
        assert ask(client, "/api/overview")["requests"] == 1
        assert client.get("/").status_code == 200


def test_when_the_judge_failed_stands_beside_the_overview():
    with running() as (server, client):
        runs = scored(8)
        server.store.export([judged(run, ("faithfulness", "APITimeoutError")) for run in runs[:3]])
        (outage,) = ask(client, "/api/overview")["outages"]
        schemas = ask(client, "/api/openapi.json")["components"]["schemas"]
        page = client.get("/scoring?lang=en").text
    assert (outage["requests"], outage["models"]) == (3, ["judge-1"])
    assert outage["errors"] == {"APITimeoutError": 3}
    assert wrong(outage, schemas["JudgeOutage"], schemas) == []
    assert "3 requests without a judged score" in page
    assert "judge-1 · APITimeoutError (3)" in page


@pytest.mark.parametrize(
    ("method", "address", "headers", "status"),
    [
        ("GET", "/api/overview", {"Host": "evil.example"}, 421),
        ("GET", "/api/overview", {"Host": "evil.example:4318"}, 421),
        ("POST", "/v1/traces", {"Host": "127.0.0.1.evil.example"}, 421),
        ("GET", "/healthz", {"Host": "evil.example"}, 421),
        ("GET", "/api/overview", {"Host": "localhost"}, 200),
        ("GET", "/api/overview", {"Host": "[::1]:4318"}, 200),
        ("GET", "/api/overview", {"Host": "127.0.0.1/evil.example"}, 421),
        ("GET", "/api/overview", {"Host": "evil.example@127.0.0.1"}, 421),
        ("GET", "/api/overview", {"Host": "127.0.0.1:evil"}, 421),
        ("GET", "/api/overview", {"Host": "127.0.0.1.:80"}, 421),
        ("POST", "/v1/traces", {"Origin": "https://evil.example"}, 403),
        ("POST", "/v1/logs", {"Origin": "null"}, 403),
        ("OPTIONS", "/v1/traces", {"Origin": "https://evil.example"}, 403),
        ("POST", "/api/overview", {"Origin": "https://evil.example"}, 403),
    ],
)
def test_web_pages_of_elsewhere_get_nothing(filled, method, address, headers, status):
    """A name that leads here, or a page that sends here: refused, and no header invites anyone."""
    _, client, _ = filled
    answer = client.request(method, address, headers=headers)
    assert answer.status_code == status
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    ("begin", "status", "outcome", "remedy"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"421", "grpc_on_http", b"=http/protobuf"),
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(160), b"400", "tls_on_http", b"use http://"),
        (b"\x00\x01nothing of HTTP\r\n\r\n", b"400", "no_http", b"posted to /v1/traces"),
    ],
)
def test_a_sender_that_speaks_something_else_to_the_port_for_http_is_counted(
    filled, begin, status, outcome, remedy
):
    server, _, _ = filled
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=PATIENCE_S) as wire:
        wire.sendall(begin)
        answer = b"".join(iter(lambda: wire.recv(65_536), b""))
    assert remedy in answer
    assert answer.split(b"\r\n")[0].split()[1] == status
    assert server.stats()["exports"][outcome] == 1


TOKEN = "a-token-of-the-tests"


def test_a_token_is_asked_for_where_one_is_set():
    """Of senders over both protocols, and of browsers; the address that was printed hands it to these once."""
    spans, _ = told(scored(1))
    body = spans.SerializeToString()
    with running(token=TOKEN) as (server, client):
        assert client.get("/api/overview").status_code == 401
        assert client.get("/api/overview?token=wrong").status_code == 401
        assert client.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 401
        assert client.get("/healthz").status_code == 200
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        sent = client.post("/v1/traces", content=body, headers=PROTOBUF | bearer)
        assert sent.status_code == 200
        assert client.get("/api/overview", headers=bearer).json()["requests"] == 1

        entered = client.get(f"/api/overview?range=1h&token={TOKEN}")
        assert entered.status_code == 303
        assert entered.headers["location"] == "/api/overview?range=1h"
        assert "HttpOnly" in entered.headers["set-cookie"]
        assert "samesite=strict" in entered.headers["set-cookie"].lower()
        assert client.get(entered.headers["location"]).status_code == 200
        assert server.url.endswith(f"/?token={TOKEN}")

        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            export = trace_service_pb2_grpc.TraceServiceStub(channel).Export
            request = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
            with pytest.raises(grpc.RpcError) as refused:
                export(request, timeout=PATIENCE_S)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
            export(request, timeout=PATIENCE_S, metadata=[("authorization", f"Bearer {TOKEN}")])
        assert server.stats()["exports"]["token"] == 4


def test_beyond_this_machine_there_is_always_a_token():
    with running(host="0.0.0.0") as (server, client):
        assert len(server.access.token) >= 32
        assert client.get("/api/overview").status_code == 401
    with pytest.raises(ConfigurationError, match="RAGMETER_SERVE_TOKEN"):
        Server(ServeOptions(http_port=0, grpc_port=0, token="short", store=StoreOptions()))


def test_a_request_says_what_people_make_of_its_word(filled):
    server, *_ = filled
    rate = VerdictRate("bad", 0.6, 0.46, 0.72, 50)
    routes = api_routes(
        server.reader, list, list, server.meter.port.guard("serve.api"),
        lambda word: rate if word == "bad" else None,
    )  # fmt: skip
    with TestClient(Starlette(routes=routes)) as client:
        schemas = client.get("/api/openapi.json").json()["components"]["schemas"]
        for word in ("bad", "good"):
            key = ask(client, "/api/requests", verdict=word, limit=1)["requests"][0]["trace_id"]
            found = ask(client, f"/api/requests/{key}")
            assert found["verdict_rate"] == (rate._asdict() if word == "bad" else None)
            assert wrong(found, schemas["Request"], schemas) == []
