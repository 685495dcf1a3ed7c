"""`StoredClaims`: which of several servers sends the alert for a change; claims are rows, committed first.

Several servers on one database detect the same change at slightly different times. The first one stores a
claim, and the others see it. The owner of a claim has `LEASE_S` seconds to send the alert; after that any
server may take the claim over, so that the alert is sent even if the first server is killed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from ragmeter.watch.notify import ClaimError
from ragmeter.watch.watch import ChangeNotice

from ._database import Database
from .store import Store, StoreFullError

_log = logging.getLogger("ragmeter")

LEASE_S = 180.0
"""Seconds that a server has to send an alert. They start again when it begins to send, and with each retry of
a webhook; retries are at most a minute apart. Clocks of several servers must differ by much less."""
SAME_S = 43_200.0
"""Seconds within which two findings of one kind about a series are the same change. A single server detects
another fall after a day at the earliest, or once the series has recovered in between."""
_KEPT_MS = 30 * 86_400_000
"""Retention of claims, in milliseconds."""


class StoredClaims:
    """The claims of all servers on a store: a `ragmeter.watch.notify.NoticeClaims`. Thread-safe.

    Each call is a transaction, and may raise `ClaimError`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def claim(self, notice: ChangeNotice) -> str | None:
        """Return a claim to send the alert for a change, or None if another server has claimed or sent it."""
        change = notice.change
        judge = change.kind == "judge"
        about = [
            sorted(notice.resource.items()),
            *(change.service, change.workflow, change.score, change.segment, judge),
        ]
        series = hashlib.blake2b(json.dumps(about).encode(), digest_size=16).hexdigest()
        # A fall and a change of the mix are one kind, as segments may look slightly different to each server.
        kind = "better" if change.kind == "recovered" else "worse"
        return self.claim_series(series, kind, change.at, notice.to_json())

    def claim_series(self, series: str, kind: str, at: float, body: str) -> str | None:
        """Return a claim to send something about a series, or None as `claim` does.

        Args:
            series: Name of the series, up to 100 characters.
            kind: Kind of the finding. Two of one kind, at most `SAME_S` apart and without one of another kind
                in between, are the same.
            at: Time of the finding in the data, seconds since the epoch.
            body: The text to send.
        """
        at_ms, around_ms = int(at * 1000), int(SAME_S * 1000)
        with self._writing() as database:
            found = database.execute(
                "SELECT kind, at FROM telling WHERE series = ? AND at > ? AND at < ?",
                (series, at_ms - around_ms, at_ms + around_ms),
            ).fetchall()
            others = [when for other, when in found if other != kind]
            for same in [when for other, when in found if other == kind]:
                if not any(min(same, at_ms) < other < max(same, at_ms) for other in others):
                    return None
            claim = uuid.uuid4().hex
            database.execute(
                "INSERT INTO telling (claim, series, kind, at, body, until) VALUES (?, ?, ?, ?, ?, ?)",
                (claim, series, kind, at_ms, body, self._lease_ms()),
            )
        return claim

    def left(self) -> list[tuple[str, ChangeNotice]]:
        """Take over the expired claims of all servers; return each one's new claim and notice."""
        with self._writing() as database:
            found = database.execute(
                "SELECT claim, body FROM telling WHERE told IS NULL AND until <= ? ORDER BY at, claim",
                (self._now_ms(),),
            ).fetchall()
            taken = [(uuid.uuid4().hex, claim, body) for claim, body in found]
            database.executemany(
                "UPDATE telling SET claim = ?, until = ? WHERE claim = ?",
                [(new, self._lease_ms(), claim) for new, claim, _ in taken],
            )
        read = [(new, _read(body)) for new, _, body in taken]
        return [(claim, notice) for claim, notice in read if notice is not None]

    def hold(self, claim: str) -> bool:
        """Return whether the caller still owns a claim; if so, renew its lease."""
        with self._writing() as database:
            mine = database.execute(
                "SELECT 1 FROM telling WHERE claim = ? AND told IS NULL", (claim,)
            ).fetchone()
            if mine:
                database.execute("UPDATE telling SET until = ? WHERE claim = ?", (self._lease_ms(), claim))
        return bool(mine)

    def done(self, claim: str) -> None:
        """Record that the alert was sent, and delete claims older than a month."""
        now = self._now_ms()
        with self._writing() as database:
            database.execute("UPDATE telling SET told = ? WHERE claim = ?", (now, claim))
            database.execute("DELETE FROM telling WHERE at < ?", (now - _KEPT_MS,))

    @contextmanager
    def _writing(self) -> Iterator[Database]:
        try:
            with self._store.small_change() as database:
                yield database
        except StoreFullError as error:
            raise ClaimError(str(error)) from error

    def _now_ms(self) -> int:
        return int(self._store.clock() * 1000)

    def _lease_ms(self) -> int:
        return self._now_ms() + int(LEASE_S * 1000)


def _read(body: str) -> ChangeNotice | None:
    try:
        return ChangeNotice.from_json(body)
    except ValueError:
        _log.warning("a change that another server has found is of a version not known here")
        return None
