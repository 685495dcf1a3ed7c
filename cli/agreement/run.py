"""``ragmeter agreement``: compares people's labels with the judge's, and with each other.

Reads a file of labels and, if given, the results that they were drawn from. The order of drawing shows
whether the labels belong to those results; if not, they are from another time, and correct the judge by its
error rates alone. Called by `app`; prints nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import variance
from typing import Any, get_args

from ragmeter.cli._results import ResultFile, ScoredRequest, place_of, read_results
from ragmeter.metrics import ConfigurationError, Score
from ragmeter.metrics._files.rows import BadRow
from ragmeter.quality.agreement import (
    AgreementValue,
    AlphaLevel,
    Confusion,
    alpha_interval,
    binary_confusion,
    correlation,
    kappa,
    label_worth,
    labels_needed,
    table_of,
)
from ragmeter.quality.estimate import estimate
from ragmeter.quality.estimates import Estimate
from ragmeter.quality.label_transport import TransportedShare, transport_share
from ragmeter.quality.labels import (
    Label,
    LabelledRequest,
    label_moments,
    labelled_requests,
    probability_sample,
    read_labels,
)
from ragmeter.quality.moments import JudgedMoments
from ragmeter.quality.population import UNKNOWN_PROXY, proxy_value
from ragmeter.quality.verdict_rates import VerdictRate, verdict_rates


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Agreement of people among themselves: the most that a judge can reach."""

    raters: int
    requests: int
    """Number of requests labelled by two people or more."""
    alpha: Mapping[str, AgreementValue]
    """Krippendorff's α, by level: nominal, ordinal, interval."""
    kappa: float | None
    """Quadratic κ, the mean over pairs of raters."""
    r: AgreementValue
    """Correlation of one rater with the mean of the others, over all raters and requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreAgreement:
    """Agreement and estimates of one score."""

    score: str
    judge: str
    """The measurement: metric, version and model; several are separated by commas."""
    raters: Mapping[str, int]
    """Number of labels by rater."""
    drawn: int
    """Number of requests that were drawn with a known probability."""
    volunteered: int
    """Number of picked requests, which are in no other number."""
    unsure: int
    """Number of drawn requests that no rater could decide."""
    unjudged: int
    """Number of drawn requests without a value of the judge."""
    levels: int
    """Levels of the scale: 2 or 5."""
    confusion: Confusion
    kappa: Mapping[str, AgreementValue]
    """κ of people's mean and the judge, by weights; both rounded to the levels of the scale."""
    alpha: AgreementValue
    """Krippendorff's α, interval level, of the same two without rounding."""
    r: AgreementValue
    """Correlation of the judge with the mean of raters."""
    ceiling: Ceiling | None
    """Agreement among people; None: fewer than two people labelled the same requests."""
    alone: Estimate
    """The mean according to people, from labels alone."""
    judged: Estimate | None
    """The mean according to the judge, over the results."""
    people: Estimate | None
    """The mean according to people, from labels and judge together; None: labels are from another time."""
    now: TransportedShare | None
    """The share of good requests according to people, by labels from another time."""
    worth: float
    """Number of labels without a judge that would give the same precision."""
    needed: int
    """Number of labels for an interval of the desired width, with this judge."""
    needed_alone: int
    """Number of labels for it without a judge."""
    rates: Sequence[VerdictRate]
    """Share of requests of each verdict that people call bad."""
    notes: Sequence[str] = field(default=())
    """Reasons for missing numbers."""


@dataclass(frozen=True, slots=True)
class Agreements:
    """All results, for the report."""

    scores: Sequence[ScoreAgreement]
    bad: Sequence[BadRow]
    """Lines of the file that are not labels."""


def compare(
    labels: Path,
    results: Path | None,
    *,
    score: str | None,
    good: float,
    judge_good: float | None,
    width: float,
) -> Agreements:
    """Compare people and judge, score by score.

    Args:
        labels: The file of labels.
        results: The requests with their scores, or None.
        score: Only this score; None: all.
        good: Value from which on people call a request good.
        judge_good: Value from which on the judge does; None: as `good`.
        width: Desired width of the interval of the mean according to people.

    Raises:
        ConfigurationError: A file cannot be read, or has no labels.
    """
    known, bad = read_labels(labels)
    by_score: dict[str, list[Label]] = defaultdict(list)
    for label in known:
        if score in (None, label.score):
            by_score[label.score].append(label)
    if not by_score:
        of = "" if score is None else f" of {score}"
        reason = f"; line {bad[0].line}: {bad[0].reason}" if bad else ""
        raise ConfigurationError(f"{str(labels)!r} has no labels{of}{reason}")
    judged = None if results is None else read_results(results)
    cuts = good, good if judge_good is None else judge_good
    return Agreements(
        [_of_score(name, found, judged, *cuts, width) for name, found in sorted(by_score.items())], bad
    )


