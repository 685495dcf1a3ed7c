"""Many estimates together: what `RagMeter.quality()` returns, and how a notebook and a data frame show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ._estimates_table import estimates_table
from .estimate import Estimate

__all__ = ["Estimates", "QualityKey", "frame_of_estimates", "html_of_estimates"]

_NUMBERS = ("mean", "lower", "upper", "unscored", "undefined", "design_effect")
_COUNTS = ("n_requests", "n_judged", "n_labelled", "method")


class QualityKey(NamedTuple):
    """What an estimate is of."""

    score: str
    """Name of the score."""
    workflow: str
    """Name of the chain, engine or workflow; empty: it has none."""
    segment: str = ""
    """Which part of its requests, e.g. ``language:zh``; empty: all of them."""


class Estimates(dict[QualityKey, Estimate]):
    """Estimates by score, workflow and segment; printed, a table of them."""

    def __str__(self) -> str:
        """Return the table."""
        return estimates_table({_named(key): self[key] for key in sorted(self)})

    def __repr__(self) -> str:
        """Return the same: what a prompt shows is for people."""
        return str(self) if self else "{}"

    def to_pandas(self) -> Any:
        """Return a pandas frame, a row per estimate: ``score``, ``workflow``, ``segment``, then its fields.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return frame_of_estimates(self.items())

    def _repr_html_(self) -> str:
        return html_of_estimates(self.items())


def _named(key: QualityKey) -> str:
    return " · ".join(part for part in (key.score, key.workflow, key.segment) if part)


def frame_of_estimates(found: Iterable[tuple[QualityKey | None, Estimate]]) -> Any:
    """Return a pandas frame, a row per estimate; without keys only of its fields.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    from ragmeter.metrics._display import data_frames as frames  # noqa: PLC0415 -- only for who looks

    listed = list(found)
    keys = [key for key, _ in listed if key is not None]
    columns: dict[str, list[Any]] = {
        name: [getattr(key, name) for key in keys]
        for name in (QualityKey._fields if len(keys) == len(listed) else ())
    }
    columns |= {name: [getattr(one, name) for _, one in listed] for name in _COUNTS}
    return frames.frame_of_fields(
        columns, {name: [getattr(one, name) for _, one in listed] for name in _NUMBERS}
    )


def html_of_estimates(found: Iterable[tuple[QualityKey | None, Estimate]]) -> str:
    """Return a table of estimates for a notebook: what of, mean, interval, and how much it rests on."""
    from ragmeter.metrics._display import html  # noqa: PLC0415 -- likewise
    from ragmeter.metrics._display.wording import percent  # noqa: PLC0415

    rows = []
    for key, one in found:
        under = (
            "" if key is None else ", ".join(name for name in (key.workflow, key.segment) if name)
        )
        rows.append(
            (
                ("" if key is None else f"<b>{html.text(key.score)}</b>")
                + (f"<small>{html.text(under)}</small>" if under else ""),
                "–" if one.mean is None else f"<b>{one.mean:.2f}</b>",
                f"{one.lower:.2f} – {one.upper:.2f}",
                f"{one.n_judged} of {one.n_requests}",
                percent(one.unscored) if one.unscored else "–",
                one.method,
            )
        )
    return html.fragment(
        html.table(
            ("score", "mean", "95 % interval", "measured requests", "without a value", "method"),
            rows,
        )
    )
