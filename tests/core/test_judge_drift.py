"""A judge that moves: seen by a frozen set that is judged anew, and told from a fall of quality."""

import asyncio
import json
import threading

import pytest
from moved_clock import MovedClock

from ragmeter import Alarms, ConfigurationError, RagMeter
from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import Metric, RagSample, Score
from ragmeter.metrics.judge import Ask, CountingJudge, Reply
from ragmeter.metrics.judge.bypass_cache import is_cache_bypassed
from ragmeter.quality import sums
from ragmeter.watch import alarming
from ragmeter.watch import judge_check as rejudging
from ragmeter.watch.judge_check import JudgeCheck
from ragmeter.watch.judge_drift import FrozenRequest, read_frozen

COUNT = 60
OLD = [0.2 + 0.6 * (number % 10) / 9 for number in range(COUNT)]


class Kindness(Metric):
    """A judged metric whose judge says what its answer says, and how much kinder it has become."""

    name = "kindness"
    needs = ("answer",)
    score_names = ("kindness",)
    method = "llm"
    target = "answer"
    definition = "1"

    async def measure(self, sample, judge):
        value = await judge.says(sample.answer)
        if isinstance(value, str):
            return [
                Score(name="kindness", value=None, status="skipped" if value == "budget" else "judge_error",
                      error_type=value, method="llm", definition="1")
            ]  # fmt: skip
        return [Score(name="kindness", value=value, status="ok", method="llm", definition="1")]


class Moody(CountingJudge):
    """A judge whose kindness changes."""

    model = "moody"

    def __init__(self):
        self.kinder = 0.0
        self.fails = None
        self.asked = []
        self.closed = 0
        self.gate = None

    async def says(self, answer):
        self.asked.append((answer, is_cache_bypassed(), threading.current_thread().name))
        if self.gate is not None:
            await self.gate.wait()
        if self.fails is not None and (failure := self.fails(len(self.asked))):
            return failure
        return min(1.0, max(0.0, float(answer) + self.kinder))

    async def ask(self, ask: Ask) -> Reply:
        raise NotImplementedError

    async def aclose(self):
        self.closed += 1


def _frozen():
    return [FrozenRequest(RagSample(question="q", answer=str(value)), {"kindness": value}) for value in OLD]


@pytest.fixture
def check():
    made = []

    def make(judge, every_s=1000.0):
        log, clock = ErrorLog(), MovedClock(1_000_000.0)
        one = JudgeCheck(
            _frozen(), [Kindness()], judge, every_s=every_s, deadline_s=60, guard=Guard("check", log),
            clock=clock,
        )  # fmt: skip
        changes = []
        one.on_moved(changes.append)
        made.append((one, log))
        return one, clock, changes

    yield make
    for one, log in made:
        one.close()
        assert log.counts == {}


def _round(check, clock, seconds=2000.0):
    """Have a round begin, and wait for its end."""
    clock.now += seconds
    assert check.standing("kindness", clock.now - 1) in ("pending", "moved")
    if check.standing("kindness", clock.now - 1) == "moved":
        check._queue.put(None)
    assert check.flush(60)


def test_a_judge_that_stays_is_steady(check):
    judge = Moody()
    one, clock, changes = check(judge)
    _round(one, clock)
    assert one.standing("kindness", clock.now - 1) == "steady"
    (drift,) = one.drifts()
    assert (drift.mean, drift.n, drift.at) == (0.0, COUNT, clock.now)
    assert drift.lower < 0 < drift.upper
    assert (changes, [each.score for each in one.drifts() if each.has_moved]) == ([], [])
    assert len(judge.asked) == COUNT
    assert {asked[1:] for asked in judge.asked} == {(True, "ragmeter-judge-check")}


