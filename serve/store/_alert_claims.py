"""`StoredClaims`: which server notifies of a change; a row for each one found, written before it is sent.

Several servers on one database find the same change, each a little earlier or later.  The first writes it down,
and the others see that it stands there.  Its writer has the claim for a while, and sends the
notification; after that any server may take the claim over, so that it is sent even if the first is killed.
The body is JSON that means nothing here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager

from ._database import Database

LEASE_S = 180.0
"""Seconds that a server has to send one, from when it claims, and again from when it begins, and each time that
it offers it to a webhook again: those are a minute apart at most."""
SAME_S = 43_200.0
"""Seconds within which two servers that find a series changed in the same way have found the same change. One
server alone finds it fallen again after a day at the earliest, or when it had recovered in between."""
_KEPT_MS = 30 * 86_400_000
"""Milliseconds for which it is known that a change was sent."""


class StoredClaims:
    """The claims in a store. Thread-safe; each call is a transaction, and raises `StoreFullError` as others do.

    Args:
        writing: Begins a transaction, one at a time of all servers.
        clock: Seconds since the epoch; those of several servers may differ by much less than `LEASE_S`.
    """

    def __init__(
        self,
        writing: Callable[[], AbstractContextManager[Database]],
        clock: Callable[[], float],
    ) -> None:
        self._writing = writing
        self._clock = clock

    def claim(self, series: str, kind: str, at: float, body: str) -> str | None:
        """Return a claim to send a change; None: another server has claimed or sent it.

        Args:
            series: Names what changed, up to 100 characters.
            kind: In which way: of two changes of one kind with none of another in between, `SAME_S` apart at
                most, the later one is the same.
            at: When it was found, seconds since the epoch, by the time of what it was found in.
            body: What is to be sent.
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

    def left(self) -> list[tuple[str, str]]:
        """Return what others claimed and did not send in time, each with a claim that is the caller's now."""
        with self._writing() as database:
            found = database.execute(
                "SELECT claim, body FROM telling WHERE told IS NULL AND until <= ? ORDER BY at, claim",
                (self._now_ms(),),
            ).fetchall()
            taken = [(uuid.uuid4().hex, claim, body) for claim, body in found]
            for new, claim, _ in taken:
                database.execute(
                    "UPDATE telling SET claim = ?, until = ? WHERE claim = ?",
                    (new, self._lease_ms(), claim),
                )
        return [(new, body) for new, _, body in taken]

    def hold(self, claim: str) -> bool:
        """Return whether a claim is the caller's still, and keep it for as long again."""
        with self._writing() as database:
            mine = database.execute(
                "SELECT 1 FROM telling WHERE claim = ? AND told IS NULL", (claim,)
            ).fetchone()
            if mine:
                database.execute(
                    "UPDATE telling SET until = ? WHERE claim = ?", (self._lease_ms(), claim)
                )
        return bool(mine)

    def done(self, claim: str) -> None:
        """Record that the alert was sent, and delete claims older than a month."""
        now = self._now_ms()
        with self._writing() as database:
            database.execute("UPDATE telling SET told = ? WHERE claim = ?", (now, claim))
            database.execute("DELETE FROM telling WHERE at < ?", (now - _KEPT_MS,))

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _lease_ms(self) -> int:
        return self._now_ms() + int(LEASE_S * 1000)
