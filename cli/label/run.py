"""``ragmeter label``: shows one request after the other, and stores a person's label for each.

Raters resume where they stopped.  The judge's verdict is stored beside each label, but not shown.  Nothing
leaves the machine.  Called by `app`.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import get_args

from ragmeter.cli._console import Console
from ragmeter.cli._interrupt import whole
from ragmeter.cli._output_paths import check_output_paths
from ragmeter.cli._results import ResultFile, ScoredRequest, read_results, samples_at, texts_of
from ragmeter.exporters.change_words import Language
from ragmeter.metrics import ConfigurationError, RagSample
from ragmeter.metrics._display.wording import percent
from ragmeter.metrics._files.samples import Row, read_samples
from ragmeter.quality.estimate import always_valid_half
from ragmeter.quality.labels import Label, LabelScale, append_label, read_labels
from ragmeter.quality.verdict_rates import LEAST_LABELS, verdict_rates

from ._draw import Drawing, draw, pick_worst
from ._screen import Screen, grade_of
from ._wording import WORDINGS

LEAST_FOR_MEAN = 30
"""Labels before the first display of the mean so far; with so few, it is shown only"""
EVERY = 10
"""after this many more labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOptions:
    """The options of `ragmeter label`, whose help says what they mean."""

    results: Path
    out: Path
    score: str
    data: Path | None
    count: int
    worst: bool
    rater: str | None
    scale: LabelScale
    language: Language | None


def run_labelling(options: LabelOptions, console: Console) -> None:
    """Show requests until all are labelled or the rater stops; each label is stored at once.

    Raises:
        ConfigurationError: An option is invalid, a file cannot be read or written, or no request can be
            labelled.
    """
    check_output_paths(options.results, out=options.out)
    if options.data is not None:
        check_output_paths(options.data, out=options.out)
    results = read_results(options.results)
    texts = options.results if options.data is None else options.data
    if options.data is not None:
        _name_texts(results, options.data)
    elif not results.has_texts:
        raise ConfigurationError(
            f"{str(options.results)!r} has no texts: name the data set that was evaluated, --data DATA"
        )
    known = _known(options)
    drawing = _drawing(options, results, known)
    samples = samples_at(texts, [one.line for one in drawing.requests])
    _Session(options, console, drawing, samples, known).run()


def _name_texts(results: ResultFile, data: Path) -> None:
    """Record for each request the line of the data set with its texts."""
    by_key = {one.request: one for one in results.requests}
    for row in read_samples(data):
        if isinstance(row, Row) and (request := by_key.get(row.key)) is not None:
            request.line, request.has = row.line, texts_of(row.sample)


def _known(options: LabelOptions) -> list[Label]:
    """Return the labels of earlier sessions over the same file."""
    if not options.out.exists():
        return []
    labels, bad = read_labels(options.out)
    if bad and not labels:
        raise ConfigurationError(
            f"--out {str(options.out)!r}, line {bad[0].line}: {bad[0].reason}; name another file"
        )
    source = options.results.name
    return [one for one in labels if one.source == source and one.score == options.score]


def _drawing(options: LabelOptions, results: ResultFile, known: Sequence[Label]) -> Drawing:
    if options.worst:
        return pick_worst(results, options.score, options.count)
    # Drawing again from the same file adds requests to those drawn before, and removes none.
    earlier = [one.probability for one in known if one.probability is not None]
    return draw(results, options.score, options.count, at_least=max(earlier, default=0.0))


def _account() -> str:
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return "rater"


def _language() -> Language:
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(variable):
            return next((one for one in get_args(Language) if value.lower().startswith(one)), "en")
    return "en"


