"""``ragmeter demo --page``: the demo's requests on the page of ``ragmeter serve``, until a signal ends it."""

from __future__ import annotations

from ragmeter.serve import ServeOptions, Server
from ragmeter.serve.store import StoreOptions

from .run import DemoOutcome


def server_with(outcome: DemoOutcome) -> Server:
    """Return a server on free ports of this machine, not yet started, with the demo's requests in its store.

    They are stored with their texts, which are the demo's own, in a temporary file that is deleted with the
    server.
    """
    server = Server(ServeOptions(http_port=0, grpc_port=0, store=StoreOptions()))
    if server.store is not None:
        server.store.export([asked.run for asked in outcome.asked if asked.run is not None])
    return server
