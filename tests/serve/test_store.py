"""The store: what is told is kept once, in whatever order it comes, and nothing acknowledged is lost."""

import os
import random
import sqlite3
import stat
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from at_once import at_once
from call_count import calls
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import until
from stored import BAD, CHUNKS, GOOD, ask, dropped, moved, pieces_of, scored, store, tables, told

from ragmeter import RagMeter, RunsLostError, TryLaterError
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import ConfigurationError
from ragmeter.serve.store import Reader, Store, StoreOptions
from ragmeter.serve.store.views import Filters

HOUR_S = 3_600.0
DAY_S = 86_400.0
NOW_S = 1_800_000_000.0


@pytest.fixture(scope="module")
def runs():
    """Some scored requests."""
    return scored(4)


@pytest.fixture(scope="module")
def exports(runs):
    """What an application tells of them."""
    return told(runs)


@pytest.fixture(scope="module")
def pieces(exports):
    """The same, span by span and record by record."""
    return pieces_of(*exports)


@pytest.fixture(scope="module")
def whole(exports, tmp_path_factory):
    """The tables when all of it came at once and in order."""
    path = tmp_path_factory.mktemp("whole") / "serve.db"
    with store(path) as kept:
        for request in exports:
            kept.take(request)
    return tables(path)


def at(run, seconds):
    """A run as if it had happened then."""
    start = int(seconds * 1e9)
    moved = tuple(replace(one, started_ns=start, ended_ns=start + 10**6) for one in run.run.retrievals)
    return replace(run, run=replace(run.run, started_ns=start, ended_ns=start + 10**9, retrievals=moved))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), repeated=st.integers(0, 20))
def test_whatever_order_pieces_come_in_and_however_often_the_tables_are_the_same(
    pieces, tmp_path_factory, seed, repeated
):
    """Senders retry, batches overtake each other, events come before their spans."""
    chance = random.Random(seed)
    order = [*pieces, *chance.choices(pieces, k=repeated)]
    reference, shuffled = (tmp_path_factory.mktemp("order") / "serve.db" for _ in range(2))
    with store(reference) as kept:
        for piece in pieces:
            kept.take(piece)
    chance.shuffle(order)
    with store(shuffled) as kept:
        for piece in order:
            kept.take(piece)

    assert tables(shuffled) == tables(reference)


def test_pieces_and_whole_exports_make_the_same_tables(pieces, whole, fresh):
    """Who sends small batches sends the same."""
    place = fresh()
    with store(place) as kept:
        for piece in reversed(pieces):
            kept.take(piece)
    found = tables(place)

    assert found == whole
    assert len(found["request"]) == 4
    assert len(found["chunk"]) == 4 * len(CHUNKS)
    assert not found["loose"]


def test_threads_that_write_at_once_share_commits_and_lose_nothing(pieces, whole, fresh):
    """One writes, the others ride along."""
    place = fresh()
    with store(place) as kept:
        parts = pieces[::3], pieces[1::3], pieces[2::3], pieces
        at_once(lambda part: [kept.take(piece) for piece in part], parts)
    assert tables(place) == whole


def test_a_request_is_read_as_it_was_told(runs, fresh):
    """Texts, chunks, scores with their definitions, what they saw, and the verdict."""
    with store(fresh()) as kept:
        for request in told(runs):
            kept.take(request)
        reader = kept.reader()
        page = reader.requests(sort="worst")
        found = reader.request(page.requests[0].trace_id)

    assert page.total == 4
    assert found.row.question == "Who painted it, 0?"
    assert found.answer == BAD
    assert (found.row.verdict, found.row.verdict_codes) == ("bad", ("unsupported_answer",))
    assert found.verdict_reasons
    assert [chunk.text for chunk in found.contexts] == list(CHUNKS)
    assert (found.row.service, found.row.workflow) == ("shop", "museum")
    assert found.row.segments == {"language": "en", "metadata.tenant": "umbrella"}
    assert not found.row.orphan
    scores = {score.name: score for score in found.scores}
    wanted = next(run for run in runs if run.run.run_id == found.row.run_id)
    known = {n: s for n, s in wanted.scores.items() if s.status not in ("missing_input", "skipped")}
    assert {n: s.value for n, s in scores.items() if s.status == "ok"} == {
        n: s.value for n, s in known.items() if s.status == "ok"
    }
    for name, score in known.items():
        assert scores[name].direction == score.direction
        assert scores[name].definition == score.definition
        assert scores[name].range == score.range
        assert scores[name].summary == score.summary