class _Session:
    """The session of one rater."""

    def __init__(
        self,
        options: LabelOptions,
        console: Console,
        drawing: Drawing,
        samples: dict[int, RagSample],
        known: Sequence[Label],
    ) -> None:
        self._options = options
        self._rater = options.rater or _account()
        self._drawing = drawing
        self._samples = samples
        self._words = WORDINGS[options.language or _language()]
        self._screen = Screen(console, self._words, options.score, options.scale)
        self._others = [one for one in known if one.rater != self._rater]
        self._said = {one.request: one for one in known if one.rater == self._rater}
        self._given = 0

    def run(self) -> None:
        requests = self._drawing.requests
        waiting = [one for one in requests if one.request not in self._said]
        place, whole = 0, False
        if self._drawing.probability is None:
            self._screen.say(self._words.volunteered, "yellow")
        while place < len(waiting):
            request = waiting[place]
            shown = self._words.place.format(
                number=len(requests) - len(waiting) + place + 1, count=len(requests)
            )
            self._screen.show(self._samples[request.line], shown, whole=whole)
            key = self._key()
            if key is None or key in ("q", "Q", "\x04"):
                break
            if whole := key in ("m", "M"):
                continue
            if key in ("b", "B"):
                place = max(0, place - 1)
                continue
            self._keep(request, None if key in ("s", "S") else grade_of(key, self._options.scale))
            place += 1
            if self._given and not self._given % EVERY:
                self._say_mean()
        else:
            self._screen.say(self._words.done.format(count=len(requests)))
        self._say_mean()
        self._screen.say(
            self._words.saved.format(
                count=sum(one.value is not None for one in self._said.values()),
                rater=self._rater,
                path=self._options.out,
            )
        )
        self._say_rates()

    def _key(self) -> str | None:
        """Return the next valid key."""
        while (key := self._screen.key()) is not None:
            if key == "\x03":
                raise KeyboardInterrupt
            if key in tuple("sSbBmMqQ\x04") or grade_of(key, self._options.scale) is not None:
                return key
            self._screen.say(self._words.unknown.format(key=key[:20]), "yellow")
        return None

    def _keep(self, request: ScoredRequest, value: float | None) -> None:
        verdict = request.scores.get(self._options.score)
        label = Label(
            request=request.request,
            score=self._options.score,
            value=value,
            rater=self._rater,
            at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            scale=self._options.scale,
            probability=self._drawing.probability,
            judged=request.value_of(self._options.score),
            judge="" if verdict is None else verdict.judge,
            judge_probability=request.probability_of(self._options.score),
            source=self._options.results.name,
            verdict=request.verdict,
            relevance=request.value_of("lexical_context_relevance"),
        )
        try:
            with whole():
                append_label(self._options.out, label)
        except OSError as error:
            raise ConfigurationError(
                f"--out {str(self._options.out)!r}: {error.strerror}; what was labelled before is kept"
            ) from error
        self._said[request.request] = label
        self._given += value is not None

    def _say_rates(self) -> None:
        """Print the share of bad requests per verdict by all raters' labels; only once the rater is done."""
        rates = verdict_rates([*self._others, *self._said.values()])
        for one in rates:
            line = self._words.rate.format(
                word=one.word,
                n=one.n,
                share=percent(one.share),
                lower=f"{100 * one.lower:.0f}",
                upper=f"{100 * one.upper:.0f}",
            )
            self._screen.say(line)
        if rates and (n := sum(one.n for one in rates)) < LEAST_LABELS:
            self._screen.say(self._words.early_rate.format(count=n, least=LEAST_LABELS), "dim")

    def _say_mean(self) -> None:
        """Print the mean with an interval that stays valid for any number of looks."""
        if self._drawing.probability is None:
            return
        said = [
            (1 / one.judge_probability, one.value)
            for one in self._said.values()
            if one.value is not None and one.probability is not None
        ]
        if len(said) < LEAST_FOR_MEAN:
            line = self._words.early.format(count=len(said), least=LEAST_FOR_MEAN)
            self._screen.say(line, "dim")
            return
        weight = sum(w for w, _ in said)
        mean = sum(w * value for w, value in said) / weight
        n = weight**2 / sum(w * w for w, _ in said)
        spread = sum(w * (value - mean) ** 2 for w, value in said) / weight
        # Adds half a squared residual of size 1: thirty equal labels do not prove the absence of spread.
        half = always_valid_half((spread * n + 0.5) / max(1.0, n - 1), n)
        self._screen.say(self._words.mean.format(mean=f"{mean:.2f}", half=f"{half:.2f}"), "dim")
