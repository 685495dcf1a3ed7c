"""A digest of a day or a week, as Markdown: falls, gaps, worst questions, and unscored requests."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from ragmeter.adapters.opentelemetry.reporter import HeardService
from ragmeter.exporters.changes import NotTakenError
from ragmeter.exporters.webhook import ChangeWebhook
from ragmeter.metrics import ConfigurationError
from ragmeter.settings.config import read_settings
from ragmeter.watch.change import Change
from ragmeter.watch.wording import moment, word_change

from ._listening import page_address
from ._version_alerts import deployment_change
from .options import ServeOptions
from .store import Filters, Reader, Store, StoredClaims, StoreFullError

PERIODS: Mapping[str, float] = {"daily": 86_400.0, "weekly": 604_800.0}
"""Length of each period in seconds."""
_MONDAY_S = 4 * 86_400.0
"""The first Monday after the epoch, with which weeks begin."""
MOST_LINES = 5
_PAUSE_S = 60.0
"""Seconds between two attempts to post a digest."""


class Digest:
    """Prints a digest at the end of every day or week, in UTC, and posts it.

    Args:
        period: One of `PERIODS`.
        reader: Reads the store.
        heard: Returns the received requests of each service, by outcome.
        changes: Returns the changes of quality.
        clock: Seconds since the epoch.
        say: Outputs the text; None: print it.
        post: Posts the text, and is called again later if it raises NotTakenError; None: do not post.
        claims: Decide which of several servers on one store posts it; None: a single server.
    """

    def __init__(
        self,
        period: str,
        reader: Reader,
        heard: Callable[[], Sequence[HeardService]],
        changes: Callable[[], Sequence[Change]],
        *,
        clock: Callable[[], float] = time.time,
        say: Callable[[str], object] | None = None,
        post: Callable[[str], object] | None = None,
        claims: StoredClaims | None = None,
    ) -> None:
        self._period = period
        self._length_s = PERIODS[period]
        self._reader = reader
        self._heard = heard
        self._changes = changes
        self._clock = clock
        self._say = say or _print
        self._post = post
        self._claims = claims
        self._waiting: str | None = None
        self._due = 0.0
        self._last_number = self._number()

    def look(self) -> bool:
        """Print and post a digest that is due; return False: there is never more to do at once.

        Raises:
            DeliveryError: The digest was refused for good.
        """
        number = self._number()
        if number > self._last_number:
            end = number * self._length_s + _MONDAY_S
            text = digest_of(
                self._reader, self._heard(), self._changes(), end - self._length_s, end
            )
            self._last_number = number
            self._say(text)
            self._waiting, self._due = (text if self._is_mine(end) else None), 0.0
        if self._post is not None and self._waiting is not None and self._clock() >= self._due:
            text, self._waiting = self._waiting, None
            try:
                self._post(text)
            except NotTakenError as error:
                self._waiting, self._due = text, self._clock() + (error.pause_s or _PAUSE_S)
        return False

    def _is_mine(self, end: float) -> bool:
        """Return whether no other server on the store posts this digest; True if that is unknown."""
        if self._claims is None:
            return True
        try:
            claim = self._claims.claim(f"{self._period} digest", "digest", end, "")
            if claim is not None:
                self._claims.done(claim)
        except StoreFullError:
            return True
        return claim is not None

    def _number(self) -> int:
        return int((self._clock() - _MONDAY_S) // self._length_s)


def digests(
    options: ServeOptions,
    reader: Reader | None,
    store: Store | None,
    heard: Callable[[], Sequence[HeardService]],
    changes: Callable[[], Sequence[Change]],
    http_port: int,
) -> list[Callable[[], bool]]:
    """Return the recurring task that sends digests, if digests are enabled.

    Raises:
        ConfigurationError: The period is unknown, or there is no store.
    """
    period, url = options.digest, options.webhook
    if period is None:
        return []
    if period not in PERIODS or reader is None:
        why = "needs a store" if period in PERIODS else f"is one of {', '.join(PERIODS)}"
        raise ConfigurationError(f"digest={period!r}: it {why}")
    if url is None and (secret := read_settings().change_webhook) is not None:
        url = secret.get_secret_value()
    post = None if url is None else ChangeWebhook(url, page=page_address(options, http_port)).digest
    claims = None if store is None else store.claims()
    return [Digest(period, reader, heard, changes, post=post, claims=claims).look]


def digest_of(
    reader: Reader,
    heard: Sequence[HeardService],
    changes: Sequence[Change],
    since: float,
    until: float,
) -> str:
    """Return the digest between two moments, seconds since the epoch, as Markdown."""
    time_of_it = Filters(since_ms=int(since * 1000), until_ms=int(until * 1000))
    health = reader.health(time_of_it)
    fell = [
        word_change(one)
        for one in (
            *(deployment_change(each, until) for each in health.deployments),
            *(each for each in changes if since <= each.at < until and each.kind != "version"),
        )
        if one is not None and one.kind != "recovered"
    ]
    open_gaps = [one for one in reader.gaps(time_of_it).gaps if one.state == "open"]
    gaps = [str(one) for one in open_gaps[:MOST_LINES]]
    questions = [
        f"{one.question}: {one.bad.bad} of {one.bad.requests} bad"
        for one in health.questions[:MOST_LINES]
    ]
    unscored = [
        f"{one.service or '–'}: {one.traces} traces, {max(one.reasons, key=lambda each: one.reasons[each])}"
        + (f"; {one.fix}" if one.fix else "")
        for one in heard
        if one.reasons and not one.scored
    ]
    parts = (
        ("What fell", fell, "Nothing is clearly worse."),
        ("Knowledge gaps", gaps, "None."),
        ("Worst questions", questions, "None."),
        ("Heard and not scored", unscored, "Nothing."),
    )
    return "\n".join(
        [
            f"# ragmeter, {moment(since)} to {moment(until)}",
            *(line for one in parts for line in _section(*one)),
        ]
    )


def _section(heading: str, lines: Sequence[str], none: str) -> Iterator[str]:
    yield f"\n## {heading}\n"
    yield from (f"- {' '.join(line.split())}" for line in lines) if lines else [none]


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
