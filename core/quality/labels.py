"""Labels of requests by people: `Label`, their file, and their sums.

`ragmeter label` and the page write labels, `ragmeter agreement` and estimates read them. A label enters an
estimate only if its request was drawn with a known probability; a voluntary one, for a request picked by hand
or a thumb, is stored separately: such requests are worse than others, by an unknown amount. A file of labels
has no texts: only ids, numbers, names of raters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ragmeter.metrics._files.append import append_whole, appending
from ragmeter.metrics._files.json_lines import as_line
from ragmeter.metrics._files.rows import BadRow, read_rows

from .moments import JudgedMoments

LabelScale = Literal["1-5", "yes-no"]
"""Scale of a rater. Graded labels carry more information: reduced to good and bad they save little judging."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The label of one request by one person."""

    request: str
    """Id of the request: its trace id, its run id, or the hash of its row."""
    score: str
    """Name of the labelled score: the question to the rater."""
    value: float | None
    """0 to 1, as the score; None: the rater could not decide."""
    rater: str
    """The rater."""
    at: str
    """Time of the label, as ISO 8601 in UTC."""
    scale: LabelScale = "1-5"
    """The scale."""
    probability: float | None = None
    """Probability that the request was drawn among those that could be labelled; None: it was picked, not
    drawn."""
    judged: float | None = None
    """The judge's score, 0 to 1; None: none."""
    judge: str = ""
    """Measurement of the judge's score: metric, version of formula and prompt, model."""
    judge_probability: float = 1.0
    """Probability that the request was chosen to be judged."""
    source: str = ""
    """Name of the source; a drawing from the same source continues the earlier one."""
    verdict: str = ""
    """Verdict of the request when it was labelled; empty: none, or unknown."""
    relevance: float | None = None
    """Its `lexical_context_relevance`; None: unknown."""

    def __post_init__(self) -> None:
        for name in ("value", "judged", "relevance"):
            _check(name, getattr(self, name), zero=True)
        for name in ("probability", "judge_probability"):
            _check(name, getattr(self, name), zero=False)
        if not self.request or not self.score:
            raise ValueError("request and score must not be empty")

    @property
    def origin(self) -> Literal["drawn", "volunteered"]:
        """``drawn`` with a known probability, or ``volunteered``."""
        return "volunteered" if self.probability is None else "drawn"


def _check(name: str, value: Any, *, zero: bool) -> None:
    if value is None and name != "judge_probability":
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} is {type(value).__name__}, not a number")  # noqa: TRY004 -- of data
    if not 0 <= value <= 1 or (value == 0 and not zero):
        raise ValueError(f"{name} is {value!r}, not from 0 to 1")


_FIELDS = tuple(field.name for field in fields(Label))
_TEXTS = ("request", "score", "rater", "at", "scale", "judge", "source", "verdict")


def append_label(path: Path, label: Label) -> None:
    """Append a label to a file, which is created, readable by its owner only, if it does not exist.

    Several processes may do so at once. A later label of the same rater, request and score replaces
    the earlier one.

    Raises:
        OSError: The file cannot be written; its earlier lines remain.
    """
    record = asdict(label) | {"origin": label.origin}
    with appending(path) as file:
        append_whole(file, as_line(record))


def read_labels(path: Path) -> tuple[list[Label], list[BadRow]]:
    """Return the labels in a file, the last one of each rater, request and score, and the invalid lines.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    found: dict[tuple[str, str, str, str], Label] = {}
    bad: list[BadRow] = []
    for row in read_rows(path, ()):
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        try:
            label = _label(row.fields)
        except ValueError as error:
            bad.append(BadRow(row.line, str(error)))
        else:
            found[label.source, label.request, label.score, label.rater] = label
    return list(found.values()), bad


def _label(given: Mapping[str, Any]) -> Label:
    known = {name: given[name] for name in _FIELDS if name in given}
    missing = [name for name in ("request", "score", "value", "rater", "at") if name not in known]
    if missing:
        raise ValueError(f"no {', '.join(missing)}: not a label")
    for name in _TEXTS:
        if not isinstance(known.get(name, ""), str):
            raise ValueError(f"{name} is not a text")  # noqa: TRY004 -- of data
    if known.get("scale", "1-5") not in ("1-5", "yes-no"):
        raise ValueError(f"scale is {known['scale']!r}, neither 1-5 nor yes-no")
    return Label(**known)


class LabelledRequest(NamedTuple):
    """The labels of one request by all raters."""

    request: str
    values: tuple[float, ...]
    """One of each rater who could decide."""
    judged: float | None
    """The judge's score; None: none."""
    probability: float | None
    """Probability that it was drawn to be labelled among all requests, judged or not; None: it was picked."""
    verdict: str = ""
    """The verdict's word; empty: unknown."""

    @property
    def mean(self) -> float | None:
        """The mean of the raters; None if none of them could decide."""
        return sum(self.values) / len(self.values) if self.values else None


def labelled_requests(labels: Iterable[Label]) -> list[LabelledRequest]:
    """Return the labels of one score by request.

    Shares drawn from one source nest: a larger one continues where the smaller one ended. So the probability
    of all of them is the largest of any drawing. A request that was both drawn and picked counts as drawn,
    with the labels of both.
    """
    by_request: dict[tuple[str, str], list[Label]] = defaultdict(list)
    most: dict[str, float] = {}
    for one in labels:
        by_request[one.source, one.request].append(one)
        if one.probability is not None:
            most[one.source] = max(most.get(one.source, 0.0), one.probability)
    found = []
    for (source, request), group in by_request.items():
        is_drawn = any(one.probability is not None for one in group)
        last = max(group, key=lambda one: one.at)
        found.append(
            LabelledRequest(
                request,
                tuple(one.value for one in group if one.value is not None),
                last.judged,
                most[source] * last.judge_probability if is_drawn else None,
                last.verdict,
            )
        )
    return found


def probability_sample(requests: Iterable[LabelledRequest]) -> list[LabelledRequest]:
    """Return the requests that may enter an estimate: those drawn with a known probability."""
    return [one for one in requests if one.probability is not None]


def label_moments(requests: Sequence[LabelledRequest], *, with_judge: bool = True) -> JudgedMoments:
    """Return the sums of labels, for the argument `labels` of `ragmeter.quality.estimate.estimate`.

    The judge's score takes the place of the free score, the mean of the raters that of the judge. Volunteered
    labels are left out.

    Args:
        requests: Of one score and one window of time: that of the sums they correct. Labels of
            another time go to `ragmeter.quality.label_transport.transport_share`.
        with_judge: False: ignore the judge. Passed to `estimate` in place of the judge's sums, they estimate
            from the labels alone.
    """
    sums = JudgedMoments()
    for one in probability_sample(requests):
        if with_judge and one.judged is None:
            continue  # not among the requests with a value of the judge
        x = one.judged if with_judge and one.judged is not None else 0.5
        sums.add_request(x)
        sums.judged(x, one.probability or 1.0, one.mean, undefined=one.mean is None)
    return sums