@pytest.mark.parametrize(("kinder", "word"), [(-0.1, "harsher"), (0.1, "kinder")])
def test_a_judge_that_moved_is_told_once_until_it_has_come_back(check, kinder, word):
    judge = Moody()
    one, clock, changes = check(judge)
    _round(one, clock)
    steady_at = clock.now
    judge.kinder = kinder
    _round(one, clock)
    (change,) = changes
    assert (change.score, change.kind, change.at, change.since) == ("kindness", "judge", clock.now, steady_at)
    assert change.now.mean - change.before.mean == pytest.approx(kinder, abs=0.01)
    assert word in change.note
    assert one.standing("kindness", clock.now + 1e6) == "moved"
    assert [each.score for each in one.drifts() if each.has_moved] == ["kindness"]
    _round(one, clock)
    assert len(changes) == 1
    judge.kinder = 0.0
    _round(one, clock)
    assert [each.score for each in one.drifts() if each.has_moved] == []
    judge.kinder = kinder
    _round(one, clock)
    assert len(changes) == 2


def test_a_round_that_is_too_old_says_nothing_of_a_fall_that_began_later(check):
    one, clock, _ = check(Moody())
    _round(one, clock)
    assert one.standing("kindness", clock.now) == "steady"
    assert one.standing("kindness", clock.now + 1) == "pending"
    assert one.standing("another_score", clock.now + 1) == "unchecked"


def test_rounds_come_on_their_schedule(check):
    judge = Moody()
    one, clock, _ = check(judge, every_s=1000.0)
    one.start()
    assert one._tick() is not None
    assert one.flush(60)
    assert len(judge.asked) == COUNT
    clock.now += 999
    assert 0 < one._tick() <= 1
    clock.now += 1
    one._tick()
    assert one.flush(60)
    assert len(judge.asked) == 2 * COUNT


def test_a_used_up_budget_makes_a_round_wait_and_loses_nothing(check):
    judge = Moody()
    judge.fails = lambda asked: "budget" if asked == 21 else None
    one, clock, _ = check(judge)
    _round(one, clock)
    assert one.drifts() == []
    assert len(judge.asked) == 21
    clock.now += 60
    one._tick()
    assert one.flush(60)
    (drift,) = one.drifts()
    assert drift.n == COUNT
    assert len(judge.asked) == COUNT + 1


@pytest.mark.parametrize(("verdicts", "told"), [(29, 0), (30, 1)])
def test_a_few_equal_verdicts_are_no_round(check, verdicts, told):
    judge = Moody()
    judge.fails = lambda asked: "connection" if asked > verdicts else None
    judge.kinder = -0.3
    one, clock, changes = check(judge)
    _round(one, clock)
    assert len(one.drifts()) == len(changes) == told


def test_a_judge_that_fails_is_not_asked_again_at_once(check):
    judge = Moody()
    judge.fails = lambda asked: "connection"
    one, clock, _ = check(judge)
    _round(one, clock)
    asked = len(judge.asked)
    assert one.standing("kindness", clock.now - 1) == "pending"
    assert one.flush(60)
    assert len(judge.asked) == asked  # it was asked a moment ago: not again so soon


def test_the_end_does_not_wait_for_the_judge(check):
    judge = Moody()
    judge.gate = asyncio.Event()
    one, _, _ = check(judge)
    one.start()
    one._tick()
    for _ in range(3000):
        if judge.asked:
            break
        threading.Event().wait(0.01)
    one.close()
    assert one.flush(30)
    assert judge.closed


def _file(path, count=40, **changes):
    with path.open("w") as file:
        for number in range(count):
            record = {
                "run_id": str(number), "question": "q", "contexts": [{"text": "c", "id": "1"}], "answer": "0.5",
                "status": "ok", "scores": {"kindness": {"value": 0.5, "status": "ok", "range": [0.0, 1.0]},
                                           "other": {"value": 3.0, "status": "ok", "range": [0.0, None]}},
            } | changes  # fmt: skip
            file.write(json.dumps(record) + "\n")
    return path


