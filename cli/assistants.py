"""The command ``ragmeter mcp`` and its options. `app` adds it to the others; `mcp` has the tools."""

from __future__ import annotations

import os
from pathlib import Path

from ragmeter.metrics import ConfigurationError

from ._docstring_options import options_from_docstring
from ._ending import exit_with_line

__all__ = ["mcp"]

_TOKENS = ("RAGMETER_SERVE_VIEW_TOKEN", "RAGMETER_SERVE_TOKEN")


@options_from_docstring
def mcp(url: str = "http://127.0.0.1:4318", token_file: Path | None = None, texts: bool = False) -> None:
    """Serve tools for assistants over the Model Context Protocol, on standard input and output.

    It reads the API of a running `ragmeter serve`, and only reads. Needs the extra mcp.

    Args:
        url (URL): The address of `ragmeter serve`.
        token_file (FILE): The token for viewers. (default: RAGMETER_SERVE_VIEW_TOKEN, else
            RAGMETER_SERVE_TOKEN)
        texts: Include questions, answers and chunks: the assistant sends them to its model.
    """
    with exit_with_line():
        from .mcp._reading import ServerApi
        from .mcp.server import tools

        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"--url is {url!r}; write http://HOST:PORT")
        tools(ServerApi(url, _token(token_file), texts=texts)).run(transport="stdio")


def _token(file: Path | None) -> str | None:
    if file is None:
        return next((value for name in _TOKENS if (value := os.environ.get(name))), None)
    try:
        return file.read_text("utf-8").strip() or None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--token-file: cannot read {str(file)!r}: {error}") from None
