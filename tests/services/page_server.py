"""The page of `ragmeter serve` on a separate port, made of a test's sources."""

import socket
import threading
from contextlib import contextmanager
from dataclasses import replace

import uvicorn
from starlette.applications import Starlette

from ragmeter.serve.page import Pages


@contextmanager
def shown(sources):
    """Serve a page for the block; enter it with the page's address."""
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    ended = threading.Event()
    pages = Pages(replace(sources, http_address=url, ended=ended.is_set))
    config = uvicorn.Config(
        Starlette(routes=pages.routes()), log_config=None, lifespan="off", timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield url
    finally:
        ended.set()
        server.should_exit = True
        thread.join(60)
        pages.close()
        listening.close()