def test_a_sentence_with_a_fact_that_no_chunk_has_is_supported_in_part(tmp_path):
    results = InMemoryExporter()
    with RagMeter(exporters=[results]) as meter, meter.request("How long is the tour, and where?") as one:
        one.retrieved(["The guided tour of the museum takes 45 minutes. It begins at the northern gate."])
        one.answered("The guided tour of the museum takes 50 minutes. It begins at the northern gate.")
    with store(tmp_path / "serve.db") as kept:
        for request in told(results.results):
            kept.take(request)
        marked = kept.reader().request(results.results[0].run.run_id).evidence

    assert [sentence.support for sentence in marked.answer] == ["partly", "found"]


def test_what_is_scored_here_reads_as_what_is_told_from_elsewhere(runs, fresh):
    """The same request by both ways."""
    with store(fresh()) as here, store(fresh()) as there:
        here.export(runs)
        for request in told(runs):
            there.take(request)
        ids = [run.run.run_id for run in runs]
        ours, theirs = ([made.reader().request(one) for one in ids] for made in (here, there))

    for mine, yours in zip(ours, theirs, strict=True):
        assert mine.answer == yours.answer
        assert [one.text for one in mine.contexts] == [one.text for one in yours.contexts]
        assert [(s.name, s.value, s.items) for s in mine.scores if s.status != "skipped"] == [
            (s.name, s.value, s.items) for s in yours.scores if s.status != "skipped"
        ]
        assert mine.row.verdict == yours.row.verdict


def test_which_chunk_a_sentence_rests_on_is_told(runs, fresh):
    """By the chunk's name, so without any text."""
    with store(fresh()) as kept:
        for request in told(runs, content=False):
            kept.take(request)
        reader = kept.reader()
        views = [reader.request(run.run.run_id) for run in runs]
    rests = [
        item.supported_by
        for view in views
        for score in view.scores
        if score.name == "lexical_context_utilization"
        for item in score.items
        if item.id == "sentence-1"
    ]
    assert rests.count(("chunk-1",)) == 3
    assert rests.count(()) == 1


def test_several_requests_of_one_trace_are_told_apart(fresh):
    """Each has its span; the trace's id leads to the first, and that to the others."""
    from opentelemetry.sdk.trace import TracerProvider

    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("application")
    from ragmeter.exporters.memory import InMemoryExporter

    results = InMemoryExporter()
    meter = RagMeter(exporters=[results])
    with tracer.start_as_current_span("agent") as span:
        for number in range(3):
            ask(meter, number)
        trace_id = f"{span.get_span_context().trace_id:032x}"
    assert meter.flush(60)
    meter.shutdown(60)
    with store(fresh()) as kept:
        for request in told(results.results):
            kept.take(request)
        reader = kept.reader()
        first = reader.request(trace_id)
        others = [reader.request(trace_id, one.span_id) for one in first.siblings]

        assert reader.request(trace_id, "0" * 16) is None
    assert len({first.row.span_id, *(one.row.span_id for one in others)}) == 3
    assert {one.row.run_id for one in (first, *others)} == {run.run.run_id for run in results.results}


