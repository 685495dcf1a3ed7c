"""`SharedClaims`: of several servers on one store, one sends the alert for a change (`ragmeter.watch.notify`).

It decides which changes are the same, and converts them to and from the store's claims.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ragmeter.watch.notify import ClaimError
from ragmeter.watch.watch import ChangeNotice

from .store import Store, StoreFullError

_log = logging.getLogger("ragmeter")


class SharedClaims:
    """The claims of all servers on a store: a `ragmeter.watch.notify.NoticeClaims`."""

    def __init__(self, store: Store) -> None:
        self._claims = store.claims()

    def claim(self, notice: ChangeNotice) -> str | None:
        """Return the claim to send the alert for a change, or None if another server has it."""
        series, kind = _change_key(notice)
        with _known():
            return self._claims.claim(series, kind, notice.change.at, notice.to_json())

    def left(self) -> list[tuple[str, ChangeNotice]]:
        """Take over the claims of other servers whose alerts were not sent in time."""
        with _known():
            left = self._claims.left()
        read = [(claim, _read(body)) for claim, body in left]
        return [(claim, notice) for claim, notice in read if notice is not None]

    def hold(self, claim: str) -> bool:
        """Return whether this server still owns a claim; if so, renew its lease."""
        with _known():
            return self._claims.hold(claim)

    def done(self, claim: str) -> None:
        """Record that the alert was sent."""
        with _known():
            self._claims.done(claim)


@contextmanager
def _known() -> Iterator[None]:
    try:
        yield
    except StoreFullError as error:
        raise ClaimError(str(error)) from error


def _read(body: str) -> ChangeNotice | None:
    try:
        return ChangeNotice.from_json(body)
    except ValueError:
        _log.warning("a change that another server has found is of a version not known here")
        return None


def _change_key(notice: ChangeNotice) -> tuple[str, str]:
    """Return the name of the changed series, and the kind of the change.

    A fall and a change of the mix are one kind, as the segments may look slightly different to each server.
    """
    change = notice.change
    judge = change.kind == "judge"
    about = [
        sorted(notice.resource.items()), change.service, change.workflow, change.score, change.segment, judge,
    ]  # fmt: skip
    series = hashlib.blake2b(json.dumps(about).encode(), digest_size=16).hexdigest()
    return series, "better" if change.kind == "recovered" else "worse"
