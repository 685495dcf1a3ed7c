"""A WSGI application whose meter and chain are made once, before gunicorn forks.

    gunicorn --preload --workers 4 gunicorn_preload:application

Needs gunicorn. Each worker gets threads of its own, and scores and exports its own requests only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from shop import build_chain

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

meter = RagMeter.from_env()
chain = build_chain().with_config(callbacks=[RagMeterCallbackHandler(meter)], run_name="help_desk")


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one question."""
    question = parse_qs(environ["QUERY_STRING"])["question"][0]
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return [chain.invoke(question).encode()]