def test_an_event_whose_span_has_not_come_is_an_orphan_until_it_does(runs, fresh):
    """Shown, and said so after a minute."""
    spans, records = told(runs)
    now = [runs[0].run.started_ns / 1e9 + 10]
    with store(fresh(), clock=lambda: now[0]) as kept:
        kept.take(records)
        reader = kept.reader()
        assert all(row.orphan for row in reader.requests().requests)
        assert reader.overview().orphans == 0
        now[0] += 120
        assert reader.overview().orphans == 4
        kept.take(spans)
        assert reader.overview().orphans == 0
        assert not any(row.orphan for row in reader.requests().requests)


CHILD = """
import pathlib
import sys
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from ragmeter.serve.store import Store, StoreOptions

store = Store(StoreOptions(path=pathlib.Path(sys.argv[1])))
body = pathlib.Path(sys.argv[2]).read_bytes()
number = int(sys.argv[3])
while True:
    request = ExportTraceServiceRequest.FromString(body)
    for group in request.resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                span.trace_id = number.to_bytes(16, "big")
                for item in span.attributes:
                    if item.key == "ragmeter.run_id":
                        item.value.string_value = f"run-{number}"
    store.take(request)
    print(number, flush=True)
    number += 1
"""


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path, runs, warm):
    """Killed while it writes; the file opens again, whole, and has every request that was answered for."""
    path, body = tmp_path / "serve.db", tmp_path / "body.pb"
    body.write_bytes(told(runs[:1])[0].SerializeToString())
    first, seen = 1, []
    for acknowledged in (1, 40):
        child = warm.start(CHILD, str(path), str(body), str(first), cwd=tmp_path, env={})
        out = child.folder / "out"
        until(lambda: out.exists() and out.read_text().count("\n") >= acknowledged)  # noqa: B023
        child.kill()
        # What it had said when it died was acknowledged, too.
        seen += map(int, child.end().stdout.split())
        first = max(seen) + 1
        with store(path) as kept:
            reader = kept.reader()
            missing = [n for n in seen if reader.request(f"{n:032x}") is None]
        assert not missing
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_what_is_too_old_goes_and_stays_in_the_sums(runs, fresh):
    """A month can be looked at although a week of requests is there."""
    now = [1_800_000_000.0]
    old = [at(run, now[0] - 9 * DAY_S + n) for n, run in enumerate(runs[:2])]
    new = [at(run, now[0] - HOUR_S + n) for n, run in enumerate(runs[2:])]
    month = Filters(range_s=30 * DAY_S)
    with store(fresh(), clock=lambda: now[0], keep_s=7 * DAY_S) as kept:
        now[0] -= 8.5 * DAY_S
        kept.export(old)
        now[0] += 8.5 * DAY_S
        kept.export(new)
        reader = kept.reader()
        before = reader.overview(month)
        while kept.maintain():
            pass
        after = reader.overview(month)
        left = {row.run_id for row in reader.requests(month).requests}
        counted = kept.stats().requests, kept.state().deleted

    assert left == {run.run.run_id for run in new}
    assert counted == (2, 2)
    assert after.requests == before.requests == 4
    assert {s.name: s.estimate for s in after.scores} == {s.name: s.estimate for s in before.scores}
    assert after.groups == before.groups


def test_hours_that_are_not_added_up_yet_are_the_same_points_of_a_trend(runs, fresh):
    """After an import, say: all at once, of many hours."""
    now = 1_800_000_000.0

    def points(kept):
        return [
            (one.from_ms, one.until_ms)
            for of_score in kept.reader().trends(Filters(range_s=DAY_S)).values()
            for one in of_score
        ]

    with store(fresh(), clock=lambda: now) as kept:
        kept.export([moved(runs[n % 4], f"run-{n}", now - 6 * HOUR_S + n * 900) for n in range(24)])
        before = points(kept)
        while kept.maintain():
            pass
        assert points(kept) == before


