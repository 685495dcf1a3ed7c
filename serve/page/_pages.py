"""The routes of the page, and their endpoints.

Nothing is computed on the event loop: a view's data is read on the page's own threads, once for all viewers
of the same view. GET changes nothing but a cookie for language, theme and keys.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.concurrency import iterate_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

import ragmeter
from ragmeter.exporters.change_words import LANGUAGES
from ragmeter.metrics.text.languages import language_of
from ragmeter.quality.verdict_rates import VerdictRate
from ragmeter.serve.store import UnreadableStoreError
from ragmeter.serve.store.views import InvalidQueryError

from ._asked import RANGES, SETTINGS, UNNAMED, PageQuery, page_query_of, request_path
from ._export import lines
from ._labels import MOST_FORM_BYTES, Form, NotSavedError, form_of, read_fields
from ._live import Live
from ._numbers import clock, count, interval, money, number, percent, read_in, reader_zone, timestamp
from ._rendering import PAGE_HEADERS, respond, static_file
from ._snapshots import SHOWN, Snapshots
from ._sources import Sources
from ._views import Views
from ._words import Words, chosen_language, words_in

_spoken = lru_cache(maxsize=4096)(language_of)
READERS = 2
"""Threads that read the store for the page."""
RETRY_AFTER_S = 5
"""Seconds until a retry is worthwhile if the store cannot be read."""
LIGHT_MS = 60_000
"""Milliseconds without a request after which the page reports a lack of traffic."""
CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
NAVIGATION = (
    ("/", "overview"),
    ("/requests", "requests"),
    ("/gaps", "gaps"),
    ("/corpus", "corpus"),
    ("/conversations", "conversations"),
    ("/connect", "connect"),
)
"""The pages in the navigation, with the keys of their names."""
RANGED = ("/", "/requests", "/scoring", "/conversations")
"""The pages of a period: they offer a choice of it and of the service, and refresh themselves."""
_COOKIE_S = 365 * 86_400
_TALL = 2_000
"""Characters of a whole text above which it scrolls by itself, as what follows would be out of sight."""


class Pages:
    """The routes of the page."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._snapshots = Snapshots(sources.reader.revision)
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="ragmeter-page")
        self._views = Views(sources, self._snapshots, self._threads)
        self._token = secrets.token_urlsafe(24)
        """Token of forms, which other sites cannot know."""
        self._live = Live(self._revision, sources.ended)

    def routes(self) -> list[Route]:
        """Return the routes."""
        one = [
            route
            for path in ("/request/{trace}", "/request/{trace}/{span}")
            for route in (
                Route(f"{path}/label", self._form(self._label), methods=["POST"]),
                Route(f"{path}/export.html", self._page(partial(self._one, export=True))),
                Route(path, self._page(self._one)),
            )
        ]
        return [
            Route("/", self._page(self._overview)),
            *(
                Route(path, self._page(partial(self._view, path, view)))
                for path, view in (
                    ("/requests", self._views.requests),
                    ("/connect", self._views.connect),
                    ("/gaps", self._views.gaps),
                    ("/corpus", self._views.corpus),
                    ("/conversations", self._views.conversations),
                    ("/scoring", self._views.scoring),
                    ("/golden", self._views.golden),
                )
            ),
            Route("/gaps/{gap}", self._form(self._decide_gap), methods=["POST"]),
            Route("/golden.jsonl", self._page(self._golden_file)),
            Route("/export.html", self._page(self._export_page)),
            Route("/export.jsonl", self._page(self._export_rows)),
            *one,
            Route("/trace/{trace}", self._page(self._one)),
            Route("/live", self._live.endpoint),
            Route("/static/{name}", self._static),
            Route("/favicon.ico", self._static),
            Route("/{page}", self._page(lambda request, _: self._message(request, 404, "gone"))),
        ]

    def rate(self, word: str | None) -> VerdictRate | None:
        """Return the share of requests of a verdict that people call bad; None: too few labels."""
        labels = self._sources.labels
        return None if labels is None else labels.rate(word)

    def _revision(self) -> int:
        """Return a number that grows when requests were stored, or received and not stored."""
        heard = sum(one.traces for one in self._sources.heard())
        return self._sources.reader.revision() + heard

    def close(self) -> None:
        """End the threads, without waiting for a view in progress."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _page(self, make: Callable[[Request, PageQuery], Response]) -> Callable[[Request], Any]:
        """Return the endpoint of a page that is built on a thread."""

        async def endpoint(request: Request) -> Response:
            response = await self._respond(request, lambda: make(request, page_query_of(request.query_params)))
            for name, allowed in SETTINGS.items():
                if request.query_params.get(name) in allowed:
                    response.set_cookie(
                        name, request.query_params[name], max_age=_COOKIE_S, httponly=True, samesite="strict"
                    )
            return response

        return endpoint

    def _form(self, save: Callable[[Request, Mapping[str, str]], Response]) -> Callable[[Request], Any]:
        """Return the endpoint of a form, whose fields are saved on a thread."""

        async def endpoint(request: Request) -> Response:
            fields = await self._fields(request)
            if isinstance(fields, Response):
                return fields
            return await self._respond(request, lambda: save(request, fields))

        return endpoint

    async def _respond(self, request: Request, make: Callable[[], Response]) -> Response:
        """Return the result of `make` on the page's threads, or a page about its failure."""

        def run_guarded() -> Response | None:
            with self._sources.guard:
                return self._readable(request, make)
            return None  # the guard has contained the error

        response = await asyncio.get_running_loop().run_in_executor(self._threads, run_guarded)
        return response or self._failure_page(request)

    def _readable(self, request: Request, make: Callable[[], Response]) -> Response:
        """Return the result of `make`, or a page with the reason why the address cannot be read."""
        with read_in(request.cookies.get("zone"), self._t(request).language):
            shown = None
            try:
                shown = SHOWN.set(self._revision())
                return make()
            except InvalidQueryError as error:
                return self._message(request, 400, "bad_address", why=self._t(request).query_error(str(error)))
            except UnreadableStoreError:
                answer = self._failure_page(request, "store_away", status=503)
                answer.headers["Retry-After"] = str(RETRY_AFTER_S)
                return answer
            finally:
                if shown is not None:
                    SHOWN.reset(shown)

    def _view(
        self,
        path: str,
        view: Callable[[PageQuery, Words], Mapping[str, Any]],
        request: Request,
        asked: PageQuery,
    ) -> Response:
        """Return a page with the values that `view` returns, by the template with the page's name."""
        values = {
            "form_token": "" if self._sources.decide_gap is None else self._token,
            **view(asked, self._t(request)),
        }
        return self._render_page(request, asked, f"{path[1:]}.html", path, values)

    def _overview(self, request: Request, asked: PageQuery) -> Response:
        if self._views.is_first(asked):
            return self._view("/connect", self._views.connect, request, asked)
        return self._render_page(
            request, asked, "overview.html", "/", self._views.overview(asked, self._t(request))
        )

    def _golden_file(self, request: Request, _: PageQuery) -> Response:
        labels = self._sources.labels
        if labels is None:
            return self._message(request, 404, "gone", why=self._t(request)("labels_off"))
        headers = {**PAGE_HEADERS, "Content-Disposition": 'attachment; filename="golden.jsonl"'}
        return Response(labels.golden.content(), media_type="application/jsonl", headers=headers)

    def _one(
        self,
        request: Request,
        asked: PageQuery,
        *,
        form: Form | None = None,
        problem: str = "",
        export: bool = False,
    ) -> Response:
        trace, span = _trace_and_span(request)
        words = self._t(request)
        values = self._views.request(trace, span, asked, words)
        if values is None:
            why = words("unknown_trace_how", s=f"{self._sources.wait_s:g}")
            return self._message(request, 404, "unknown_trace", code=trace, why=why, again=True)
        path = f"/request/{trace}" + (f"/{span}" if span else "")
        values |= {
            "form_token": self._token if self._sources.labels is not None else "",
            "form_action": asked.link(f"{path}/label"),
            "export_address": f"{path}/export.html",
            "form": form or values["form"],
            "problem": problem,
            "saved": request.query_params.get("saved") == "1",
        }
        status = 200 if not problem else 400
        return self._render_page(request, asked, "request.html", path, values, status=status, export=export)

    def _export_page(self, request: Request, asked: PageQuery) -> Response:
        if asked.sort:
            values = self._views.requests(asked, self._t(request))
            return self._render_page(request, asked, "requests.html", "/requests", values, export=True)
        values = self._views.overview(asked, self._t(request))
        return self._render_page(request, asked, "overview.html", "/", values, export=True)

    def _export_rows(self, _: Request, asked: PageQuery) -> Response:
        rest = lines(self._sources.reader, asked.filters(), asked.sort or "worst")
        rows = chain(list(islice(rest, 1)), rest)  # invalid filters raise with the first row
        headers = {**PAGE_HEADERS, "Content-Disposition": 'attachment; filename="requests.jsonl"'}
        return StreamingResponse(iterate_in_threadpool(rows), media_type="application/jsonl", headers=headers)

    async def _fields(self, request: Request) -> Mapping[str, str] | Response:
        """Return the fields of a form, or a refusal."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            return Response("a form is application/x-www-form-urlencoded\n", 415, PAGE_HEADERS)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_FORM_BYTES:
                return Response("the form is too long\n", 413, PAGE_HEADERS)
        try:
            return read_fields(body)
        except ValueError:
            return Response("too many fields\n", 400, PAGE_HEADERS)

    def _is_own(self, fields: Mapping[str, str]) -> bool:
        """Return whether a form has the token of this server's forms."""
        return hmac.compare_digest(fields.get("form", "").encode(), self._token.encode())

    def _decide_gap(self, request: Request, fields: Mapping[str, str]) -> Response:
        gap, decide = request.path_params["gap"], self._sources.decide_gap
        if decide is None or not self._is_own(fields):
            return self._message(request, 403, "not_done", why=self._t(request)("form_expired"))
        try:
            decide(gap, fields.get("state", ""))
        except ValueError as error:
            return self._message(request, 400, "not_done", why=self._t(request).query_error(str(error)))
        back = page_query_of(request.query_params).link("/gaps")
        return RedirectResponse(f"{back}#g{gap}", 303, headers=PAGE_HEADERS)

    def _label(self, request: Request, fields: Mapping[str, str]) -> Response:
        labels, form, words = self._sources.labels, form_of(fields), self._t(request)
        trace, span = _trace_and_span(request)
        view = self._sources.reader.request(trace, span)
        asked = page_query_of(request.query_params)
        if labels is None or view is None:
            return self._message(request, 404, "gone")
        if not self._is_own(fields):
            refused = self._one(request, asked, form=form, problem=words("form_expired"))
            refused.status_code = 403
            return refused
        try:
            labels.save(view, form)
        except NotSavedError as error:
            return self._one(request, asked, form=form, problem=words(str(error)))
        except OSError as error:
            return self._one(request, asked, form=form, problem=error.strerror or str(error))
        back = asked.link(f"/request/{trace}" + (f"/{span}" if span else ""))
        saved = "&saved=1" if "?" in back else "?saved=1"
        return RedirectResponse(back + saved, 303, headers=PAGE_HEADERS)

    async def _static(self, request: Request) -> Response:
        name = request.path_params.get("name", "icon.svg")
        return static_file(name) or Response("no such file\n", 404, PAGE_HEADERS)

    def _t(self, request: Request) -> Words:
        if "language" not in request.scope:
            request.scope["language"] = chosen_language(
                request.query_params.get("lang"),
                request.cookies.get("lang"),
                request.headers.get("accept-language", ""),
            )
        return words_in(request.scope["language"])

    def _message(
        self,
        request: Request,
        status: int,
        heading: str,
        *,
        code: str = "",
        why: str = "",
        again: bool = False,
        light: tuple[str, str] | None = None,
    ) -> Response:
        values = {"heading": self._t(request)(heading), "code": code, "why": why, "lively": again}
        return self._render_page(request, PageQuery(), "message.html", "", values, status=status, light=light)

    def _failure_page(self, request: Request, what: str = "failed_here", *, status: int = 500) -> Response:
        """Return the page about a failure of the server or the store, without reading anything."""
        words = self._t(request)
        why = words("store_away_how" if what == "store_away" else "failed_how")
        return self._message(request, status, what, why=why, again=True, light=("off", words(what)))

    def _render_page(
        self,
        request: Request,
        asked: PageQuery,
        template: str,
        here: str,
        values: Mapping[str, Any],
        *,
        status: int = 200,
        export: bool = False,
        light: tuple[str, str] | None = None,
    ) -> Response:
        words = self._t(request)
        now_ms = self._sources.clock() * 1000
        light_kind, light_text = light or self._light(words, now_ms)
        origin = (self._sources.public_address or self._sources.http_address) if export else ""

        def link(path: str, **changes: str) -> str:
            return origin + asked.link(path, **changes)

        def request_link(row: Any) -> str:
            # The cursor of the list shows which requests are before and after it there.
            return link(request_path(row.trace_id, row.span_id, row.run_id), before=asked.before)

        def written(text: str | None, *, whole: bool = False) -> Markup:
            """Return the attributes of an element with a text: direction, language, scrolling if it is long."""
            code = _spoken(text or "")
            language = "" if code in (None, words.language) else Markup(' lang="{}"').format(code)
            scrolls = Markup(' class="tall" tabindex="0"') if whole and len(text or "") > _TALL else ""
            return Markup(' dir="auto"') + language + scrolls

        path, given = request.url.path, request.query_params.multi_items()

        def with_query(**changes: str) -> str:
            kept = [(name, one) for name, one in given if name not in (*changes, "saved")]
            return f"{path}?{urlencode([*kept, *changes.items()])}"

        context = {
            "t": words,
            "asked": asked,
            "link": link,
            "request_link": request_link,
            "with_query": with_query,
            "here": here,
            "ranges": RANGES,
            "languages": LANGUAGES,
            "theme": _setting(request, "theme"),
            "keys": _setting(request, "keys") != "off",
            "light": light_kind,
            "light_text": light_text,
            "navigation": NAVIGATION,
            "lively": here in (*RANGED, "/connect"),
            "ranged": here in RANGED,
            "narrowed": asked.in_force().keys() - {"service", "workflow", "seg", "since"},
            "services": self._views.services(asked) if here in RANGED else {},
            "when": lambda at_ms: timestamp(at_ms, now_ms),
            "time": lambda at_ms: clock(at_ms, now_ms),
            "shown": lambda name: "–" if name == UNNAMED else name,
            "unnamed": UNNAMED,
            "revision": SHOWN.get(""),
            "zone": reader_zone(now_ms),
            "number": number,
            "interval": interval,
            "whole": count,
            "percent": percent,
            "money": money,
            "spoken": _spoken,
            "written": written,
            "exported": "",
            "no_text": words("no_text_how", variable=f"{CAPTURE_VARIABLE}=true")
            if self._sources.keeps_texts
            else words("text_not_kept"),
            "http_address": self._sources.http_address,
            "grpc_address": self._sources.grpc_address,
            **values,
        }
        headers: dict[str, str] = {}
        if export:
            context["exported"] = self._export_note(words, asked, values)
            headers["Content-Disposition"] = 'attachment; filename="ragmeter.html"'
        return respond(template, context, status=status, headers=headers)

    def _light(self, words: Words, now_ms: float) -> tuple[str, str]:
        """Return the server's state as a class and in words: never a green light without traffic."""
        why = self._views.server_health().get("status", "ok")
        if why != "ok":
            return "off", words("refusing", why=why)
        last_ms = self._views.last_ms()
        if last_ms is not None and now_ms - last_ms < LIGHT_MS:
            return "on", words("receiving")
        return "idle", words("idle")

    def _export_note(self, words: Words, asked: PageQuery, values: Mapping[str, Any]) -> str:
        filters = ", ".join(f"{name}={value}" for name, value in asked.in_force().items())
        return words(
            "exported",
            at=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
            version=ragmeter.__version__,
            range=asked.range,
            filters=filters or words("filters_none"),
            texts=words("holds_texts" if values["holds_texts"] else "holds_no_texts"),
        )


def _trace_and_span(request: Request) -> tuple[str, str | None]:
    return request.path_params["trace"], request.path_params.get("span")


def _setting(request: Request, name: str) -> str:
    given = request.query_params.get(name) or request.cookies.get(name) or ""
    return given if given in SETTINGS[name] else ""
