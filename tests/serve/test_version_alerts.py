"""A version that makes a service worse is told by the meter's way of telling, once."""

import json
from contextlib import contextmanager
from functools import partial

import pytest
from deployed_traffic import requests
from loopback_server import LoopbackServer
from stored import store

from ragmeter.adapters.opentelemetry.heard import HeardService
from ragmeter.exporters.webhook import ChangeWebhook
from ragmeter.metrics import ConfigurationError
from ragmeter.serve import ServeOptions, Server
from ragmeter.serve._digest import Digest
from ragmeter.serve._version_alerts import report_worse_versions
from ragmeter.serve.store.claims import StoredClaims
from ragmeter.watch.wording import word_change

NOW_MS = 1_795_350_000_000
HOUR_MS = 3_600_000


def test_a_worse_version_is_told_once_with_what_it_did(tmp_path):
    told = []
    with store(tmp_path / "serve.db", clock=lambda: NOW_MS / 1000, keep_s=1e9) as kept:
        look = partial(
            report_worse_versions,
            kept.reader(),
            lambda *one: told.append(one),
            lambda: [change for change, _ in told],
        )
        kept.export(requests(400, start_ms=NOW_MS - 3 * HOUR_MS, every_ms=20_000))
        kept.export(requests(100, version="2.5.0", start_ms=NOW_MS - 2 * HOUR_MS // 3, first=400, seed=2))
        assert look() is False
        assert told == [], "it is as good as the one before"

        kept.export(
            requests(
                80,
                version="2.6.0",
                index_version="i2",
                start_ms=NOW_MS - HOUR_MS // 4,
                bad=0.6,
                first=600,
                seed=3,
            )
        )
        for _ in range(3):
            look()

    ((change, resource),) = told
    assert resource == {"service.name": "shop"}
    assert (change.kind, change.segment) == ("version", "metadata.service.version:2.6.0")
    assert change.now.upper < change.before.mean
    assert change.at == NOW_MS / 1000
    said = word_change(change)
    assert said.startswith("shop 2.6.0 is worse than 2.5.0 since 2026-11-22 12:05 UTC: support 0.8")
    assert "; bad answers" in said
    assert "; new at the same moment: index_version = i2" not in said, "it is the first index"


@contextmanager
def busy_chat():
    """The address of a server that asks for five seconds once, and the texts that were posted there."""
    posted = []

    def reply(received):
        posted.append(json.loads(received.body)["text"])
        return 503 if len(posted) == 1 else 200, b"", {"Retry-After": "5"}

    with LoopbackServer(reply) as server:
        yield f"{server.url}/hook", posted


def test_a_digest_comes_once_a_week_with_what_fell_and_what_is_not_scored(tmp_path):
    clock, said = [NOW_MS / 1000], []
    deaf = HeardService(service="bot", traces=64, reasons={"no_retrieval_seen": 64}, fix="name the tool")
    with store(tmp_path / "serve.db", clock=lambda: clock[0], keep_s=1e9) as kept, busy_chat() as (url, posted):
        kept.export(requests(400, start_ms=NOW_MS - 3 * HOUR_MS, every_ms=20_000))
        kept.export(requests(80, version="2.6.0", start_ms=NOW_MS - HOUR_MS // 4, bad=0.6, first=600, seed=3))
        digest = Digest(
            "weekly", kept.reader(), lambda: [deaf], tuple, clock=lambda: clock[0], say=said.append,
            post=ChangeWebhook(url).digest, claims=StoredClaims(kept),
        )  # fmt: skip
        beside = []
        other = Digest(
            "weekly", kept.reader(), tuple, tuple, clock=lambda: clock[0], say=len, post=beside.append,
            claims=StoredClaims(kept),
        )  # fmt: skip
        digest.look()
        assert said == []
        clock[0] += 7 * 86_400
        digest.look()
        digest.look()
        assert posted == said, "the address was busy, and asked for five seconds"
        clock[0] += 5
        digest.look()
        digest.look()
        other.look()
        assert beside == [], "the other server on this store has posted it"

        again = []
        Digest(
            "weekly", kept.reader(), tuple, tuple, clock=lambda: clock[0], say=again.append,
            claims=StoredClaims(kept),
        ).look()  # fmt: skip
        assert again == [], "a server that starts again has sent it before"

    (text,) = said
    assert posted == [text, text]
    assert "- shop 2.6.0 is worse than 2.4.1 since 2026-11-22 12:05 UTC: support 0.8" in text
    assert "- bot: 64 traces heard, none scored. Its spans show model calls" in text
    assert "## Knowledge gaps" in text
    assert " bad\n" in text.partition("## Worst questions")[2]


def test_a_digest_that_was_due_while_no_server_ran_comes_at_the_next_start(tmp_path):
    monday = 1_795_996_800.0 - 7 * 86_400
    clock, said = [monday - HOUR_MS / 1000], []

    def started(period):
        return Digest(
            period, kept.reader(), tuple, tuple, clock=lambda: clock[0], say=said.append,
            claims=StoredClaims(kept), language="ru",
        )  # fmt: skip

    with store(tmp_path / "serve.db", clock=lambda: clock[0], keep_s=1e9) as kept:
        started("daily").look()
        assert said == [], "nothing came yesterday"
        kept.export(requests(40, start_ms=int(clock[0] * 1000) - HOUR_MS, every_ms=20_000))
        for clock[0] in (monday + 300, monday + 900):
            for period in ("daily", "weekly"):
                digest = started(period)
                digest.look()
                digest.look()

    day, week = said
    assert day.startswith("# ragmeter, 2026-11-22 00:00 UTC – 2026-11-23 00:00 UTC\n")
    assert week.startswith("# ragmeter, 2026-11-16 00:00 UTC – 2026-11-23 00:00 UTC\n")
    assert "## Худшие вопросы" in week


def test_a_digest_that_there_is_not_is_refused():
    with pytest.raises(ConfigurationError, match="daily, weekly"):
        Server(
            ServeOptions(http_port=0, grpc_port=0, durable=False, digest="hourly", otlp="http://127.0.0.1:9")
        )