def test_what_a_sender_with_a_wrong_clock_dates_ahead_is_counted(runs, fresh):
    now = 1_800_000_000.0
    with store(fresh(), clock=lambda: now) as kept:
        kept.export([moved(runs[0], "now", now - 60), moved(runs[1], "later", now + 2 * HOUR_S)])
        overview = kept.reader().overview()

        assert (overview.requests, overview.ahead) == (1, 1)


def test_what_was_added_up_is_what_was_counted(runs, fresh):
    """In the five minutes after it came, with what comes late, and after its hour; also once opened again."""
    now, place = [1_800_000_000.0], fresh()
    came = now[0]

    def overview():
        with store(place, clock=lambda: now[0]) as kept:
            counted = kept.reader().overview(Filters(range_s=7_200.0))
            while kept.maintain():
                pass
            added_up = kept.reader().overview(Filters(range_s=7_200.0))
            assert added_up.groups == counted.groups
            assert [(s.name, s.estimate, s.statuses) for s in added_up.scores] == [
                (s.name, s.estimate, s.statuses) for s in counted.scores
            ]
        with store(place, clock=lambda: now[0]) as kept:
            again = kept.reader().overview(Filters(range_s=7_200.0))
        assert again == added_up
        return again

    for number, later_s in enumerate((0, 500, 0, 3_700)):
        with store(place, clock=lambda: now[0]) as kept:
            kept.export([at(runs[number], came + number)])
        now[0] += later_s
        assert overview().requests == number + 1


def test_what_has_just_come_stays_be_it_of_long_ago(runs, fresh):
    """A recording that is sent today is there to be looked at."""
    with store(fresh(), clock=lambda: 1_800_000_000.0, keep_s=7 * DAY_S) as kept:
        kept.export([at(run, 1_500_000_000.0) for run in runs])
        while kept.maintain():
            pass
        assert kept.stats().requests == 4


def test_texts_go_with_the_last_request_that_has_them(fresh):
    """Chunks are kept once, and as long as any request holds them."""
    made = scored(6)
    now = [1_800_000_000.0]
    place = fresh()
    with store(place, clock=lambda: now[0], keep_s=DAY_S) as kept:
        kept.export([at(run, now[0] + n) for n, run in enumerate(made[:3])])
        now[0] += DAY_S / 2
        kept.export([at(run, now[0] + n) for n, run in enumerate(made[3:])])

        def bodies():
            return {body for (body,) in tables(place)["text"]}

        assert {*CHUNKS, GOOD, BAD} <= bodies()
        now[0] += DAY_S * 0.75
        while kept.maintain():
            pass
        assert set(CHUNKS) <= bodies()
        now[0] += 5 * DAY_S
        while kept.maintain():
            pass
        assert not bodies()
        assert kept.stats().requests == 0


def of_service(run, name):
    """A run that a service has told of; None: none is named."""
    return replace(run, run=replace(run.run, resource={"service.name": name} if name else {}))


def test_services_are_kept_for_times_of_their_own(fresh):
    """Longer or shorter than the others; also where nothing of them is due, and with sums that stay."""
    made = scored(9)
    now = [1_800_000_000.0]
    keeps = {"keep_s": 7 * DAY_S, "keep_by_service": {"shop": 30 * DAY_S, "lab": DAY_S / 2}}
    with store(fresh(), clock=lambda: now[0], **keeps) as kept:
        for service, runs in (("shop", made[:3]), ("lab", made[3:6]), (None, made[6:])):
            kept.export([of_service(at(run, now[0] + n), service) for n, run in enumerate(runs)])

        def left(days):
            now[0] = 1_800_000_000.0 + days * DAY_S
            while kept.maintain():
                pass
            return kept.stats().requests

        assert [left(days) for days in (0.4, 0.6, 6.9, 7.1, 29.9, 30.1)] == [9, 6, 6, 3, 3, 0]
        month = kept.reader().overview(Filters(range_s=31 * DAY_S))
        assert month.requests == 9


