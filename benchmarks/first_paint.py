"""Time to first paint of a page of `ragmeter serve`, in a real Chromium, with an hour's 1,500 requests stored.

``python benchmarks/first_paint.py``. The traffic, the driver and the browser are those of the service tests.
Each page is opened first in a server that was just started, with an empty browser cache, and then again: time
of the first paint (Paint Timing), bytes and requests of the first view, and requests to other hosts. Without
a Chromium, the only row says so.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environments import ROOT
from measure import Row, Settings, Worker, median, run, spread
from storing import HTTP
from storing import __file__ as server_script

NAME = "first_paint"
AIMED_COLD_MS, AIMED_WARM_MS = 1_000.0, 500.0
AIMED_BYTES, AIMED_REQUESTS = 100_000, 6
PAGES = {"overview": "/", "list": "/requests", "request": "/trace/{trace}", "scoring": "/scoring"}
PATIENCE_S = 60.0
TIMED = (
    "JSON.stringify({paint: performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime), "
    "loaded: [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
    ".map((one) => [one.name, one.transferSize])})"
)


@dataclass
class Seen:
    """The measurements of a page."""

    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    size: int = 0
    requests: int = 0
    foreign: int = 0


def seen(page: Any, url: str) -> Mapping[str, Any]:
    """Open an address and return its first paint in milliseconds, and its loaded resources."""
    page.call("Page.navigate", url=url)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if page.evaluate("location.href") == url and page.evaluate("document.readyState") == "complete":
            found: Mapping[str, Any] = json.loads(page.evaluate(TIMED))
            if found["paint"]:
                return found
        time.sleep(0.05)
    raise TimeoutError(f"{url} was not painted")


def stored(folder: Path, requests: int) -> tuple[Path, str]:
    """Return a store with an hour's requests, and the trace id of one of them."""
    from page_traffic import runs  # type: ignore[import-not-found]

    from ragmeter.serve.store import Store, StoreOptions

    path = folder / "hour.db"
    store, made = Store(StoreOptions(path=path)), runs(time.time(), requests)
    store.export(made)
    while store.maintain():
        pass
    store.close()
    return path, f"{made[requests // 2].run.trace_id:032x}"


def measured(browser: Any, path: Path, trace: str, rounds: int) -> dict[str, Seen]:
    """Return the measurements of each page."""
    found = {name: Seen() for name in PAGES}
    page = browser.open("about:blank")
    for _ in range(rounds):
        for name, address in PAGES.items():
            worker = Worker(server_script, HTTP, options={"path": str(path)})
            try:
                port, _ = worker.ask("ports")
                server, one = f"http://127.0.0.1:{port}", found[name]
                page.call("Network.clearBrowserCache")
                first = seen(page, server + address.format(trace=trace))
                one.cold.append(first["paint"][0])
                one.size = max(one.size, sum(size for _, size in first["loaded"]))
                one.requests = max(one.requests, len(first["loaded"]))
                others = [each for each, _ in first["loaded"] if not each.startswith(server)]
                one.foreign = max(one.foreign, len(others))
                page.call("Page.navigate", url="about:blank")
                one.warm.append(seen(page, server + address.format(trace=trace))["paint"][0])
            finally:
                worker.close()
    return found


def rows_of(found: Mapping[str, Seen], requests: int, hosts: Sequence[str]) -> list[Row]:
    """Return the rows: paints, then bytes and requests of the first views."""
    rows = []
    for name, one in found.items():
        for when, taken in (("cold", one.cold), ("warm", one.warm)):
            aimed = AIMED_WARM_MS if (name, when) == ("overview", "warm") else AIMED_COLD_MS
            rows.append(
                Row(NAME, f"first paint of {name} of {requests:,} requests, {when}", "ms", median(taken),
                    target=f"< {aimed:,.0f}", met=median(taken) < aimed, spread=spread(taken))
            )  # fmt: skip
    size, most = (max(getattr(one, part) for one in found.values()) for part in ("size", "requests"))
    foreign = max(sum(one.foreign for one in found.values()), len(set(hosts) - {"127.0.0.1"}))
    return [
        *rows,
        Row(NAME, "first view, the largest page", "KB", size / 1000, target=f"< {AIMED_BYTES // 1000}", met=size < AIMED_BYTES),
        Row(NAME, "first view, the most requests", "requests", most, target=f"≤ {AIMED_REQUESTS}", met=most <= AIMED_REQUESTS),
        Row(NAME, "first view, requests to anybody else", "requests", foreign, target="0", met=foreign == 0),
    ]  # fmt: skip


def benchmark(settings: Settings) -> list[Row]:
    """Return the rows."""
    sys.path.append(str(ROOT / "tests" / "services"))
    requests, rounds = (60, 1) if settings.quick else (1_500, 5)
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from chromium import Chromium  # type: ignore[import-not-found]
    except ImportError:
        executable = None
    if executable is None:
        said = "no Chromium here, or no websockets to drive it with: first paint was not measured"
        return [Row(NAME, "pages opened in a browser", "pages", 0.0, note=said)]
    with tempfile.TemporaryDirectory() as folder:
        path, trace = stored(Path(folder), requests)
        with Chromium(executable) as browser:
            found = measured(browser, path, trace, rounds)
            return rows_of(found, requests, sorted(filter(None, browser.hosts)))


if __name__ == "__main__":
    run(benchmark)
