"""Rendering of templates: Jinja with escaping on, and the headers of every page.

No text of a user can become code: everything is escaped, the content policy allows only scripts and styles
from this server's files, and Trusted Types forbid a script to write markup.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import resources

import jinja2
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from ragmeter.metrics.errors import install_command

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
FILE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Content policy of an exported page, which has its style sheet inline and no script."""
PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # With "no-referrer", browsers send forms without an origin ("Origin: null").
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer of the page."""
FILES = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
"""The files under ``/static/``, with their types."""


def _text(*path: str) -> str:
    return resources.files("ragmeter.serve.page").joinpath(*path).read_text("utf-8")


@cache
def _static_text(name: str) -> str:
    """Return a static file without comments and insignificant blanks."""
    text = re.sub("^ +(//.*)?", "", _text("static", name), flags=re.MULTILINE)
    if not name.endswith(".css"):
        return text
    return re.sub(r"/\*.*?\*/\n?| *([{};,]) *\n*|(?<=:) ", r"\1", text)


class _CompiledTemplates(jinja2.FileSystemBytecodeCache):
    """Compiled templates in this user's temporary folder, for the next start."""

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        with suppress(OSError):  # a full disk
            super().dump_bytecode(bucket)


def _compiled_templates() -> jinja2.BytecodeCache | None:
    """Return the cache of compiled templates, or None without a folder that only this user can access."""
    with suppress(OSError, RuntimeError):
        return _CompiledTemplates()
    return None


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        bytecode_cache=_compiled_templates(),
        loader=jinja2.FunctionLoader(lambda name: _text("templates", name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals["file"] = {name: _versioned_address(name) for name in FILES}
    environment.globals["style"] = lambda: Markup(_static_text("style.css"))  # noqa: S704 -- our own file
    environment.globals["file_policy"] = FILE_POLICY
    environment.globals["install"] = install_command
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(name: str) -> Markup:
    """Return a name that may be broken after its separators, and not within its words."""
    return Markup("<wbr>").join(re.split(r"(?<=[/_.:#&=?@+])(?=\w)", name))


def _versioned_address(name: str) -> str:
    """Return the address of a static file, which changes with its content, so that browsers can cache it."""
    digest = hashlib.blake2b(_static_text(name).encode(), digest_size=6).hexdigest()
    return f"/static/{name}?v={digest}"


def render(template: str, values: Mapping[str, object]) -> str:
    """Return a rendered template."""
    return _environment().get_template(template).render(values)


def respond(
    template: str, values: Mapping[str, object], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """Return a response with a page."""
    return HTMLResponse(
        render(template, values), status_code=status, headers={**PAGE_HEADERS, **(headers or {})}
    )


def static_file(name: str) -> Response | None:
    """Return a static file, or None if there is no such file."""
    if name not in FILES:
        return None
    headers = {**PAGE_HEADERS, "Cache-Control": "private, max-age=31536000, immutable"}
    return Response(_static_text(name), media_type=FILES[name], headers=headers)
