"""A LangChain application in a process of its own gets worse: the page, the API, a webhook and an event say so."""

import json
import os
import re
import time
from copy import deepcopy
from pathlib import Path

import httpx
from otlp_endpoint import Endpoint
from otlp_receiver import OtlpReceiver, attributes_of
from python_process import run_python
from received_traffic import HOUR_S, Traffic, Weeks
from served import PATIENCE_S, until
from stored import store

from ragmeter.serve import ServeOptions, Server
from ragmeter.serve.store import StoreOptions

APP = Path(__file__).with_name("asking_app.py")
HISTORY_H = 8 * 24
"""All hours of workdays and of weekends are among them, whatever day it is."""
LATER_S = 1_200.0


def _ask(url, count, quality, service):
    """Have the application ask, and wait for its end."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAGMETER_")}
    env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SERVICE_NAME": service}
    done = run_python(str(APP), str(count), quality, env=env, timeout=PATIENCE_S * 2)
    assert done.returncode == 0, done.stderr


def _recorded():
    """One good request of the application, as each of two services sends it."""
    receiver = OtlpReceiver()
    try:
        _ask(receiver.url, 1, "good", "shop")
        spans, records = receiver.traces[0], receiver.log_requests[0]
        for more in receiver.traces[1:]:
            spans.MergeFrom(more)
        for more in receiver.log_requests[1:]:
            records.MergeFrom(more)
        shop = Traffic.of(deepcopy(spans), deepcopy(records))
        for group in (*spans.resource_spans, *records.resource_logs):
            for attribute in group.resource.attributes:
                if attribute.key == "service.name":
                    attribute.value.string_value = "bank"
        return shop, Traffic.of(spans, records)
    finally:
        receiver.close()


def test_a_fall_of_what_an_application_scored_itself_is_told_everywhere(tmp_path, monkeypatch):
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "RAGMETER_JSONL"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "serve.db"
    weeks = Weeks((time.time() // HOUR_S - HISTORY_H - 1) * HOUR_S)
    with store(path, clock=weeks.clock, keep_s=30 * 86_400.0) as kept:
        weeks.pass_(HISTORY_H, kept, [(each, 4, None) for each in _recorded()])
    backend = OtlpReceiver()
    with Endpoint() as hook:
        server = Server(
            ServeOptions(
                http_port=0,
                grpc_port=0,
                otlp=backend.url,
                store=StoreOptions(path=path, keep_s=30 * 86_400.0),
                webhook=f"http://127.0.0.1:{hook.port}/hook",
            )
        )
        server.start()
        try:
            url = f"http://127.0.0.1:{server.http_port}"
            until(lambda: {one.status for one in server.meter.watch.series()} == {"watching"})
            _ask(url, 40, "bad", "shop")
            _ask(url, 40, "good", "bank")
            # What came in the last minutes is looked at when these are over.
            server.meter._alarming._elsewhere._clock = lambda: time.time() + LATER_S
            assert server.meter.flush(PATIENCE_S)
            with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
                said = client.get("/api/overview").json()
                page = client.get("/", headers={"accept-language": "en"}).text
            until(lambda: hook.bodies)
            listed = httpx.get(json.loads(hook.bodies[0])["link"], timeout=PATIENCE_S).text
            first_of_list = re.search(r'href="(/request/[^"?]*)', listed)[1]
            worst = httpx.get(
                f"{url}{first_of_list}", headers={"accept-language": "en"}, timeout=PATIENCE_S
            ).text
            assert server.meter.flush(PATIENCE_S)
        finally:
            server.stop(PATIENCE_S)
    told = [one for one in said["changes"] if one["kind"] == "fell"]
    assert {(one["service"], one["workflow"]) for one in told} == {("shop", "tides")}
    assert "lexical_context_relevance" in {one["score"] for one in told}
    first = page[page.index("<h1") : page.index("</h1>")]  # the sentence
    assert "shop" in first
    assert "tides" in first
    assert "since" in first
    assert "bank" not in first
    assert "Why it is here" in worst
    posted = b"".join(hook.bodies)
    assert b"shop" in posted
    assert b"bank" not in posted
    events = {
        (attributes_of(group.resource)["service.name"], attributes_of(record)["ragmeter.change.kind"])
        for request in backend.log_requests
        for group in request.resource_logs
        for scoped in group.scope_logs
        for record in scoped.log_records
        if record.event_name == "ragmeter.change"
    }
    assert events == {("shop", "fell")}
    backend.close()
