"""The watch over scores: what it says of a fall, of which service, since when; what it keeps over a restart."""

from __future__ import annotations

import json
import re
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pytest

from ragmeter.exporters.protocol import QualitySums
from ragmeter.quality.manner import PARTS
from ragmeter.quality.sums import SlotSums
from ragmeter.watch.change import Change
from ragmeter.watch.history import History
from ragmeter.watch.judge_drift import Drift, Standing
from ragmeter.watch.watch import ChangeNotice, Watch
from ragmeter.watch.wording import word_change

DAY = 86_400.0
MONDAY = 1_699_833_600.0  # 2023-11-13 00:00 UTC
FALL = MONDAY + 3.5 * DAY


def _sums(mean: float, n: float = 20.0) -> dict[str, float]:
    """Sums of `n` free scores, half of them .2 above the mean and half .2 below."""
    return {"n": n, "kd": n, "wb": n, "x": n * mean, "xx": n * (mean * mean + 0.04)}


def _judged(mean: float, n: float = 20.0) -> dict[str, float]:
    """Sums of `n` judged ones, all requests being judged."""
    square = mean * mean + 0.04
    one = dict.fromkeys(("n", "k", "kd", "w", "wd", "wb", "q", "qd", "c"), n)
    half = dict.fromkeys(("x", "wx", "qx", "qxd"), n / 2)
    quarter = dict.fromkeys(("xx", "qxx"), n / 4)
    of_y = dict.fromkeys(("wy", "wl", "wu", "qy", "y"), n * mean)
    return {
        **one, **half, **quarter, **of_y, "qyy": n * square, "yy": n * square, "qxy": n * mean / 2
    }  # fmt: skip


def _one(mean: float, **fields: object) -> QualitySums:
    given = {"score": "lexical_groundedness", "workflow": "qa", "sums": _sums(mean), **fields}
    return QualitySums(**given)  # type: ignore[arg-type]


def _slots(
    *kinds: tuple[QualitySums, QualitySums],
    first: float = MONDAY,
    last: float = MONDAY + 5 * DAY,
    fall: float = FALL,
) -> Iterator[SlotSums]:
    """Five minutes after five minutes of each kind: as it is first, and as it is from `fall` on."""
    at = first
    while at < last:
        for before, after in kinds:
            yield SlotSums(at, after if at >= fall else before)
        at += 300.0


def _changes(told: Iterable[ChangeNotice]) -> list[Change]:
    return [one.change for one in told]


GOOD, BAD = _one(0.8), _one(0.6)


def test_a_fall_is_told_once_with_its_means_before_and_since() -> None:
    watch = Watch()
    (change,) = _changes(watch.take(_slots((GOOD, BAD), last=FALL + 0.5 * DAY)))
    assert (change.score, change.workflow, change.segment) == ("lexical_groundedness", "qa", "")
    assert change.kind == "fell"
    assert change.before.mean == pytest.approx(0.8, abs=0.01)
    assert change.now.mean == pytest.approx(0.6, abs=0.01)
    assert change.now.lower < 0.6 < change.now.upper < change.before.lower
    assert abs(change.since - FALL) <= 3600
    assert FALL < change.at <= FALL + 2 * 3600
    assert watch.changes() == (change,)
    said = word_change(change)
    assert "lexical_groundedness of qa fell from 0.80 [" in said
    assert "to 0.60 [" in said
    assert "since 2023-11-16 1" in said


def test_quality_that_stays_is_never_told() -> None:
    watch = Watch()
    assert watch.take(_slots((GOOD, GOOD), last=MONDAY + 10 * DAY)) == []
    (series,) = watch.series()
    assert (series.status, series.service) == ("watching", "")
    assert series.baseline == pytest.approx(0.8, abs=0.01)
    assert series.scores > 500
    (evidence,) = watch.evidence()
    assert evidence.evidence < 1.0


def test_bad_from_the_first_day_is_usual_and_no_change() -> None:
    """That is what objectives are for."""
    assert Watch().take(_slots((BAD, BAD), last=MONDAY + 6 * DAY)) == []


def test_what_is_still_bad_in_the_second_week_is_told_again() -> None:
    changes = _changes(Watch().take(_slots((GOOD, BAD), last=FALL + 9 * DAY)))
    again = [change for change in changes if change.at > FALL + 7 * DAY]
    assert again
    assert "still ongoing, notified before" in again[0].note
    assert {change.kind for change in changes} == {"fell"}


