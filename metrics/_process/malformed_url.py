"""Detects URLs whose password has a character that ends the host, so that parsers misread them.

For addresses of brokers and of Redis. Prints nothing of the URL.
"""

from __future__ import annotations

import re

SIGNS = "in user and password write %23 for #, %2F for /, %3F for ? and %40 for @"
"""The fix."""


def is_torn(url: str) -> bool:
    """Return whether a character in user or password ends the host of `url` too early."""
    host = re.split("[/?#]", url.partition("://")[2], maxsplit=1)[0]
    return bool(host) and "@" in url and "@" not in host