def test_the_oldest_make_room_where_there_is_too_little(runs, tmp_path):
    """By size, and by the server's clock: here the senders' runs backwards."""
    now = 1_800_000_000.0
    with store(tmp_path / "serve.db", clock=lambda: now, max_bytes=2**20) as kept:
        number = 0
        refused = False
        while not refused:
            batch = []
            for _ in range(50):
                run = at(runs[number % 4], now - 10_000 - number)
                batch.append(replace(run, run=replace(run.run, run_id=f"run-{number:06}")))
                number += 1
            try:
                kept.export(batch)
            except TryLaterError:
                refused = True
        assert kept.why_not() is not None
        assert kept.state().refused == 1
        while kept.maintain():
            pass
        assert kept.stats().bytes <= 2**20
        kept.export(batch)
        assert kept.why_not() is None
        found = [kept.reader().request(f"run-{n:06}") for n in (0, number - 1)]

    assert found[0] is None
    assert found[1] is not None


def test_a_run_that_has_no_place_in_the_database_loses_itself_alone(runs, fresh):
    """Else the others would wait for it for ever."""
    bad = replace(runs[1], run=replace(runs[1].run, started_ns=1 << 70))
    with store(fresh()) as kept:
        with pytest.raises(RunsLostError) as lost:
            kept.export([runs[0], bad, *runs[2:]])
        assert lost.value.lost == 1
        assert kept.stats().requests == 3
        assert kept.trouble is None


def test_without_texts_no_word_of_them_is_in_any_file(runs, tmp_path):
    """Not in the database, nor in what SQLite keeps beside it."""
    path = tmp_path / "serve.db"
    with store(path, texts=False) as kept:
        kept.export(runs)
        for request in told(runs):
            kept.take(request)
        assert kept.reader().overview().without_text == 4
        written = b"".join(each.read_bytes() for each in tmp_path.iterdir())
        found = kept.reader().request(runs[0].run.run_id)

    words = {word.strip(".,?") for text in (*CHUNKS, GOOD, BAD) for word in text.split()}
    words = {word for word in words if len(word) > 4} | {"Who painted"}
    assert not [word for word in words if word.lower().encode() in written.lower()]
    assert [chunk.text for chunk in found.contexts] == [None, None]
    assert found.row.verdict == "bad"


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_files_are_the_users_alone(runs, tmp_path):
    """They hold what people asked."""
    path = tmp_path / "folder" / "serve.db"
    with store(path) as kept:
        kept.export(runs)
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
        assert modes == dict.fromkeys(modes, 384)
        assert "serve.db" in modes
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_of_another_process_is_refused_and_a_private_one_may_take_its_place(runs, tmp_path, caplog):
    """Two servers on one machine: the second says so, or goes without."""
    path = tmp_path / "serve.db"
    with store(path):
        with pytest.raises(ConfigurationError, match="in use by another process"):
            Store(StoreOptions(path=path))
        with store(path, or_private=True) as private:
            private.export(runs)
            assert private.shown != str(path)
            assert private.reader().overview().requests == 4
        assert not Path(private.shown).exists()
    assert "until this server ends" in caplog.text
    with store(path) as again:
        assert again.stats().requests == 0


@pytest.mark.parametrize(
    ("pragmas", "says"),
    [
        (["user_version = 99", f"application_id = {0x52414750}"], "later version"),
        (["application_id = 7"], "no store of ragmeter"),
    ],
)
def test_files_of_others_and_of_later_versions_are_left_alone(tmp_path, pragmas, says):
    """They are refused with words, and not changed."""
    path = tmp_path / "serve.db"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE precious (thing)")
    for pragma in pragmas:
        database.execute(f"PRAGMA {pragma}")
    database.close()
    with pytest.raises(ConfigurationError, match=says):
        Store(StoreOptions(path=path))
    (folder := tmp_path / "folder").mkdir()
    with pytest.raises(ConfigurationError, match="give a file that this user may write to"):
        Store(StoreOptions(path=folder, or_private=True))
    (other := tmp_path / "notes.txt").write_text("no database at all, and longer than a page of one\n" * 20)
    with pytest.raises(ConfigurationError, match=r"not a database.*put a backup in its place, or give another"):
        Store(StoreOptions(path=other))
    database = sqlite3.connect(path)
    assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("precious",)]
    database.close()