def test_the_evidence_stays_above_1_while_the_change_is_on_and_falls_below_when_it_is_over() -> None:
    watch = Watch()
    watch.take(_slots((GOOD, BAD), last=FALL + 0.5 * DAY))
    assert watch.evidence()[0].evidence > 1.0
    assert watch.series()[0].status == "fallen"
    told = _changes(watch.take(_slots((GOOD, GOOD), first=FALL + 0.5 * DAY, last=FALL + 3 * DAY)))
    assert [change.kind for change in told] == ["recovered"]
    assert told[0].now.mean == pytest.approx(0.8, abs=0.02)
    assert "has recovered" in word_change(told[0])
    assert watch.evidence()[0].evidence < 1.0
    assert [change.kind for change in watch.changes()] == ["recovered", "fell"]


def test_where_lower_is_better_a_rise_is_the_fall() -> None:
    low = _one(0.1, direction="lower", score="refusal")
    high = _one(0.3, direction="lower", score="refusal")
    (change,) = _changes(Watch().take(_slots((low, high), last=FALL + 0.5 * DAY)))
    assert change.before.mean == pytest.approx(0.1, abs=0.02)
    assert change.now.mean == pytest.approx(0.3, abs=0.02)
    assert "rose, where lower is better, from" in word_change(change)
    assert Watch().take(_slots((high, low), last=FALL + 0.5 * DAY)) == []


def test_one_of_two_services_that_collapses_is_named_and_the_other_is_not() -> None:
    def of(service: str, mean: float) -> QualitySums:
        return _one(mean, resource={"service.name": service})

    watch = Watch()
    told = watch.take(
        _slots((of("shop", 0.8), of("shop", 0.8)), (of("help", 0.8), of("help", 0.4)), last=FALL + 0.5 * DAY)
    )
    ((change, resource),) = told
    assert change.service == resource["service.name"] == "help"
    assert "(help)" in word_change(change)
    assert {one.service: one.status for one in watch.series()} == {"shop": "watching", "help": "fallen"}


def _parts(*means: tuple[str, float, float]) -> list[QualitySums]:
    """A whole and its segments: name, mean, number per slot."""
    n = sum(count for _, _, count in means)
    total = sum(mean * count for _, mean, count in means)
    squares = sum((mean * mean + 0.04) * count for _, mean, count in means)
    whole = {"n": n, "kd": n, "wb": n, "x": total, "xx": squares}
    return [
        _one(0.0, sums=whole),
        *(_one(0.0, segment=name, sums=_sums(mean, count)) for name, mean, count in means),
    ]


def test_a_fall_says_in_which_segment_it_is() -> None:
    before = _parts(("language:en", 0.8, 20.0), ("language:zh", 0.8, 20.0))
    after = _parts(("language:en", 0.8, 20.0), ("language:zh", 0.4, 20.0))
    changes = _changes(Watch().take(_slots(*zip(before, after, strict=True), last=FALL + DAY)))
    assert {change.kind for change in changes} == {"fell"}
    assert any(change.segment == "language:zh" for change in changes) or any(
        change.note == "in language:zh" for change in changes
    )
    assert not any("language:en" in change.segment + change.note for change in changes)


def test_other_questions_are_told_from_worse_answers() -> None:
    before = _parts(("language:en", 0.85, 30.0), ("language:zh", 0.45, 5.0))
    after = _parts(("language:en", 0.85, 5.0), ("language:zh", 0.45, 30.0))
    changes = _changes(Watch().take(_slots(*zip(before, after, strict=True), last=FALL + DAY)))
    assert [(change.kind, change.segment) for change in changes] == [("mix", "")]
    assert "other questions" in changes[0].note
    assert word_change(changes[0]).startswith("the mean of lexical_groundedness of qa fell")


def test_a_deployment_mark_and_accepting_make_what_is_now_usual() -> None:
    watch = Watch()
    watch.take(_slots((GOOD, BAD), last=FALL + 0.5 * DAY))
    assert watch.accept("lexical_groundedness", workflow="other") == 0
    assert watch.accept("lexical_groundedness", segment="") == 1
    assert not any(one.evidence > 1.0 for one in watch.evidence())
    later = _slots((BAD, BAD), first=FALL + 0.5 * DAY, last=FALL + 10 * DAY)
    assert watch.take(later) == []

    watch = Watch()
    watch.take(_slots((GOOD, GOOD), last=FALL))
    assert watch.mark("nobody") == 0
    assert watch.mark() == 1
    assert watch.series()[0].status == "learning"
    assert watch.evidence() == []
    assert watch.take(_slots((BAD, BAD), first=FALL, last=FALL + 10 * DAY)) == []


def test_two_environments_of_a_service_are_watched_apart() -> None:
    def of(environment: str, mean: float) -> QualitySums:
        return _one(mean, resource={"service.name": "shop", "deployment.environment.name": environment})

    watch = Watch()
    told = watch.take(
        _slots(
            (of("production", 0.8), of("production", 0.8)),
            (of("staging", 0.8), of("staging", 0.4)),
            last=FALL + 0.5 * DAY,
        )
    )
    ((change, resource),) = told
    assert resource["deployment.environment.name"] == "staging"
    assert "environment staging" in word_change(change)
    assert sorted(one.status for one in watch.series()) == ["fallen", "watching"]
    assert watch.mark("shop") == 2


