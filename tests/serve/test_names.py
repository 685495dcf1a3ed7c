"""Every name that a sender chooses has a bound: a test over all columns of the store, and what a page then costs."""

import sqlite3

import pytest
from call_count import calls
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from stored import dropped, store

from ragmeter.exporters import semconv
from ragmeter.serve.store import _names, _sums
from ragmeter.serve.store._gap_list import MOST_DECIDED
from ragmeter.serve.store.views import Filters, InvalidQueryError

MANY = 260
OF_ONE_REQUEST = {
    "request": {
        "run_id", "verdict", "codes", "reasons", "language", "retriever", "conversation_id", "user_id", "selection",
        "judge_selection", "missing", "metadata", "stages", "segments",
    },
    "score": {"label"},
    "evidence": {"name", "summary", "explanation", "items"},
    "text": {"body"},
    # Of each score there are only so many.
    "kind": {"method", "target", "definition", "direction", "endpoint"},
    "chunk": {"document"},
    "loose": {"retriever", "scores"},
    # What servers tell each other, and what is told apart.
    "telling": {"claim", "series", "kind", "body"},
    "name": {"name"},
    "segment": {"value"},
    # Of each service there are only so many.
    "appearance": {"name", "value"},
}  # fmt: skip
"""Texts by which nothing is grouped. Of every other column there may be only as many as `BOUNDS` says."""
BOUNDED = {
    ("request", "service"): "service",
    ("request", "workflow"): "workflow",
    ("request", "framework"): "framework",
    ("request", "status"): "status",
    ("request", "environment"): "environment",
    ("score", "name"): "score",
    ("score", "status"): "score_status",
    ("score", "error_type"): "error",
    ("kind", "name"): "score",
    ("kind", "judge"): "judge",
    ("dropped", "service"): "service",
    ("appearance", "service"): "service",
    ("dropped", "reason"): "reason",
}
NOTED = {
    ("name", "sort"): len(_names.BOUNDS),
    ("segment", "name"): 50,
    ("segment_name", "name"): 50,
    ("gap_state", "id"): MOST_DECIDED,
    ("gap_state", "state"): 2,
}


def put(carrier, **said):
    for name, value in said.items():
        kind = "double_value" if isinstance(value, float) else "string_value"
        carrier.attributes.add(key=name, value=AnyValue(**{kind: value}))


