"""The detector of falls: when it learns, alarms, is silent, alarms again and stops; and what it forgets when."""

import math
import random
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import cached_property

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ragmeter.watch.baseline import LEAST_SCORES
from ragmeter.watch.change import FallDetector
from ragmeter.watch.evidence import ALARM_EVIDENCE, Block

SLOT = 300.0
HOUR = 3600.0
DAY = 24 * HOUR
MONDAY = datetime(2026, 6, 1, tzinfo=timezone.utc).timestamp()
STATE = TypeAdapter(FallDetector)
BLOCKS = st.lists(st.floats(0.0, 1.0), max_size=4)


def _block(scores):
    return Block(len(scores), math.fsum(scores), math.fsum(one * one for one in scores))


class Traffic:
    """Scores of 0 and 1 at a steady rate, the same in every run, fed to a detector."""

    def __init__(self, detector=None, per_slot=8, seed=1, start=MONDAY):
        self.detector = FallDetector() if detector is None else detector
        self.per_slot = per_slot
        self.now = start
        self.falls = []
        self.recovered = []
        self.last = None
        self._chance = random.Random(seed)

    def blocks(self, seconds, mean) -> Iterator[tuple[float, Block]]:
        for _ in range(round(seconds / SLOT)):
            scores = [float(self._chance.random() < mean) for _ in range(self.per_slot)]
            yield self.now, _block(scores)
            self.now += SLOT

    def run(self, seconds, mean=0.8, until=lambda traffic: False):
        for at, block in self.blocks(seconds, mean):
            self.last = self.detector.step(at, block)
            if self.last.evidence >= ALARM_EVIDENCE:
                self.falls.append((at, self.detector.alarm(at)))
            if self.last.recovered:
                self.recovered.append(at)
            if until(self):
                break
        return self


def _fallen(**options):
    """Return traffic two hours after an alarm: a fall of .3 after two weeks."""
    traffic = Traffic(**options).run(14 * DAY).run(DAY, 0.5, until=lambda traffic: traffic.falls)
    return traffic.run(2 * HOUR, 0.5)