def _by(judge: str, mean: float) -> QualitySums:
    return _one(mean, score="faithfulness", judge=judge, sums=_judged(mean))


def test_a_switch_of_the_judge_is_no_change_and_the_first_ones_usual_is_known_when_it_comes_back() -> None:
    watch = Watch()
    back = FALL + 4 * DAY
    assert watch.take(_slots((_by("a", 0.8), _by("b", 0.5)), last=back)) == []
    standing = {one.measurement: one.status for one in watch.series()}
    assert standing == {"a": "watching", "b": "watching"}
    restored = Watch()
    restored.restore(json.loads(json.dumps(watch.state())))
    for one in (watch, restored):
        assert one.take(_slots((_by("a", 0.8),) * 2, first=back, last=back + DAY)) == []
        (change,) = _changes(one.take(_slots((_by("a", 0.6),) * 2, first=back + DAY, last=back + 2 * DAY)))
        assert change.before.mean == pytest.approx(0.8, abs=0.01)


def test_of_two_judges_at_the_same_time_each_has_its_own_usual_and_each_sees_a_fall() -> None:
    watch = Watch()
    both = ((_by("a", 0.9), _by("a", 0.7)), (_by("b", 0.5), _by("b", 0.3)))
    changes = _changes(watch.take(_slots(*both, last=FALL + 0.25 * DAY)))
    assert sorted(round(change.before.mean or 0.0, 1) for change in changes) == [0.5, 0.9]
    assert len(watch.changes(on=True)) == 2
    (evidence,) = watch.evidence()
    assert evidence.evidence > 1.0


def test_a_fall_is_over_when_another_judge_has_taken_the_place_of_the_one_that_saw_it() -> None:
    watch = Watch()
    watch.take(_slots((_by("a", 0.8), _by("a", 0.5)), last=FALL + 0.25 * DAY))
    assert len(watch.changes(on=True)) == 1
    after = FALL + 0.25 * DAY
    watch.take(_slots((_by("b", 0.5), GOOD), first=after, last=after + 1800, fall=after + DAY))
    assert len(watch.changes(on=True)) == 1
    end = after + 2 * 3600
    assert watch.take(_slots((_by("b", 0.5), GOOD), first=after + 1800, last=end, fall=end)) == []
    assert watch.changes(on=True) == ()


def test_a_new_formula_of_a_free_score_is_no_change() -> None:
    first, second = replace(GOOD, measurement="1"), replace(BAD, measurement="2")
    assert Watch().take(_slots((first, second), last=FALL + 2 * DAY)) == []


class FakeCheck:
    """Says of every judge what it is told to."""

    def __init__(self, said: Standing) -> None:
        self.said: Standing = said
        self.asked: list[tuple[str, float]] = []

    def standing(self, score: str, since: float) -> Standing:
        self.asked.append((score, since))
        return self.said

    def drifts(self) -> list[Drift]:
        lower = -0.2 if self.said == "moved" else 0.0
        return [Drift(score="faithfulness", mean=-0.1, lower=lower, upper=lower + 0.1, n=60, at=0.0)]


def _judge_falls(**bounds: float) -> Iterator[SlotSums]:
    before, after = (_one(mean, score="faithfulness", judge="a", sums=_judged(mean)) for mean in (0.8, 0.7))
    return _slots((before, after), **bounds)


def test_an_alarm_is_held_back_while_the_judge_moves_and_given_when_it_has_not() -> None:
    check = FakeCheck("moved")
    watch = Watch(check=check)
    assert watch.take(_judge_falls(last=FALL + 0.25 * DAY)) == []
    assert {score for score, _ in check.asked} == {"faithfulness"}
    evidence = {one.kind: one.evidence for one in watch.evidence()}
    assert evidence["fell"] <= 1.0 < evidence["judge"]
    check.said = "steady"
    later = _judge_falls(first=FALL + 0.25 * DAY, last=FALL + 0.25 * DAY + 600)
    assert [change.kind for change in _changes(watch.take(later))] == ["fell"]


def test_an_alarm_waits_a_day_at_most_for_the_judge_to_be_checked() -> None:
    changes = _changes(Watch(check=FakeCheck("pending")).take(_judge_falls(last=FALL + 3 * DAY)))
    assert changes
    assert FALL + DAY <= changes[0].at < FALL + 1.5 * DAY


