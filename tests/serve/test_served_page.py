"""The page on the server's port: of what it keeps, under the port's rules, and gone when the server ends."""

import re
import threading

import httpx
import pytest
from served import PATIENCE_S, served, traced_as, until

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import ConfigurationError
from ragmeter.serve import ServeOptions, Server
from ragmeter.serve.store import StoreOptions


def options(folder, **given):
    return {"store": StoreOptions(path=folder / "serve.db"), **given}


def test_the_page_is_on_the_port_of_otlp_over_http(tmp_path):
    with served(**options(tmp_path)) as server:
        page = httpx.get(server.url, timeout=60)

        assert page.status_code == 200
        assert "Waiting for the first request" in page.text
        assert server.url in page.text
        assert f"http://{server.grpc}" in page.text
        assert httpx.get(f"{server.url}/static/live.js", timeout=60).status_code == 200


@pytest.mark.parametrize("passed", ["/ops/rag", ""], ids=["passed on", "taken off"])
def test_behind_a_proxy_that_shows_the_page_under_a_path_every_link_leads_there(tmp_path, passed):
    with served(
        **options(tmp_path, page="https://ops.example/ops/rag/", token="a-token-of-the-tests")
    ) as server:
        with httpx.Client(base_url=server.url, timeout=60) as browser:
            entered = browser.get(f"{passed}/requests?token=a-token-of-the-tests")
            browser.headers["cookie"] = entered.headers["set-cookie"].partition(";")[0]
            pages = [browser.get(f"{passed}/{name}") for name in ("requests", "gaps", "golden", "nowhere", "")]
            (style,) = re.findall(r'<link rel="stylesheet" href="(\S+)"', pages[0].text)

            assert entered.headers["location"] == "/ops/rag/requests"
            assert [page.status_code for page in pages] == [200, 200, 200, 404, 200]
            for page in pages:
                links = re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text)
                assert links
                assert [link for link in links if not link.startswith("/ops/rag/")] == []
            assert browser.get(style).headers["content-type"].startswith("text/css")
            assert browser.get(f"{passed}/api/overview").json()["requests"] == 0
            chosen = browser.get(f"{passed}/requests?theme=dark")
            paths = [re.findall("(?<=Path=)[^;]+", one.headers["set-cookie"]) for one in (entered, chosen)]
            assert paths == [["/ops/rag/"], ["/ops/rag/"]]


def test_without_a_store_there_is_no_page():
    with served() as server:
        assert httpx.get(server.url, timeout=60).status_code == 404


def test_another_host_name_sees_nothing(tmp_path):
    with served(**options(tmp_path)) as server:
        assert httpx.get(server.url, headers={"host": "evil.example"}, timeout=60).status_code == 421


def test_what_was_scored_here_is_shown_and_labelled(tmp_path, monkeypatch):
    body, trace_id = traced_as(7)
    monkeypatch.delenv("RAGMETER_JSONL", raising=False)
    server = Server(ServeOptions(http_port=0, grpc_port=0, grace_s=0.0, **options(tmp_path)))
    server.start()
    url = server.url.rstrip("/")
    try:
        headers = {"content-type": "application/x-protobuf"}
        assert httpx.post(f"{url}/v1/traces", content=body, headers=headers, timeout=60).status_code == 200
        until(lambda: httpx.get(f"{url}/trace/{trace_id}", timeout=60).status_code == 200, what="the request")
        page = httpx.get(f"{url}/trace/{trace_id}", timeout=60).text
        token = page.partition('name="form" value="')[2].partition('"')[0]
        address = page.partition('method="post" action="')[2].partition('"')[0]
        form = {"form": token, "word": "right", "golden": "1"}

        def answered(origin, site=None):
            headers = {"origin": origin} | ({} if site is None else {"sec-fetch-site": site})
            return httpx.post(url + address, data=form, headers=headers, timeout=60).status_code

        for origin, site in (("http://evil", None), ("null", None), (url, "cross-site"), (url, "same-site")):
            assert answered(origin, site) == 403
        assert not (tmp_path / "labels.jsonl").exists()
        # A proxy with TLS in front, which passes the header Host on; and one that writes its own address there.
        for origin, site in (
            (url, None),
            (url.replace("http:", "https:"), None),
            ("https://x.example", "same-origin"),
        ):
            assert answered(origin, site) == 303
        assert (tmp_path / "golden.jsonl").exists()
        assert (tmp_path / "labels.jsonl").exists()
    finally:
        server.stop(PATIENCE_S)


def test_an_open_page_does_not_hold_up_the_end(tmp_path):
    opened, closed = threading.Event(), threading.Event()

    def look(url):
        with httpx.stream("GET", f"{url}/live", timeout=PATIENCE_S) as stream:
            for line in stream.iter_lines():
                if line.startswith("retry"):
                    opened.set()
        closed.set()

    with served(**options(tmp_path)) as server:
        watching = threading.Thread(target=look, args=(server.url,), daemon=True)
        watching.start()
        assert opened.wait(PATIENCE_S)
        server.drained()
        assert closed.wait(PATIENCE_S), "the stream was ended, not cut off"
        watching.join(PATIENCE_S)


@pytest.mark.parametrize("address", ["http://jaeger/trace", "javascript:{trace_id}"])
def test_an_address_of_traces_that_is_none_is_refused_and_lets_go_of_the_port(tmp_path, address):
    meter = RagMeter(exporters=[InMemoryExporter()])
    given = ServeOptions(http_port=0, grpc_port=0, **options(tmp_path, trace_urls=[address]))

    with pytest.raises(ConfigurationError, match="--trace-url"):
        Server(given, meter=meter)
    meter.shutdown(PATIENCE_S)


def test_a_golden_set_of_ones_own(tmp_path):
    golden = tmp_path / "mine" / "set.jsonl"
    golden.parent.mkdir()
    golden.write_text('{"question": "Who?", "answer": "I"}\n')
    with served(**options(tmp_path, golden=golden)) as server:
        assert "Who?" in httpx.get(f"{server.url}/golden", timeout=60).text