@given(st.lists(st.tuples(st.integers(1, 5000), BLOCKS), max_size=LEAST_SCORES // 4))
def test_nothing_is_known_before_500_scores(blocks):
    """However they come: no evidence, no floor, no alarm."""
    detector, at = FallDetector(), MONDAY
    for wait, scores in blocks[: LEAST_SCORES // 4 - 1]:
        at += wait * SLOT
        step = detector.step(at, _block(scores))
        assert step.status == "learning"
        assert step.evidence == 0.0
        assert step.floor is None
        assert step.baseline is None


def test_many_scores_of_one_day_are_not_enough():
    """Days differ: a detector that has seen one cannot know how."""
    traffic = Traffic(per_slot=100).run(2 * DAY).run(0.9 * DAY, 0.2)

    assert traffic.last.status == "learning"
    assert traffic.falls == []


def test_a_fall_is_alarmed_with_its_start_and_its_size():
    traffic = Traffic().run(14 * DAY)
    assert traffic.falls == []
    assert traffic.last.status == "watching"
    assert traffic.last.baseline == pytest.approx(0.8, abs=0.01)
    assert 0.74 < traffic.last.floor < 0.77
    began = traffic.now

    traffic.run(DAY, 0.5, until=lambda traffic: traffic.falls)
    (at, fall), *others = traffic.falls

    assert others == []
    assert at - began < 2 * HOUR
    assert abs(fall.since - began) <= 0.5 * HOUR
    assert fall.before == pytest.approx(0.8, abs=0.02)
    assert fall.now == pytest.approx(0.5, abs=0.1)
    assert fall.n >= 8
    assert fall.evidence >= ALARM_EVIDENCE
    assert not fall.again


def test_what_gets_better_is_no_alarm():
    traffic = Traffic().run(14 * DAY).run(3 * DAY, 0.95)

    assert traffic.falls == []
    assert traffic.last.evidence < ALARM_EVIDENCE / 100


def test_after_an_alarm_there_is_silence_for_a_day_and_then_it_alarms_again():
    traffic = _fallen()
    first = traffic.falls[0]
    assert traffic.last.status == "fallen"
    assert traffic.last.evidence == 0.0
    assert traffic.last.since == first[1].since

    traffic.run(2 * DAY, 0.5)

    assert [fall.again for _, fall in traffic.falls] == [False, True, True]
    assert traffic.falls[1][0] - first[0] == pytest.approx(DAY, abs=SLOT)
    assert traffic.falls[1][1].since == first[1].since


def test_a_fall_ends_when_the_score_is_back():
    traffic = _fallen().run(2 * DAY, until=lambda traffic: traffic.recovered)

    assert len(traffic.recovered) == 1
    assert traffic.last.status == "watching"
    assert traffic.last.since is None
    assert len(traffic.falls) == 1

    traffic.run(7 * DAY)
    assert len(traffic.recovered) == 1
    assert len(traffic.falls) == 1
    assert traffic.last.baseline == pytest.approx(0.8, abs=0.03)


def test_better_and_still_too_low_is_no_recovery():
    traffic = _fallen().run(5 * DAY, 0.65)
    assert traffic.recovered == []
    assert traffic.last.status == "fallen"

    traffic.run(2 * DAY, until=lambda traffic: traffic.recovered)
    assert len(traffic.recovered) == 1


def test_a_second_fall_after_a_recovery_is_alarmed_at_once():
    traffic = _fallen().run(2 * DAY, until=lambda traffic: traffic.recovered)
    began = traffic.now
    traffic.run(DAY, 0.5, until=lambda traffic: len(traffic.falls) == 2)

    assert traffic.falls[1][0] - began < 2 * HOUR
    assert not traffic.falls[1][1].again


def test_what_is_accepted_is_usual():
    traffic = _fallen().run(4 * DAY, 0.5)
    traffic.detector.accept()
    told = len(traffic.falls)
    traffic.run(5 * DAY, 0.5)

    assert traffic.last.status == "watching"
    assert traffic.last.baseline == pytest.approx(0.5, abs=0.03)
    assert len(traffic.falls) == told

    traffic.run(DAY, 0.2)
    assert len(traffic.falls) == told + 1


def test_what_is_accepted_soon_is_learned_first():
    traffic = _fallen()
    traffic.detector.accept()
    traffic.run(HOUR, 0.5)

    assert traffic.last.status == "learning"
    traffic.run(3 * DAY, 0.5)
    assert traffic.last.status == "watching"
    assert traffic.last.baseline == pytest.approx(0.5, abs=0.05)


def test_what_was_changed_on_purpose_starts_over():
    traffic = _LEARNED.copy()
    assert traffic.detector.step(traffic.now, _block([])).status == "watching"

    traffic.detector.accept()
    step = traffic.detector.step(traffic.now, _block([0.0] * 50))
    assert (step.status, step.evidence) == ("learning", 0.0)


def test_what_is_picked_among_many_can_be_alarmed_also_in_a_good_block():
    """Whom e-BH picks depends on the others, too; the evidence may be going down just then."""
    traffic = _fallen_but_not_told()
    step = traffic.detector.step(traffic.now, _block([1.0] * 400))
    fall = traffic.detector.alarm(traffic.now)

    assert step.since is None
    assert fall.n > 0
    assert traffic.detector.step(traffic.now + SLOT, _block([1.0])).status == "fallen"


def _fallen_but_not_told():
    traffic = _LEARNED.copy()
    for at, block in traffic.blocks(HOUR, 0.3):
        traffic.detector.step(at, block)
    return traffic


def test_only_evidence_can_be_alarmed():
    detector = FallDetector()
    with pytest.raises(ValueError, match="no evidence"):
        detector.alarm(MONDAY)


@settings(max_examples=25)
@given(st.floats(0, 30 * DAY), st.integers(1, 5))
def test_blocks_without_scores_change_nothing(hours, count):
    traffic = _LEARNED.copy()
    quiet = _LEARNED.copy()
    for number in range(count):
        quiet.detector.step(quiet.now + hours * number / count, Block(0, 0.0, 0.0))
    block = _block([0.0, 1.0, 0.0])

    at = traffic.now + 31 * DAY
    assert quiet.detector.step(at, block) == traffic.detector.step(at, block)


def test_more_traffic_sees_the_same_fall_sooner():
    delays = []
    for per_slot in (2, 8, 40):
        traffic = Traffic(per_slot=per_slot).run(14 * DAY)
        assert traffic.falls == []
        began = traffic.now
        traffic.run(5 * DAY, 0.65, until=lambda traffic: traffic.falls)
        delays.append(traffic.falls[0][0] - began)

    assert delays == sorted(delays, reverse=True)
    assert delays[0] > 2 * delays[2]


def test_blocks_may_be_longer_than_five_minutes():
    whole = Traffic().run(14 * DAY)
    hourly = Traffic(FallDetector(), per_slot=0)
    for at, block in Traffic(per_slot=96).blocks(12 * 14 * DAY, 0.8):
        hourly.last = hourly.detector.step(MONDAY + (at - MONDAY) * 12, block)
        if at - MONDAY >= 14 * DAY / 12:
            break

    assert hourly.last.status == "watching"
    assert hourly.last.baseline == pytest.approx(whole.last.baseline, abs=0.03)


@pytest.mark.parametrize(
    "block",
    [Block(3, math.nan, 1.0), Block(3, 1.0, math.inf), Block(math.nan, 1.0, 1.0), Block(math.inf, 1.0, 1.0)],
)
def test_sums_that_are_no_numbers_poison_nothing(block):
    traffic, usual = _LEARNED.copy(), _LEARNED.copy()
    step = traffic.detector.step(traffic.now, block)
    usual.detector.step(usual.now, Block(0, 0.0, 0.0))

    assert math.isfinite(step.evidence)
    assert traffic.detector == usual.detector


@settings(max_examples=30)
@given(st.integers(0, 20 * 288), st.integers(0, 3))
def test_a_state_has_the_same_future(cut, seed):
    """Wherever it is taken: while learning, watching, fallen and after that."""
    script = [(4 * DAY, 0.8), (0.8 * DAY, 0.4), (1.5 * DAY, 0.8), (DAY, 0.3)]

    def told(restarted_at):
        traffic, seen, number = Traffic(seed=seed, per_slot=4), [], 0
        for seconds, mean in script:
            for at, block in traffic.blocks(seconds, mean):
                if number == restarted_at:
                    kept = traffic.detector
                    traffic.detector = STATE.validate_json(STATE.dump_json(kept))
                    assert traffic.detector == kept
                number += 1
                step = traffic.detector.step(at, block)
                seen.append(step)
                if step.evidence >= ALARM_EVIDENCE:
                    seen.append(traffic.detector.alarm(at))
        return seen

    cut %= round(sum(seconds for seconds, _ in script) / SLOT)
    if seed not in _TOLD:
        _TOLD[seed] = told(None)
    assert told(cut) == _TOLD[seed]


_TOLD = {}


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state["history"].update(days=[{"number": 1, "sums": [0.0]}]),
        lambda state: state.update(evidence=[]),
        lambda state: state["evidence"].update(logs=[]),
        lambda state: state.update(today="x"),
        lambda state: state["baseline"].update(expected=[0.5]),
        lambda state: state["baseline"].pop("error"),
        lambda state: state.update(fallen={}),
    ],
)
def test_a_state_that_cannot_be_read_says_so(damage):
    state = STATE.dump_python(_LEARNED.copy().detector, mode="json")
    damage(state)

    with pytest.raises(ValueError, match="FallDetector"):
        STATE.validate_python(state)


def test_hours_are_those_of_utc_and_weekends_have_their_own():
    detector = FallDetector()
    for day in range(5):
        for slot in range(12):
            detector.step(MONDAY + 6 * HOUR + day * DAY + slot * SLOT, _block([0.5] * 10))

    seen = {day: detector.step(MONDAY + 6 * HOUR + day * DAY, _block([0.5])).baseline for day in (5, 7, 8)}
    assert seen == {5: None, 7: pytest.approx(0.5), 8: pytest.approx(0.5)}


def test_scores_of_which_less_is_better_are_turned():
    scores = [0.1, 0.5, 0.9, 0.0]
    turned = _block(scores).mirror()

    assert turned == pytest.approx(_block([1 - one for one in scores]))
    assert turned.mirror() == pytest.approx(_block(scores))


class _Learned:
    """A detector after two weeks, made once."""

    @cached_property
    def _state(self):
        return STATE.dump_json(Traffic().run(14 * DAY).detector)

    def copy(self):
        return Traffic(STATE.validate_json(self._state), start=MONDAY + 14 * DAY)


_LEARNED = _Learned()
