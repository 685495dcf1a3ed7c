"""Servers that find the same change, and one that is killed before it reports: on any store."""

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from stored import kept_at

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.quality.estimates import Estimate
from ragmeter.serve.store import Store, StoreOptions
from ragmeter.serve.store.claims import StoredClaims
from ragmeter.watch.change import Change
from ragmeter.watch.notify import Notifier
from ragmeter.watch.watch import ChangeNotice

NOW = 1_800_000_000.0
PATIENCE_S = 60.0
_MEAN = Estimate(mean=0.5, lower=0.4, upper=0.6, n_requests=90, n_judged=90, method="all")


def fall(**given):
    """Return a fall that some server has found."""
    resource = given.pop("resource", {"service.name": "shop"})
    values = {
        "score": "goodness", "workflow": "qa", "segment": "language:zh", "service": "shop", "since": NOW - 3_600.0,
        "at": NOW, "before": replace(_MEAN, mean=0.8, upper=0.9), "now": _MEAN, "evidence": 3.0, "kind": "fell",
    }  # fmt: skip
    return ChangeNotice(Change(**values | given), resource)


class Clock:
    """Seconds since the epoch, which a test moves."""

    def __init__(self, now=NOW):
        self.now = now

    def __call__(self):
        return self.now


class Teller:
    """Stores reported changes."""

    def __init__(self):
        self.told = []

    def changed(self, change, said, resource):
        del said
        self.told.append(ChangeNotice(change, dict(resource)))


@contextmanager
def telling(claims, clock, webhook=None):
    """Yield the part of a server that reports to people."""
    teller, errors = Teller(), ErrorLog()
    made = Notifier([teller], Guard("changes", errors), clock, webhook)
    made.claim_by(claims)

    def wait():
        assert made.flush(time.monotonic() + PATIENCE_S)
        assert made.settle(time.monotonic() + PATIENCE_S)
        assert not errors.counts

    try:
        yield SimpleNamespace(telling=made, told=teller.told, wait=wait)
    finally:
        made.close()


@contextmanager
def server(place, clock):
    """Yield the reporting part of a server on a store."""
    store = Store(StoreOptions(**kept_at(place)), clock=clock)
    try:
        with telling(StoredClaims(store), clock) as made:
            yield made
    finally:
        store.close()


def killed_before_it_told(place):
    """Have another process find the fall, claim it, and be killed just before its report."""
    ended = subprocess.run(
        [sys.executable, __file__, str(place), type(place).__name__], timeout=120, check=False
    )
    assert ended.returncode == -signal.SIGKILL


class _Killer:
    def changed(self, *_):
        signal.raise_signal(signal.SIGKILL)


if __name__ == "__main__":
    address, kind = sys.argv[1:]
    found = StoreOptions(url=address) if kind == "str" else StoreOptions(path=Path(address))
    doomed = Notifier([_Killer()], Guard("changes", ErrorLog()), Clock())
    doomed.claim_by(StoredClaims(Store(found, clock=Clock())))
    doomed.put_claimed(fall())
    doomed.flush(time.monotonic() + PATIENCE_S)
    sys.exit("nobody was told")