def test_free_scores_ask_no_judge() -> None:
    check = FakeCheck("moved")
    assert Watch(check=check).take(_slots((GOOD, BAD), last=FALL + 0.5 * DAY))
    assert check.asked == []


@pytest.mark.parametrize("days", [0.4, 3.2, 3.505, 3.6, 4.3])
def test_a_restart_forgets_nothing(days: float) -> None:
    """Whenever it is: before anything is learned, while a fall is suspected, while one is on."""
    cut = MONDAY + days * DAY
    kinds = list(
        zip(
            _parts(("language:en", 0.8, 20.0), ("language:zh", 0.8, 20.0)),
            _parts(("language:en", 0.8, 20.0), ("language:zh", 0.5, 20.0)),
            strict=True,
        )
    )
    last = FALL + 1.5 * DAY
    watch = Watch()
    whole = watch.take(_slots(*kinds, last=last))
    first = Watch()
    told = first.take(_slots(*kinds, last=cut))
    second = Watch()
    second.restore(json.loads(json.dumps(first.state())))
    told += second.take(_slots(*kinds, last=last))  # what it has taken already is passed over
    assert told == whole
    assert second.changes() == watch.changes()
    assert json.dumps(second.state()) == json.dumps(watch.state())


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [("version", 99, "99"), ("services", [[{}, [["a"]]]], "services"), ("next", "x", "next")],
)
def test_a_state_that_cannot_be_read_is_refused_and_nothing_taken_over(
    name: str, wrong: object, says: str
) -> None:
    watch = Watch()
    watch.take(_slots((GOOD, GOOD), last=MONDAY + DAY))
    with pytest.raises(ValueError, match=says):
        watch.restore(watch.state() | {name: wrong})
    assert len(watch.series()) == 1


def test_sums_of_another_version_are_refused() -> None:
    with pytest.raises(ValueError, match="another version"):
        History([deque([(0.0, array("d", [1.0]))]), deque(), deque()])


def test_gaps_cost_nothing_and_what_is_gone_for_long_is_forgotten() -> None:
    watch = Watch()
    watch.take(_slots((GOOD, GOOD), last=MONDAY + 4 * DAY))
    assert watch.take(_slots((GOOD, GOOD), first=MONDAY + 7 * DAY, last=MONDAY + 8 * DAY)) == []
    other = replace(GOOD, workflow="other")
    watch.take([SlotSums(MONDAY + 30 * DAY, other)])
    assert [one.workflow for one in watch.series()] == ["other"]


def test_a_fall_by_words_says_whether_facts_and_retrieval_fell_with_it() -> None:
    facts = [_one(mean, score="fact_conflict", direction="lower") for mean in (0.02, 0.21)]
    empty = _one(0.0, score="empty_retrieval", direction="lower", sums=_sums(0.0) | {"xx": 0.0})
    elsewhere = _one(0.5, score="fact_conflict", direction="lower", workflow="other")
    kinds = ((GOOD, BAD), tuple(facts), (empty, empty), (elsewhere, elsewhere))
    changes = _changes(Watch().take(_slots(*kinds, last=FALL + 0.5 * DAY)))
    (change,) = (one for one in changes if one.score == "lexical_groundedness")
    assert change.note == (
        "absent numbers and names 2% → 21%; empty retrievals 0% → 0%; "
        "if a model or prompt is new, it may be manner"
    )


def _lacking(**shares: float) -> list[QualitySums]:
    return [
        _one(shares.get(kind, 0.0), score=name, direction="lower", sums=_sums(shares.get(kind, 0.0)))
        for name, kind in PARTS.items()
    ]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"framing": 0.25, "other": 0.1, "facts": 0.05}, "; mostly manner, not truth"),
        ({"framing": 0.05, "other": 0.1, "sentences": 0.25}, "; mostly what no chunk says"),
        ({"framing": 0.2, "other": 0.1, "sentences": 0.05, "chunks": 0.05}, ""),
    ],
)
def test_a_fall_by_words_says_of_what_it_consists(now: Mapping[str, float], said: str) -> None:
    """The parts add up to it; they alarm nobody themselves."""
    before = {"framing": 0.1, "other": 0.1}
    kinds = [(GOOD, BAD), *zip(_lacking(**before), _lacking(**now), strict=True)]
    watch = Watch()
    (change,) = _changes(watch.take(_slots(*kinds, last=FALL + 0.5 * DAY)))
    assert change.note.startswith("groundedness lost 0.2")
    assert change.note.endswith(said)
    assert ("mostly" in change.note) is bool(said)
    figures = [float(figure) for figure in re.findall(r"-?0\.\d{3}", change.note)]
    assert figures[0] == pytest.approx(sum(figures[1:]), abs=0.003)
    assert [one.score for one in watch.series()] == ["lexical_groundedness"]
