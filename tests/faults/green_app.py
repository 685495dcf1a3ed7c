"""A WSGI application with manual calls, without a framework; served by gunicorn's greenlet workers in tests."""

import os

from ragmeter import Limits, RagMeter
from ragmeter.exporters.jsonl import JsonlExporter

meter = RagMeter(
    metrics=["retrieval_health"],
    exporters=[JsonlExporter(os.environ["SCORES"], include_content=True)],
    scoring=os.environ.get("SCORING", "thread"),
    limits=Limits(shutdown_timeout_s=20),
)


def app(environ, start_response):
    number = environ["PATH_INFO"].strip("/")
    if number.isdecimal():
        with meter.request(f"question {number}") as request:
            request.retrieved(["a", "b"])
            request.answered("c")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"answered"]