def test_a_store_is_opened_again_with_everything_in_it(runs, fresh):
    """Also what was summed up."""
    place = fresh()
    with store(place) as kept:
        kept.export(runs)
        first = kept.reader().overview()
    with store(place) as kept:
        again = kept.reader().overview()
    assert again.scores == first.scores
    assert again.groups == first.groups


def test_names_beyond_what_anyone_can_look_at_are_counted_together(fresh):
    """Workflows as `other`; metadata with too many values is no segment and can be looked for all the same."""
    (run,) = scored(1)

    def named(number):
        sample = run.run.sample.model_copy(update={"name": f"flow-{number}"})
        made = replace(
            run.run, run_id=f"r{number}", sample=sample, metadata={"user": f"u{number}", "tier": "a"}
        )
        return replace(run, run=made)

    with store(fresh()) as kept:
        kept.export([named(number) for number in range(60)])
        reader = kept.reader()
        overview = reader.overview()
        found = reader.requests(Filters(segment="metadata.user:u59"))

        assert kept.state().other["workflow"] == 10
    assert len(overview.workflows) == 51
    assert overview.workflows["other"] == 10
    assert set(overview.segments) == {"language", "metadata.tier"}
    assert [row.run_id for row in found.requests] == ["r59"]


def test_what_meters_dropped_is_told_for_the_time_that_is_looked_at(fresh):
    """Counters that only grow, from several meters, told late and twice."""
    now = NOW_S
    told_ = [
        dropped(10, now - 2 * HOUR_S, began_s=now - DAY_S, **{"name": "shop", "instance.id": "one"}),
        dropped(17, now - 60, began_s=now - DAY_S, **{"name": "shop", "instance.id": "one"}),
        dropped(5, now - 60, began_s=now - 600, **{"name": "shop", "instance.id": "two"}),
    ]
    with store(fresh(), clock=lambda: now) as kept:
        for request in (*reversed(told_), told_[0]):
            kept.take_metrics(request)
        reader = kept.reader()

        assert reader.overview().dropped == {"queue_full": 7 + 5}
        assert reader.overview(Filters(range_s=3 * HOUR_S, service="shop")).dropped == {"queue_full": 12}
        assert reader.overview(Filters(service="other")).dropped == {}


def test_counting_holds_the_scores_of_some_requests_at_a_time(runs, tmp_path):
    """Else the overview of a busy quarter of an hour would take hundreds of megabytes."""
    peaks = []
    for count in (512, 1_280):
        with store(tmp_path / f"{count}.db", clock=lambda: NOW_S) as kept:
            kept.export([moved(runs[number % 4], f"{number}", NOW_S - 60) for number in range(count)])
            reader = kept.reader()
            tracemalloc.start()
            assert reader.overview().requests == count
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < 1_500 * (1_280 - 512)


@pytest.mark.parametrize("look", [Reader.requests, lambda reader: reader.request("0")], ids=["list", "one"])
def test_looking_at_many_services_costs_no_more_than_in_proportion(look, runs, tmp_path):
    counts = []
    for services in (8, 40):
        with store(tmp_path / f"{services}.db", clock=lambda: NOW_S) as kept:
            kept.export(
                [moved(runs[1], f"{number}", NOW_S - 60, resource={"service.name": f"s{number}"})
                 for number in range(services)]
            )  # fmt: skip
            counts.append(calls(partial(look, kept.reader())))
    assert counts[1] < 5 * counts[0]
