"""The output of `ragmeter agreement`, for people and as JSON. Reads `Agreements`; computes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.text import Text

from ragmeter.cli._console import Console
from ragmeter.metrics._display.wording import percent
from ragmeter.quality.agreement import AgreementValue
from ragmeter.quality.estimates import Estimate

from .run import Agreements, ScoreAgreement, as_json

_STATUS = {
    "few_labels": "not said: it takes 100 labels, with 30 of good and 30 of bad requests",
    "judge_tells_nothing": "not said: the judge separates good from bad hardly better than a coin",
    "nothing_judged": "not said: nothing is judged",
}


def agreements_as_json(found: Agreements, labels: Path, results: Path | None) -> dict[str, Any]:
    """Return the agreements as JSON-ready fields, with the names of the files."""
    return {
        "labels": str(labels),
        "results": None if results is None else str(results),
        "bad_rows": [bad._asdict() for bad in found.bad],
        "scores": {one.score: as_json(one) for one in found.scores},
    }


def print_agreements(found: Agreements, width: float, console: Console) -> None:
    """Print each score's numbers, one per line: readable at any width of the terminal."""
    for one in found.scores:
        console.print(Text.assemble((one.score, "bold"), f" {one.judge}"))
        for line in _lines(one, width):
            console.print_indented(line)
        for note in one.notes:
            console.print_indented(note, "yellow")
        console.print()


def _lines(one: ScoreAgreement, width: float) -> Iterator[str]:
    raters = ", ".join(f"{name} {count}" for name, count in one.raters.items())
    yield f"labels: {one.drawn} requests drawn ({raters})" + _more(one)
    yield f"mean according to people, labels alone: {_estimate(one.alone)}"
    if one.judged is not None:
        yield f"mean according to the judge: {_estimate(one.judged)}"
    if one.people is not None:
        yield f"mean according to people, labels and judge: {_estimate(one.people)}"
    if one.now is not None:
        now = one.now
        said = (
            f"{now.share:.2f} [{now.lower:.2f}, {now.upper:.2f}]"
            if now.share is not None
            else _STATUS[now.status]
        )
        yield f"share of good requests now, according to people: {said}"
    both = one.confusion
    if both.n:
        yield (
            f"judge and people, {both.n} requests: raw agreement {_number(both.agreement)}; good according to "
            f"people {_number(both.people_good)}, to the judge {_number(both.judge_good)}"
        )
        yield (
            f"good, good {both.good_good}; good, judge says bad {both.good_bad}; bad, judge says good "
            f"{both.bad_good}; bad, bad {both.bad_bad}"
        )
        yield f"sensitivity {_value(both.sensitivity)}; specificity {_value(both.specificity)}"
        kappas = "; ".join(f"{name} {_value(value)}" for name, value in one.kappa.items())
        yield f"κ by weights, {one.levels} levels: {kappas}"
        yield f"α, interval: {_value(one.alpha)}"
        yield f"r with the mean of raters: {_value(one.r)}"
    for rate in one.rates:
        yield (
            f"verdict {rate.word}: people call {percent(rate.share)} of {rate.n} bad "
            f"[{100 * rate.lower:.0f}, {100 * rate.upper:.0f}]"
        )
    yield from _ceiling_lines(one)
    if both.n:
        yield f"{both.n} labels with this judge tell as much as {one.worth:.0f} alone"
    yield (f"for an interval of {width:g}: {one.needed} labels with this judge, {one.needed_alone} alone")


def _more(one: ScoreAgreement) -> str:
    apart = [
        f"{count} {what}"
        for count, what in (
            (one.volunteered, "volunteered, in nothing below but the ceiling"),
            (one.unsure, "no rater could decide"),
            (one.unjudged, "without a value of the judge"),
        )
        if count
    ]
    return f"; {'; '.join(apart)}" if apart else ""


def _ceiling_lines(one: ScoreAgreement) -> Iterator[str]:
    people = one.ceiling
    if people is None:
        yield "people among themselves: unknown; let a second person label the same file"
        return
    alphas = "; ".join(f"{name} {_value(value)}" for name, value in people.alpha.items())
    yield f"people among themselves, {people.raters} on {people.requests} requests: α {alphas}"
    kappa, r = _number(people.kappa), _number(people.r.value)
    yield (
        f"among themselves, too: quadratic κ {kappa}, r of one with the others {r}: no judge can be asked "
        "for more"
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _value(found: AgreementValue) -> str:
    if found.value is None:
        return "–"
    return f"{found.value:.2f} [{found.lower:.2f}, {found.upper:.2f}]"


def _estimate(found: Estimate) -> str:
    mean = "–" if found.mean is None else f"{found.mean:.3f}"
    return f"{mean} [{found.lower:.3f}, {found.upper:.3f}]"