def _of_score(
    score: str, labels: Sequence[Label], results: ResultFile | None, cut: float, judge_cut: float, width: float
) -> ScoreAgreement:
    requests = labelled_requests(labels)
    chosen = probability_sample(requests)
    said = [one for one in chosen if one.values]
    both = [(_mean(one), one.judged) for one in said if one.judged is not None]
    people, judge = [first for first, _ in both], [second for _, second in both]
    levels = 2 if all(one.scale == "yes-no" for one in labels) else 5
    confusion = binary_confusion(
        people, judge, is_good=lambda v: v >= cut, judged_good=lambda v: v >= judge_cut
    )
    table = table_of(_round_to_levels(people, levels), _round_to_levels(judge, levels), levels)
    r = correlation(judge, people)
    alone = estimate(label_moments(chosen, with_judge=False))
    # With fewer than two, the largest possible variance.
    spread = variance(map(_mean, said)) if len(said) > 1 else 0.25
    judges = sorted({one.judge for one in labels if one.judge and one.probability is not None})
    counts: dict[str, int] = defaultdict(int)
    for one in labels:
        counts[one.rater] += one.value is not None
    known = max(0.0, r.value or 0.0) if r.n else 0.0
    corrected = _correct_scores(score, chosen, judges, confusion, results, judge_cut)
    worth = label_worth(known, len(both))
    if corrected.people is not None and corrected.people.method == "regression":
        worth = corrected.people.n_labelled * max(1.0, corrected.people.gain)
    return ScoreAgreement(
        score=score,
        judge=", ".join(judges),
        raters=dict(counts),
        drawn=len(chosen),
        volunteered=len(requests) - len(chosen),
        unsure=len(chosen) - len(said),
        unjudged=sum(one.judged is None for one in said),
        levels=levels,
        confusion=confusion,
        kappa={name: kappa(table, name) for name in ("none", "linear", "quadratic")},
        alpha=alpha_interval([list(pair) for pair in both], "interval"),
        r=r,
        ceiling=_human_agreement(labels, levels),
        alone=alone,
        judged=corrected.judged,
        people=corrected.people,
        now=corrected.now,
        worth=worth,
        needed=labels_needed(width, spread, known),
        needed_alone=labels_needed(width, spread),
        rates=verdict_rates(labels, cut),
        notes=corrected.notes,
    )


@dataclass(slots=True)
class _Corrections:
    judged: Estimate | None = None
    people: Estimate | None = None
    now: TransportedShare | None = None
    notes: list[str] = field(default_factory=list)


def _correct_scores(
    score: str,
    chosen: Sequence[LabelledRequest],
    judges: Sequence[str],
    errors: Confusion,
    results: ResultFile | None,
    judge_cut: float,
) -> _Corrections:
    """Return the scores corrected by labels and the judge's scores of all requests."""
    found = _Corrections()
    if results is None:
        return found
    measured = [one for one in results.requests if score in one.scores]
    if not measured:
        found.notes.append(f"the results have no {score}")
        return found
    sums = _judge_sums(score, results)
    found.judged = estimate(sums)
    measurements = {one.scores[score].judge for one in measured}
    if judges and measurements != set(judges):
        found.notes.append(
            f"the labels are of {', '.join(judges)}, the results of {', '.join(sorted(measurements))}: "
            "another judge, whose errors are unknown"
        )
        return found
    if _is_same_drawing(score, chosen, measured):
        found.people = estimate(sums, label_moments(chosen))
        return found
    found.notes.append(
        "the labels were not drawn from all of these results: taken as labels of another time, which "
        "correct the judge by its errors alone"
    )
    values = [
        (1 / one.probability_of(score), value) for one in measured if (value := one.value_of(score)) is not None
    ]
    weight = sum(w for w, _ in values)
    good = sum(w for w, value in values if value >= judge_cut)
    k_eff = weight**2 / sum(w * w for w, _ in values) if values else 0.0
    found.now = transport_share(good / weight if weight else 0.0, k_eff, errors)
    return found