def test_a_frozen_set_is_what_the_exporter_wrote(tmp_path):
    path = tmp_path / "frozen.jsonl"
    exporter = InMemoryExporter()
    judge = Moody()
    from ragmeter.exporters.jsonl import JsonlExporter

    with RagMeter([Kindness()], judge, exporters=[exporter, JsonlExporter(path, True)]) as meter:
        for value in OLD:
            meter.submit(RagSample(question="q", contexts=["c"], answer=str(value)))
        assert meter.flush(60)
    frozen = read_frozen(path, {"kindness"})
    assert [one.verdicts["kindness"] for one in frozen] == pytest.approx(OLD)
    assert frozen[0].sample.contexts[0].text == "c"


@pytest.mark.parametrize(
    ("count", "changes", "word"),
    [
        (29, {}, "29 requests"),
        (40, {"scores": {}}, "0 requests"),
        (40, {"scores": {"kindness": {"value": "high"}}}, "no request with scores"),
        (40, {"contexts": "no list at all", "answer": 7}, "no request with scores"),
        (40, {"scores": {"kindness": {"value": None, "status": "judge_error"}}}, "0 requests"),
    ],
)
def test_files_that_are_no_frozen_set(tmp_path, count, changes, word):
    path = _file(tmp_path / "frozen.jsonl", count, **changes)
    with pytest.raises(ConfigurationError, match=word):
        RagMeter([Kindness()], Moody(), exporters=[], alarms=Alarms(check=path))


def test_a_check_needs_a_judge_and_somebody_to_tell(tmp_path):
    path = _file(tmp_path / "frozen.jsonl")
    with pytest.raises(ConfigurationError, match="a judge"):
        RagMeter(exporters=[], alarms=Alarms(check=path))
    with pytest.raises(ConfigurationError, match="check_every_s"):
        RagMeter([Kindness()], Moody(), exporters=[], alarms=Alarms(check=path, check_every_s=1))


HOUR = 3600.0
USUAL = [str(value) for value in (0.8, 0.9, 0.85, 0.75, 0.95, 0.8, 0.9, 0.85, 0.75, 0.95) * 2]
WORSE = [f"{float(value) - 0.1:.2f}" for value in USUAL]


@pytest.fixture
def live(tmp_path, monkeypatch):
    """A meter that watches its judged scores, and whose clock a test moves."""
    clock = MovedClock(1_000_000.0)
    clock.now = 1_699_833_600.0  # 2023-11-13 00:00 UTC, a Monday
    for module in (sums, alarming, rejudging):
        monkeypatch.setattr(module, "unix_clock", lambda: clock)
    judge = Moody()
    path = tmp_path / "frozen.jsonl"
    path.write_text(
        "\n".join(
            json.dumps({"question": "q", "answer": str(value), "scores": {"kindness": value}}) for value in OLD
        )
    )  # fmt: skip
    meter = RagMeter([Kindness()], judge, exporters=[InMemoryExporter()], alarms=Alarms(check=path))
    told = []
    meter.on_change(told.append)

    def pass_hours(answers, hours):
        for _ in range(hours):
            clock.now += HOUR
            for answer in answers:
                meter.submit(RagSample(question="q", answer=answer, name="qa"))
            assert meter.flush(120)
            assert meter._alarming._check.flush(120)

    yield pass_hours, judge, told
    meter.shutdown(60)


def test_a_judge_a_tenth_harsher_sets_off_the_judges_alarm_only(live):
    pass_hours, judge, told = live
    pass_hours(USUAL, 90)
    assert told == []
    judge.kinder = -0.1
    pass_hours(USUAL, 40)
    assert [(one.score, one.kind) for one in told] == [("kindness", "judge")]


def test_a_fall_by_a_tenth_with_a_judge_that_stays_sets_off_the_alarm_for_quality_only(live):
    pass_hours, judge, told = live
    pass_hours(USUAL, 90)
    pass_hours(WORSE, 40)
    assert {one.kind for one in told} == {"fell"}
    assert len(judge.asked) > 130 * len(USUAL) + 2 * COUNT - 1  # it was asked again before the alarm
