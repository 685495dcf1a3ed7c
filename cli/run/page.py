"""The page of ``ragmeter serve`` on this machine, of a running server or of a new one that stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

from ragmeter.metrics import ConfigurationError

PORTS = range(4318, 4328)
"""Ports to search for a page; a new one is started on the first free port."""
START_S = 60.0
"""Seconds to wait for a server's answer."""


class PageAddress(NamedTuple):
    """The page's address."""

    url: str
    """URL without a slash at the end."""
    started: int | None
    """Process id of the started server; None: it was running already."""


def page_on_this_machine() -> PageAddress:
    """Return the page, started if none is running.

    Raises:
        ConfigurationError: It cannot be started; the message has the reason.
        MissingDependencyError: The extra ``serve`` is not installed.
    """
    from ragmeter.serve import Server  # noqa: F401, PLC0415 -- names a missing package before a process is started

    for port in PORTS:
        url = f"http://127.0.0.1:{port}"
        answer = _health(url)
        if answer == "page":
            return PageAddress(url, None)
        if answer == "free":
            return PageAddress(url, _start(port, url))
    raise ConfigurationError(
        f"other programs listen on the ports {PORTS[0]} to {PORTS[-1]} of 127.0.0.1; start the page on another "
        "one, ragmeter serve --http-port 0, and send there: ragmeter run --otlp URL"
    )


def _health(url: str) -> str:
    """Return the kind of listener: ``page``, ``other``, or ``free`` if there is none."""
    try:
        with build_opener(ProxyHandler({})).open(f"{url}/healthz", timeout=5) as answer:
            state = json.loads(answer.read(1_000_000))
    except HTTPError:
        return "other"
    except URLError as error:
        return "free" if isinstance(error.reason, ConnectionRefusedError) else "other"
    except (OSError, ValueError):
        return "other"
    return "page" if isinstance(state, dict) and {"status", "durable"} <= set(state) else "other"


def _start(port: int, url: str) -> int:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    with tempfile.TemporaryFile() as said:
        server = subprocess.Popen(  # noqa: S603 -- our own
            [sys.executable, "-m", "ragmeter", "serve", "--http-port", str(port), "--grpc-port", "0"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,  # Ctrl-C is meant for the program
        )
        give_up = time.monotonic() + START_S
        while _health(url) != "page":
            if server.poll() is not None or time.monotonic() > give_up:
                server.kill()
                said.seek(0)
                lines = said.read().decode(errors="replace").strip().split("\n")
                raise ConfigurationError(f"the page could not be started: {lines[-1]}")
            time.sleep(0.1)
    return server.pid