def _is_same_drawing(score: str, chosen: Sequence[LabelledRequest], measured: Sequence[ScoredRequest]) -> bool:
    """Return whether the labels were drawn from exactly these requests.

    Requests are drawn in an order: up to the last labelled one, nearly all judged requests must be labelled.
    A few may be missing, as raters stop at different positions.
    """
    names = {name: one for one in measured for name in one.names}
    found = [names.get(one.request) for one in chosen]
    if not found or any(one is None for one in found):
        return False
    labelled = {one.request for one in found if one is not None}
    last = max(place_of(name) for name in labelled)
    reached = sum(place_of(one.request) <= last and one.value_of(score) is not None for one in measured)
    return len(labelled) >= 0.9 * reached


def _judge_sums(score: str, results: ResultFile) -> JudgedMoments:
    """Return the sums of the judge's scores, corrected to all requests if the file has them."""
    sums = JudgedMoments()
    # If requests were stored for being bad, their good counterparts are missing: no mean over all.
    complete = not any(one.is_worst for one in results.requests)
    for one in results.requests:
        known = {
            name: Score(name=name, value=given.value, status="ok", method="lexical", definition="")
            for name, given in one.scores.items()
            if given.value is not None
        }
        x = proxy_value(score, known) if complete else UNKNOWN_PROXY
        verdict = one.scores.get(score)
        if verdict is not None and verdict.status == "missing_input":
            continue
        sums.add_request(x)
        if verdict is not None and verdict.status != "skipped":
            sums.judged(x, one.probability_of(score), verdict.value, undefined=verdict.status == "undefined")
    return sums


def _human_agreement(labels: Sequence[Label], levels: int) -> Ceiling | None:
    """Return the agreement of people among themselves, over drawn and picked requests."""
    ratings: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for one in labels:
        if one.value is not None:
            ratings[one.source, one.request][one.rater] = one.value
    shared = [by_rater for by_rater in ratings.values() if len(by_rater) > 1]
    if not shared:
        return None
    raters = sorted({rater for by_rater in shared for rater in by_rater})
    kappas = []
    for first, second in combinations(raters, 2):
        pairs = [(one[first], one[second]) for one in shared if first in one and second in one]
        if pairs:
            left, right = ([pair[side] for pair in pairs] for side in (0, 1))
            found = kappa(
                table_of(_round_to_levels(left, levels), _round_to_levels(right, levels), levels), "quadratic"
            )
            if found.value is not None:
                kappas.append(found.value)
    ones: list[float] = []
    others: list[float] = []
    for by_rater in shared:
        total = sum(by_rater.values())
        for value in by_rater.values():
            ones.append(value)
            others.append((total - value) / (len(by_rater) - 1))
    units = [list(by_rater.values()) for by_rater in shared]
    return Ceiling(
        raters=len(raters),
        requests=len(shared),
        alpha={level: alpha_interval(units, level) for level in get_args(AlphaLevel)},
        kappa=sum(kappas) / len(kappas) if kappas else None,
        r=correlation(ones, others),
    )


def _mean(one: LabelledRequest) -> float:
    return one.mean or 0.0


def _round_to_levels(values: Sequence[float], levels: int) -> list[int]:
    """Return the level nearest to each value; halves are rounded up."""
    return [min(levels - 1, int(value * (levels - 1) + 0.5)) for value in values]


def as_json(found: Any) -> Any:
    """Convert numbers, names and tuples to JSON-ready values."""
    if isinstance(found, Mapping):
        return {str(key): as_json(value) for key, value in found.items()}
    if isinstance(found, (AgreementValue, VerdictRate)):
        return {key: as_json(value) for key, value in found._asdict().items()}
    if isinstance(found, Confusion):
        return {
            name: as_json(getattr(found, name))
            for name in (
                "good_good", "good_bad", "bad_good", "bad_bad", "agreement", "people_good", "judge_good",
                "sensitivity", "specificity",
            )
        }  # fmt: skip
    if hasattr(found, "__dataclass_fields__"):
        return {name: as_json(getattr(found, name)) for name in found.__dataclass_fields__}
    if isinstance(found, (list, tuple)):
        return [as_json(one) for one in found]
    return found
