"""`refuse_redirects`: keep the SDK's exporters from following redirects.

Depending on its version the SDK follows a redirect, with headers and texts, to any host, or counts it as a
success although nothing was accepted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import requests

_MISDIRECTED = 421
_PROVIDER = "OTEL_PYTHON_EXPORTER_OTLP_HTTP_"


def own_session() -> requests.Session | None:
    """Return a session that refuses redirects; None if the environment names a provider of sessions."""
    import requests  # noqa: PLC0415 -- 6 MB, for those who post

    if any(name.startswith(_PROVIDER) and os.environ[name] for name in os.environ):
        return None
    return refuse_redirects(requests.Session())


def refuse_redirects(session: requests.Session) -> requests.Session:
    """Turn redirects of a session into status 421: neither accepted nor retried."""
    session.hooks["response"].append(_refuse)
    return session


def _refuse(response: requests.Response, **_: Any) -> None:
    status = response.status_code
    if 300 <= status < 400:
        response.reason = f"status {status} points to another address, which is not followed"
        response.status_code = _MISDIRECTED