def request_of(number, *, scores=1, one_score=False):
    """A request of which everything is called as nothing else is."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    put(group.resource, **{"service.name": f"s{number}", "deployment.environment.name": f"e{number}"})
    scoped = group.scope_spans.add()
    scoped.scope.name = "ragmeter"
    span = scoped.spans.add(
        trace_id=(number + 1).to_bytes(16, "big"),
        span_id=(number + 1).to_bytes(8, "big"),
        start_time_unix_nano=10**18 + number,
        end_time_unix_nano=10**18 + number + 1,
    )
    put(span, **{
        semconv.RUN_ID: f"r{number}", semconv.GEN_AI_OPERATION_NAME: "invoke_workflow",
        semconv.GEN_AI_WORKFLOW_NAME: f"w{number}", semconv.FRAMEWORK: f"f{number}",
        semconv.REQUEST_STATUS: f"st{number}", semconv.SPAN_SEGMENT_PREFIX + f"seg{number}": f"v{number}",
        semconv.SPAN_METADATA_PREFIX + f"meta{number}": f"v{number}",
        semconv.SPAN_METADATA_PREFIX + "user": f"v{number}",
    })  # fmt: skip
    for score in range(scores):
        event = span.events.add(name=semconv.EVENT_EVALUATION_RESULT, time_unix_nano=10**18 + number)
        put(event, **{
            semconv.GEN_AI_EVALUATION_NAME: "one" if one_score else f"score{number}-{score}",
            semconv.GEN_AI_EVALUATION_SCORE_VALUE: 0.5, semconv.SCORE_STATUS: f"ss{number}",
            semconv.SCORE_METHOD: f"m{number}", semconv.SCORE_TARGET: f"t{number}",
            semconv.EVALUATOR_VERSION: f"d{number}", semconv.SCORE_JUDGE_MODEL: f"j{number}",
            semconv.SCORE_JUDGE_ENDPOINT: f"p{number}", semconv.ERROR_TYPE: f"x{number}",
            semconv.SCORE_MIN: -float(number), semconv.SCORE_MAX: 1.0 + number,
        })  # fmt: skip
    return request


def texts_of(place):
    """Every column of texts, with what stands in it."""
    database = sqlite3.connect(place)
    try:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            for _, column, kind, *_ in database.execute(f"PRAGMA table_info({table})"):
                if kind == "TEXT":
                    found = database.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
                    yield table, column, {value for (value,) in found if value is not None}
    finally:
        database.close()


@pytest.mark.parametrize("one_score", [False, True], ids=["many-scores", "many-kinds"])
def test_every_column_of_names_has_a_bound_and_an_other(tmp_path, one_score):
    place = tmp_path / "s.db"
    with store(place, max_bytes=10**9) as kept:
        for number in range(MANY):
            kept.take(request_of(number, one_score=one_score))
            kept.take_metrics(dropped(1, 10**9, reason=f"reason{number}", name=f"s{number}"))
        for number in range(MOST_DECIDED + 20):
            kept.decide_gap(f"{number:08x}", "closed")
        refused = kept.state().other
    for table, column, values in texts_of(place):
        if column in OF_ONE_REQUEST.get(table, ()):
            continue
        most = NOTED.get((table, column))
        if most is None:
            sort = BOUNDED[table, column]  # a new column of names has a bound, or is of one request
            most = _names.BOUNDS[sort] + 1
            if len(values) == most:
                assert "other" in values
        assert len(values) <= most, (table, column)
    assert {"service", "workflow", "framework", "environment", "reason"} <= refused.keys()
    assert ("kind" in refused) == one_score
    database = sqlite3.connect(place)
    assert max(database.execute("SELECT count(*) FROM kind GROUP BY name"))[0] <= 51
    database.close()


@pytest.mark.parametrize("sort", ["service", "workflow"])
def test_an_overview_of_many_names_costs_no_more_than_one_of_as_many_as_are_told_apart(tmp_path, sort):
    costs = {}
    for names in (1, 70, 280):
        with store(tmp_path / f"{names}.db", clock=lambda: 10**9 + 60) as kept:
            for number in range(280):
                request = request_of(0, scores=3)
                (group,) = request.resource_spans
                span = group.scope_spans[0].spans[0]
                span.trace_id, span.span_id = (
                    (number + 1).to_bytes(16, "big"),
                    (number + 1).to_bytes(8, "big"),
                )
                span.attributes[0].value.string_value = f"r{number}"
                which = group.resource.attributes[0] if sort == "service" else span.attributes[2]
                which.value.string_value = f"n{number % names}"
                kept.take(request)
            reader = kept.reader()
            costs[names] = calls(reader.overview)
            assert reader.overview().requests == 280
    assert costs[280] < 1.1 * costs[70]


@pytest.mark.parametrize(("sort", "letter"), [("service", "s"), ("workflow", "w")])
def test_a_name_that_is_counted_with_others_is_answered_with_where_its_requests_are(tmp_path, sort, letter):
    with store(tmp_path / "s.db", clock=lambda: 10**9 + 60) as kept:
        for number in range(70):
            kept.take(request_of(number))
        reader, first, last = kept.reader(), Filters(**{sort: f"{letter}0"}), Filters(**{sort: f"{letter}69"})

        assert reader.requests(first).total == reader.overview(first).requests == 1
        assert reader.requests(Filters(**{sort: "other"})).total == 70 - _names.BOUNDS[sort]
        for look in (
            reader.overview, reader.health, reader.requests, reader.facets, reader.conversations, reader.chunks, reader.gaps,
        ):  # fmt: skip
            with pytest.raises(
                InvalidQueryError, match=f"{sort} is not one of the first .* under {sort}=other"
            ):
                look(last)


@pytest.mark.parametrize("name", ["seg0", "retriever"])
def test_the_list_of_other_values_has_the_requests_that_are_counted_as_other(fresh, name):
    with store(fresh(), clock=lambda: 10**9 + 60) as kept:
        for number in range(_names.MAX_VALUES + 5):
            request = request_of(number)
            span = request.resource_spans[0].scope_spans[0].spans[0]
            put(span, **{f"{semconv.SPAN_SEGMENT_PREFIX}{name}": f"v{number}"})
            kept.take(request)
        reader, other = kept.reader(), Filters(segment=f"{name}:other")

        assert (
            reader.overview(other).requests == reader.requests(other).total == reader.facets(other).total == 5
        )
        assert reader.requests(Filters(segment=f"{name}:v21")).total == 1


def test_a_day_with_more_sums_than_hours_are_kept_of_is_not_summed_again_for_every_look(tmp_path, monkeypatch):
    monkeypatch.setattr(_sums, "_MOST_CELLS", 100)
    now = [10.0**9]
    with store(tmp_path / "s.db", clock=lambda: now[0]) as kept:
        sender = Sender(kept, now)
        for hour in range(14):
            now[0] += 3_600
            for service in range(6):
                sender.send([0], scores=5, run=f"{hour}-{service}", service=f"s{service}")
            sender.after(0)
        reader, day = kept.reader(), Filters(range_s=86_400.0)
        first = calls(lambda: reader.overview(day))
        reader.health(day)
        reader.overview(day)

        assert calls(lambda: reader.health(day)) < first / 15
        assert calls(lambda: reader.overview(day, scores=False, groups=False)) < first / 15


MONTH = Filters(range_s=30 * 86_400)


class Sender:
    """Sends requests that begin and end now, of which everything is called by their number."""

    def __init__(self, kept, now):
        self.kept, self.now = kept, now

    def send(self, numbers, run="", service="", **how):
        for number in numbers:
            request = request_of(number, **how)
            (group,) = request.resource_spans
            span = group.scope_spans[0].spans[0]
            if run:
                group.resource.attributes[0].value.string_value = service
                span.attributes[0].value.string_value = run
                span.trace_id, span.span_id = run.zfill(16).encode(), run.zfill(8).encode()
            span.start_time_unix_nano = int(self.now[0] * 1e9) - 10**9
            span.end_time_unix_nano = int(self.now[0] * 1e9)
            for event in span.events:
                event.time_unix_nano = span.end_time_unix_nano
            self.kept.take(request)

    def drop(self, numbers):
        for number in numbers:
            self.kept.take_metrics(dropped(1, self.now[0], reason=f"reason{number}", name=f"s{number}"))

    def after(self, days):
        self.now[0] += days * 86_400
        while self.kept.maintain():
            pass


def told(place):
    """Every name that stands for itself, by sort; of kinds and segments those of one score and one segment."""
    database = sqlite3.connect(place)
    found = {sort: set() for sort in (*_names.BOUNDS, "segment")}
    for sort, name in database.execute("SELECT sort, name FROM name"):
        if sort in found:
            found[sort].add(name)
    found["kind"] = {name for (name,) in database.execute("SELECT definition FROM kind")}
    found["segment"] = {name for (name,) in database.execute("SELECT name FROM segment_name")}
    found["value"] = {
        name for (name,) in database.execute("SELECT value FROM segment WHERE name = 'metadata.user'")
    }
    database.close()
    return found


@pytest.mark.parametrize("one_score", [False, True], ids=["many-scores", "many-kinds"])
def test_names_of_every_sort_that_nothing_uses_any_more_make_room(tmp_path, one_score):
    now = [10**9 + 60.0]
    place = tmp_path / "s.db"
    with store(place, clock=lambda: now[0], keep_s=86_400, max_bytes=10**9) as kept:
        sender = Sender(kept, now)
        sender.send(range(MANY), one_score=one_score)
        sender.drop(range(MANY))
        full = told(place)
        sender.send([MANY], one_score=one_score)
        assert told(place) == full  # there is no room yet
        sender.after(40)
        sender.send([MANY + 1], one_score=one_score)
        sender.drop([MANY + 1])
        found = told(place)
    newest = MANY + 1
    named = {
        "service": f"s{newest}", "environment": f"e{newest}", "workflow": f"w{newest}",
        "place": f'["s{newest}", "w{newest}"]', "framework": f"f{newest}", "status": f"st{newest}",
        "score": "one" if one_score else f"score{newest}-0", "judge": f"j{newest}", "kind": f"d{newest}",
        "score_status": f"ss{newest}", "error": f"x{newest}", "reason": f"reason{newest}",
        "segment": f"seg{newest}", "value": f"v{newest}",
    }  # fmt: skip
    assert named.keys() == full.keys()
    if one_score:
        assert full.pop("score") == {named.pop("score")}
    for sort, name in named.items():
        assert name not in full[sort], sort
        assert name in found[sort], sort
        assert len(found[sort]) <= 3, sort  # of all the others nothing is kept


def test_sums_of_forgotten_names_are_told_as_others_and_numbers_of_kinds_are_used_again(tmp_path):
    now = [10**9 + 60.0]
    with store(tmp_path / "s.db", clock=lambda: now[0], keep_s=86_400, max_bytes=10**9) as kept:
        sender, reader = Sender(kept, now), kept.reader()
        sender.send(range(MANY), one_score=True)
        assert len(reader.overview(MONTH).services) == _names.BOUNDS["service"] + 1
        sender.after(2)
        sender.send([MANY + 1], one_score=True)
        seen = reader.overview(MONTH)
        assert set(seen.services) == {"other", f"s{MANY + 1}"}
        assert seen.requests == MANY + 1
        # A judge of before has no place of its own: it is among the other ways to measure the score.
        assert {one.judge for one in seen.scores if one.name == "one"} <= {"other", f"j{MANY + 1}"}
        # Who writes does not take the new owner of a number for the earlier one.
        (request,) = kept.reader().requests(MONTH).requests
        (score,) = kept.reader().request(request.trace_id).scores
        assert (score.judge, score.definition) == (f"j{MANY + 1}", f"d{MANY + 1}")
        sender.send(range(100), one_score=True)
        assert len(reader.overview(MONTH).services) == _names.BOUNDS["service"] + 1
        (score,) = kept.reader().request(f"{1:032x}").scores
        assert (score.judge, score.definition) == ("j0", "d0")


def test_segments_that_are_forgotten_are_no_parts_of_earlier_hours(tmp_path):
    now = [10**9 + 60.0]
    with store(tmp_path / "s.db", clock=lambda: now[0], keep_s=86_400, max_bytes=10**9) as kept:
        sender = Sender(kept, now)
        sender.send(range(MANY))
        sender.after(2)
        sender.send([MANY])
        told = {group.segment for group in kept.reader().overview(MONTH).groups}
        assert told - {None, ""} <= {
            f"seg{MANY}:v{MANY}",
            f"metadata.meta{MANY}:v{MANY}",
            f"metadata.user:v{MANY}",
        }
