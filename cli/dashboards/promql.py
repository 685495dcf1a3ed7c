"""The PromQL that dashboard and rules share, built from instruments instead of spelled names.

Each function returns one expression.  Quotients guard their denominators: where
nothing happened there is no point, not a NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragmeter.exporters import semconv
from ragmeter.exporters.semconv import Instrument, Term

from .names import bucket, count, label, metric_name, total

__all__ = [
    "DIRECTION",
    "HIGHER",
    "LOWER",
    "NAME",
    "QUALITY",
    "WORKFLOW",
    "Matcher",
    "appeared",
    "bucket_growth",
    "growth",
    "is_set",
    "matches",
    "mean",
    "per_second",
    "quantile",
    "selected",
    "share",
    "share_at_most",
]

WORKFLOW = semconv.GEN_AI_WORKFLOW_NAME
NAME = semconv.GEN_AI_EVALUATION_NAME

Matcher = tuple[Term, str, str]
"""Attribute, operator, value."""


DIRECTION = semconv.SCORE_DIRECTION
HIGHER: Matcher = (DIRECTION, "=", "higher")
"""Match scores of which higher is better."""
LOWER: Matcher = (DIRECTION, "=", "lower")
"""Match scores of which lower is better."""
QUALITY: Matcher = (DIRECTION, "!=", "none")
"""Match scores that can get better or worse at all."""
_UNBIASED: Matcher = (semconv.SELECTION, "!=", "worst")
"""Match what was measured of every request or of a random share. Requests judged only for being bad
say nothing about the others, so no expression here reads them."""


def matches(attribute: Term, pattern: str) -> Matcher:
    """Match series whose `attribute` matches the regular expression `pattern`."""
    return (attribute, "=~", pattern)


def is_set(attribute: Term) -> Matcher:
    """Match series that carry `attribute`; exporters may write absent labels as empty ones."""
    return (attribute, "!=", "")


def _selector(instrument: Instrument, where: Sequence[Matcher], more: str = "") -> str:
    if semconv.SELECTION in instrument.attributes:
        where = [*where, _UNBIASED]
    parts = [
        f'{label(instrument, attribute)}{operator}"{value}"' for attribute, operator, value in where
    ]
    if more:
        parts.append(more)
    return "{" + ",".join(parts) + "}" if parts else ""


def _by(instrument: Instrument, attributes: Sequence[Term], more: str = "") -> str:
    names = [label(instrument, attribute) for attribute in attributes]
    if more:
        names.append(more)
    return f"sum by ({', '.join(names)}) " if names else "sum"


def _summed(
    instrument: Instrument,
    series: str,
    function: str,
    window: str,
    by: Sequence[Term],
    where: Sequence[Matcher],
    more: str = "",
) -> str:
    return (
        f"{_by(instrument, by)}({function}({series}{_selector(instrument, where, more)}[{window}]))"
    )


def selected(instrument: Instrument, where: Sequence[Matcher]) -> str:
    """Return the selector of a histogram's count series."""
    return f"{count(instrument)}{_selector(instrument, where)}"


def per_second(
    instrument: Instrument, window: str, *, by: Sequence[Term] = (), where: Sequence[Matcher] = ()
) -> str:
    """Return the rate of a counter, or of a histogram's measurements."""
    series = count(instrument) if instrument.kind == "histogram" else metric_name(instrument)
    return _summed(instrument, series, "rate", window, by, where)


def growth(
    instrument: Instrument, window: str, *, by: Sequence[Term] = (), where: Sequence[Matcher] = ()
) -> str:
    """Return by how much a counter, or the number of a histogram's measurements, grew."""
    series = count(instrument) if instrument.kind == "histogram" else metric_name(instrument)
    return _summed(instrument, series, "increase", window, by, where)


def appeared(
    instrument: Instrument, window: str, *, by: Sequence[Term] = (), where: Sequence[Matcher] = ()
) -> str:
    """Return the values of a counter's series that did not exist a `window` ago."""
    series = f"{metric_name(instrument)}{_selector(instrument, where)}"
    return f"{_by(instrument, by)}({series} unless {series} offset {window})"


def mean(
    instrument: Instrument, window: str, *, by: Sequence[Term] = (), where: Sequence[Matcher] = ()
) -> str:
    """Return the mean of a histogram's measurements."""
    sums = _summed(instrument, total(instrument), "rate", window, by, where)
    counts = _summed(instrument, count(instrument), "rate", window, by, where)
    return f"{sums}\n/\n({counts} > 0)"


def bucket_growth(instrument: Instrument, window: str, *, where: Sequence[Matcher] = ()) -> str:
    """Return by how much each of a histogram's buckets grew."""
    grown = f"increase({bucket(instrument)}{_selector(instrument, where)}[{window}])"
    return f"{_by(instrument, (), 'le')}({grown})"


def quantile(
    level: float,
    instrument: Instrument,
    window: str,
    *,
    by: Sequence[Term] = (),
    where: Sequence[Matcher] = (),
) -> str:
    """Return the estimated quantile `level` (0 to 1) of a histogram's measurements."""
    rates = f"rate({bucket(instrument)}{_selector(instrument, where)}[{window}])"
    return f"histogram_quantile({level:g}, {_by(instrument, by, 'le')}({rates}))"


def share_at_most(
    bound: str,
    instrument: Instrument,
    window: str,
    *,
    by: Sequence[Term] = (),
    where: Sequence[Matcher] = (),
) -> str:
    """Return the share (0 to 1) of a histogram's measurements that are at most `bound`.

    Args:
        bound: One of the histogram's bucket bounds, as ``0.5``, or a dashboard's variable. Whole
            numbers are matched as ``0`` and as ``0.0``: exporters differ.
        instrument: The histogram.
        window: Range of the rates.
        by: Attributes to group by.
        where: Conditions on attributes.
    """
    within = f'le=~"{bound}(\\\\.0)?"' if bound.isdigit() else f'le="{bound}"'
    below = _summed(instrument, bucket(instrument), "rate", window, by, where, within)
    everything = _summed(instrument, count(instrument), "rate", window, by, where)
    return f"{below}\n/\n({everything} > 0)"


def share(
    instrument: Instrument,
    window: str,
    chosen: Sequence[Matcher],
    *,
    by: Sequence[Term] = (),
    where: Sequence[Matcher] = (),
) -> str:
    """Return the share (0 to 1) of a counter's growth that matches `chosen`; 0 when nothing does."""
    part = per_second(instrument, window, by=by, where=[*where, *chosen])
    whole = per_second(instrument, window, by=by, where=where)
    return f"({part} or 0 * {whole})\n/\n({whole} > 0)"
