"""A digest of a day or a week, as Markdown: falls, gaps, worst questions, and unscored requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ragmeter.adapters.opentelemetry.heard import HeardService
from ragmeter.exporters.changes import NotTakenError
from ragmeter.exporters.webhook import ChangeWebhook
from ragmeter.metrics import ConfigurationError
from ragmeter.settings.config import read_settings
from ragmeter.watch.change import Change
from ragmeter.watch.notify import ClaimError
from ragmeter.watch.wording import moment, word_change

from ._listening import page_address
from ._version_alerts import deployment_change
from .options import ServeOptions
from .page import Words, percent, read_in, words_in
from .store import Reader, Store
from .store.claims import StoredClaims
from .store.views import Filters, GapView

PERIODS: Mapping[str, float] = {"daily": 86_400.0, "weekly": 604_800.0}
"""Length of each period in seconds."""
_MONDAY_S = 4 * 86_400.0
"""The first Monday after the epoch, with which weeks begin."""
MOST_LINES = 5
_PAUSE_S = 60.0
"""Seconds between two attempts to post a digest."""


class Digest:
    """Prints a digest at the end of every day or week, in UTC, and posts it; at the start, if it was missed.

    Args:
        period: One of `PERIODS`.
        reader: Reads the store.
        heard: Returns the received requests of each service, by outcome.
        changes: Returns the changes of quality.
        clock: Seconds since the epoch.
        say: Outputs the text; None: print it.
        post: Posts the text, and is called again later if it raises NotTakenError; None: do not post.
        claims: Decide which of several servers on one store sends it, once; None: a single server.
        language: Its language.
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
        language: str = "en",
    ) -> None:
        self._period = period
        self._length_s = PERIODS[period]
        self._reader = reader
        self._heard = heard
        self._changes = changes
        self._clock = clock
        self._say = say or partial(print, flush=True)
        self._post = post
        self._claims = claims
        self._language = language
        self._waiting: str | None = None
        self._due = 0.0
        self._last_number: int | None = None

    def look(self) -> bool:
        """Print and post a digest that is due; return False: there is never more to do at once.

        Raises:
            DeliveryError: The digest was refused for good.
        """
        number = int((self._clock() - _MONDAY_S) // self._length_s)
        end = number * self._length_s + _MONDAY_S
        since = end - self._length_s
        last, self._last_number = self._last_number, number
        is_due = last is not None and number > last
        if last is None and self._claims is not None:
            # One of the time before this server started may be due: requests came in it.
            is_due = self._reader.requests(_period(since, end), limit=1).total > 0
        if is_due and self._is_mine(end):
            changes = self._changes()
            text = digest_of(self._reader, self._heard(), changes, since, end, self._language)
            self._say(text)
            self._waiting, self._due = text, 0.0
        if self._post is not None and self._waiting is not None and self._clock() >= self._due:
            text, self._waiting = self._waiting, None
            try:
                self._post(text)
            except NotTakenError as error:
                self._waiting, self._due = text, self._clock() + (error.pause_s or _PAUSE_S)
        return False

    def _is_mine(self, end: float) -> bool:
        """Return whether no other server on the store sends this digest; True if that is unknown."""
        if self._claims is None:
            return True
        try:
            claim = self._claims.claim_series(f"{self._period} digest", "digest", end, "")
            if claim is not None:
                self._claims.done(claim)
        except ClaimError:
            return True
        return claim is not None


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
    settings = read_settings()
    if url is None and settings.change_webhook is not None:
        url = settings.change_webhook.get_secret_value()
    post = None if url is None else ChangeWebhook(url, page=page_address(options, http_port)).digest
    claims = None if store is None else StoredClaims(store)
    language = options.language or settings.language
    return [Digest(period, reader, heard, changes, post=post, claims=claims, language=language).look]


def digest_of(
    reader: Reader,
    heard: Sequence[HeardService],
    changes: Sequence[Change],
    since: float,
    until: float,
    language: str = "en",
) -> str:
    """Return the digest between two moments, seconds since the epoch, as Markdown, in the page's words."""
    words = words_in(language)
    time_of_it = _period(since, until)
    health = reader.health(time_of_it)
    fell = [
        word_change(one, language)
        for one in (
            *(deployment_change(each, until) for each in health.deployments),
            *(each for each in changes if since <= each.at < until and each.kind != "version"),
        )
        if one is not None and one.kind != "recovered"
    ]
    gaps = [one for one in reader.gaps(time_of_it).gaps if one.state == "open"]
    with read_in("UTC", language):
        questions = [
            f"{one.question}: {words('count_bad', bad=one.bad.bad, of=one.bad.requests)}"
            for one in health.questions[:MOST_LINES]
        ]
        parts = {
            "what_fell": fell,
            "gaps": [_gap_line(one, words) for one in gaps[:MOST_LINES]],
            "worst_questions": questions,
            "heard_not_scored": [_heard_line(one, words) for one in heard if one.reasons and not one.scored],
        }
    text = [f"# ragmeter, {moment(since)} – {moment(until)}"]
    for heading, lines in parts.items():
        none = words["quiet" if heading == "what_fell" else "chunks_none"]
        text += [f"\n## {words[heading]}\n", *([f"- {' '.join(one.split())}" for one in lines] or [none])]
    return "\n".join(text)


def _period(since: float, until: float) -> Filters:
    return Filters(since_ms=int(since * 1000), until_ms=int(until * 1000))


def _gap_line(gap: GapView, words: Words) -> str:
    share = words(
        "gap_share", lower=percent(gap.lower), upper=percent(gap.upper), elsewhere=percent(gap.elsewhere)
    )
    badly = words("asked_badly", n=gap.n_bad)
    return f"{gap.name or gap.id}: {badly} ({share}). {words[f'lacks_{gap.diagnosis}']}"


def _heard_line(one: HeardService, words: Words) -> str:
    reason = max(one.reasons, key=lambda each: one.reasons[each])
    why = " ".join(part for part in (words.name("heard", reason), one.fix) if part)
    return f"{one.service or '–'}: {words('heard_none', n=one.traces)}. {why}"
