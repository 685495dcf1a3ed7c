"""Weeks of requests that applications scored, as a store receives them: quick, and the same in every run."""

import random
import time
from contextlib import contextmanager
from types import SimpleNamespace

from stored import told

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.exporters.protocol import RagRun, ScoredRun
from ragmeter.metrics import RagSample, Score
from ragmeter.serve._watch import ScoredElsewhere
from ragmeter.serve.store.claims import StoredClaims
from ragmeter.watch.alarming import Alarming
from ragmeter.watch.watch import Watch

HOUR_S = 3_600.0
PATIENCE_S = 120.0
_VALUES = ("ragmeter.score.", "gen_ai.evaluation.score.value")


def one(name="goodness", value=0.5, *, workflow="qa", run_id="r", **fields):
    """Return a request with one score from its application."""
    score = {"method": "lexical", "definition": "1", "target": "answer"} | fields.pop("score", {})
    sample = RagSample(question="Who?", contexts=None, answer="He.", name=workflow)
    run = RagRun(run_id=run_id, sample=sample, framework="langchain", started_ns=1, ended_ns=2)
    status = {} if value is not None else {"status": "undefined"}
    made = Score(name=name, value=value, **({"status": "ok"} | status | score))
    return ScoredRun(run=run, scores={name: made}, **fields)


class Traffic:
    """The traffic of one application: copies of one request, each with its own id and value.

    Args:
        example: The request, with one score.
        service: Its service.
    """

    def __init__(self, example, service):
        self.spans, self.records = told([example], content=False, service=service)
        self.sent = 0

    @classmethod
    def of(cls, spans, records):
        """Return the same for one request that an application has really sent."""
        made = cls.__new__(cls)
        made.spans, made.records, made.sent = spans, records, 0
        return made

    def send(self, store, values):
        """Have a store receive one request for each value; None: with the original values."""
        spans, records = type(self.spans)(), type(self.records)()
        for value in values:
            self.sent += 1
            for whole, made in ((self.spans, spans), (self.records, records)):
                copy = type(whole)()
                copy.CopyFrom(whole)
                self._stamp(copy, value)
                made.MergeFrom(copy)
        store.take(spans)
        store.take(records)

    def _stamp(self, request, value):
        trace_id = self.sent.to_bytes(16, "big")
        groups = getattr(request, "resource_spans", None) or request.resource_logs
        for group in groups:
            for scoped in getattr(group, "scope_spans", None) or group.scope_logs:
                for item in getattr(scoped, "spans", None) or scoped.log_records:
                    item.trace_id = trace_id
                    about = {each.key: each.value for each in item.attributes}
                    if "ragmeter.run_id" in about:
                        about["ragmeter.run_id"].string_value += f"-{self.sent}"
                    for key, each in about.items():
                        if value is not None and key.startswith(_VALUES):
                            each.double_value = value


def around(mean, count, rng):
    """Return values of a graded score, with this mean."""
    return [min(1.0, max(0.0, rng.gauss(mean, 0.15))) for _ in range(count)]


class Weeks:
    """Advances time: each hour some requests arrive, and finished hours are evaluated.

    Args:
        began: The begin in unix seconds: a whole hour.
    """

    def __init__(self, began):
        self.now = began
        self.rng = random.Random(1_018)

    def clock(self):
        """Return the seconds since the epoch."""
        return self.now

    def pass_(self, hours, store, sources, look=lambda: None):
        """Advance by hours, in whose first minutes each source sends a number of requests with a mean."""
        for _ in range(hours):
            self.now += 10.0
            for traffic, count, mean in sources:
                values = [None] * count if mean is None else around(mean, count, self.rng)
                traffic.send(store, values)
            self.now += HOUR_S - 10.0
            look()


class Teller:
    """An exporter that keeps what it is told of changes."""

    def __init__(self):
        self.told, self.evidence = [], None

    def observe_changes(self, evidence):
        self.evidence = evidence

    def changed(self, change, said, resource):
        self.told.append((change, said, dict(resource)))


@contextmanager
def watching(weeks, kept, *, own=lambda since: (), shared=False):
    """A watch over what comes to a store; several servers may share that."""
    teller, errors = Teller(), ErrorLog()
    alarming = Alarming(Watch(), own, [teller], lambda name: Guard(name, errors), clock=weeks.clock)
    claims = StoredClaims(kept) if shared else None
    alarming.look_elsewhere(ScoredElsewhere(kept.reader(), weeks.clock), claims)

    def look():
        assert alarming.flush(time.monotonic() + PATIENCE_S)
        assert not errors.counts

    try:
        yield SimpleNamespace(look=look, told=teller.told, teller=teller, watch=alarming.watch)
    finally:
        alarming.close(time.monotonic() + PATIENCE_S)
