"""The values of each page's template, from the store, the detectors and the server, once for all viewers."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics.registry import known_metrics, resolve_metrics
from ragmeter.quality.corpus.view import SeenChunk
from ragmeter.serve.store import GAPS_RANGE_S
from ragmeter.serve.store.health_views import HealthView
from ragmeter.serve.store.views import (
    ConversationView,
    FacetPage,
    Filters,
    JudgeOutage,
    Overview,
    RequestPage,
    RequestRow,
    ScoreSummary,
    TurnView,
)
from ragmeter.serve.store.views import TrendPoint as StoredPoint

from ._asked import PageQuery
from ._connect import SETUPS, connection_steps
from ._golden import GoldenEntry
from ._labels import Form
from ._news import Fallen, News, news
from ._numbers import money
from ._overview import (
    MOST_HEARD,
    heard_rows,
    lane_table,
    part_rows,
    question_rows,
    segment_name,
    segment_words,
    sentence,
    signal_rows,
    value_words,
)
from ._request import chunk_views, score_groups, score_lines, trace_links, what_to_do, why
from ._request_list import chips, facet_views, list_rows, timeline
from ._score_rows import score_rows
from ._snapshots import Snapshots
from ._sources import Sources
from ._strips import bar, histogram
from ._words import Words

ROWS = 50
"""Requests per page of the list."""
CONVERSATIONS = 20
"""Conversations on their page."""
TURNS = 3
"""Turns to show of each conversation: the first bad one between its neighbours."""
_DAY_MS = 86_400_000
_MISTAKES = ("grpc_on_http", "otlp_path", "tls_on_http")
"""Outcomes of exports that did not come to the right place, in the order of the page."""
HEALTH_S = 1.0
MOST_GAPS = 3
"""Most knowledge gaps in the overview."""
MOST_DEPLOYMENTS = 6
"""Most deployments in the overview."""
FAILING = 0.05
"""Share of judged requests without a score from which on the page reports that at its top."""
FIRST_SERVICES = 2
"""Services whose scores are shown at first."""
STATUSES = (
    "ok", "partial", "undefined", "missing_input", "skipped", "judge_error", "timeout", "metric_error",
)  # fmt: skip
REFERENCE_SCORES = frozenset(
    {
        "average_precision", "context_entity_recall", "context_precision", "context_recall", "f1",
        "hit_rate", "id_precision", "id_recall", "lexical_context_precision", "lexical_context_recall",
        "lexical_entity_recall", "ndcg", "precision", "rag_quest_eval_precision",
        "rag_quest_eval_recall", "recall", "reciprocal_rank", "right_documents_dropped",
        "right_documents_never_found", "rouge_l", "token_f1",
    }
)  # fmt: skip
"""Scores of ragmeter's own metrics that need a reference."""
_FIXES = {"missing_input": "fix_input", "judge_error": "fix_judge", "timeout": "fix_judge"}


_QUOTED_WORDS = 8
"""Words of a chunk by which its requests are searched."""


class Views:
    """Reads the values of the templates."""

    def __init__(self, sources: Sources, snapshots: Snapshots, threads: Executor) -> None:
        self._sources = sources
        self._snapshots = snapshots
        self._threads = threads
        self._server_health: Mapping[str, Any] = {}
        self._healthy_at = -math.inf

    def last_ms(self) -> float | None:
        """Return the arrival of the latest request, by this server's clock, or None if none has arrived."""
        return self._snapshots.get(self._sources.reader.last_ms)

    def server_health(self) -> Mapping[str, Any]:
        """Return the server's health, cached for a second, as a page reads it several times."""
        now = time.monotonic()
        if now - self._healthy_at > HEALTH_S:
            self._server_health, self._healthy_at = self._sources.health(), now
        return self._server_health

    def services(self, asked: PageQuery) -> Mapping[str, int]:
        """Return the services of the period, with their numbers of requests."""
        return self._services(replace(asked.filters(), service=None, workflow=None, segment=None, verdict=None))

    def overview(self, asked: PageQuery, words: Words) -> dict[str, Any]:
        """Return the values of the overview. Raises InvalidQueryError: the segment is unknown."""
        reader, overview, health = self._sources.reader, self._read(asked.filters()), self._health(asked)
        news, _ = self._news(asked, overview)
        judge = overview.judge
        failing = judge.failed >= max(1.0, FAILING * judge.requests)
        about = replace(asked.filters(), service=health.about)
        lines = [(name, line) for (_, name, _), line in self._trends(about).items()]
        bad = overview.verdicts.get("bad", 0)
        judged = sum(overview.verdicts.get(word, 0) for word in ("bad", "suspect", "good"))
        unscored = heard_rows(self._sources.heard(), asked.filters().service)
        status = str(self.server_health().get("status", "ok"))
        return {
            "overview": overview,
            "health": health,
            "lead": sentence(health.lead, words),
            # As reported, or else from the store.
            "told": [
                (one, one.change.new or self._snapshots.get(reader.explained, one.change).new)
                if one.kind == "fell"
                else (one, ())
                for one in news
            ],
            "standing": self._sources.standing(),
            "bad": (bad, judged),
            "refused": "" if status == "ok" else status,
            "overloads": self._overloads(overview),
            "judge_failing": failing,
            "outages": self._outages(asked, overview) if failing else (),
            "judge_money": _judge_money(overview),
            "dropped": sum(overview.dropped.values()),
            "segments": {
                name: segment_words(segment_name(name, overview.segments), words)
                for name in ("workflow", *overview.segments)
                if len(overview.segments.get(name, "ab")) > 1
            },
            "table": lane_table(health, overview, asked, words),
            "heard": unscored[:MOST_HEARD],
            "more_heard": len(unscored[MOST_HEARD:]),
            "questions": question_rows(health, asked, words),
            "parts": part_rows(health, words),
            "deployments": [(one, value_words(one, words)) for one in health.deployments[:MOST_DEPLOYMENTS]],
            "signals": signal_rows(health, lines, overview, words),
            "gaps": reader.known_gaps(asked.filters().service)[:MOST_GAPS],
            "shadows": reader.shadows(asked.filters().service),
            "holds_texts": bool(health.questions),
        }

    def is_first(self, asked: PageQuery) -> bool:
        """Return whether no stored request has ever arrived."""
        overview = self._read(asked.filters())
        return not overview.requests and overview.last_ms is None

    def connect(self, asked: PageQuery, _: Words) -> dict[str, Any]:
        """Return the instructions to connect an application, and the progress so far."""
        sources, heard = self._sources, self._sources.heard()
        scored = self._services(Filters(range_s=_DAY_MS / 1000))
        setup = asked.setup or next(iter(SETUPS))
        exports = self.server_health().get("exports", {})
        listens = (f"HTTP {sources.http_address}", f"gRPC {sources.grpc_address}")
        return {
            "is_first": not any(scored.values()),
            "setups": SETUPS,
            "setup": setup,
            "lines": SETUPS[setup].lines.replace("{http}", sources.http_address),
            "steps": connection_steps(heard, scored, listens),
            "heard": heard_rows(heard, everything=True),
            "mistakes": [one for one in _MISTAKES if exports.get(one)],
            "holds_texts": False,
        }

    def requests(self, asked: PageQuery, words: Words) -> dict[str, Any]:
        """Return the values of the list. Raises ValueError: the cursor `PageQuery.before` is invalid."""
        filters = asked.filters()
        now_ms = self._sources.clock() * 1000

        def read_facets() -> FacetPage:
            return self._snapshots.get(self._sources.reader.facets, filters)

        beside = self._threads.submit(read_facets)
        page = self._request_page(asked)
        facets = read_facets() if beside.cancel() else beside.result()  # all threads were busy
        over_time, ends = timeline(facets, words, now_ms)
        return {
            "page": page,
            "found": facets.total,
            "sort": asked.sort or "worst",
            "rows": list_rows(page, words),
            "facets": facet_views(facets, asked, words),
            "chips": chips(asked, words, now_ms, page),
            "over_time": over_time,
            "ends": ends,
            "searches": self._sources.keeps_texts,
            "holds_texts": any(row.question is not None for row in page.requests),
        }

    def request(self, trace: str, span: str | None, asked: PageQuery, words: Words) -> dict[str, Any] | None:
        """Return the values of a request's page, or None if the request is unknown."""
        view = self._sources.reader.request(trace, span)
        if view is None:
            return None
        row = view.row
        scores = score_lines(view)
        chunks = chunk_views(view)
        empty = next((one for one in view.scores if one.name == "empty_retrieval"), None)
        previous, following = self._neighbours(row, asked)
        expected = self._golden_entry(row.question)
        labels = self._sources.labels
        return {
            "view": view,
            "row": row,
            "rate": None if labels is None else labels.rate(row.verdict),
            "parts": [
                (segment_words(segment_name(name, row.segments), words), value)
                for name, value in row.segments.items()
            ],
            "why": why(view, words),
            "to_do": what_to_do(view, words),
            "reranks": any(one.reranked is not None for one in view.documents),
            # The whole retrieval, rather than a single chunk.
            "off_topic": any("off_topic" in code or code == "no_relevant_chunk" for code in row.verdict_codes),
            "chunks": chunks,
            "nothing_found": all(one.stored.carried for one in chunks)
            and empty is not None
            and empty.value == 1.0,
            "groups": score_groups(scores),
            "links": trace_links(self._sources.trace_urls, row),
            "previous": previous,
            "next": following,
            "expected": expected,
            "form": Form(
                answer="" if expected is None else expected.answer or "",
                documents="" if expected is None else "\n".join(expected.context_ids),
            ),
            "holds_texts": row.question is not None or view.evidence is not None,
        }

    def gaps(self, asked: PageQuery, words: Words) -> dict[str, Any]:
        """Return the knowledge gaps of the last 14 days, of the chosen service."""
        found = self._sources.reader.gaps(Filters(range_s=GAPS_RANGE_S))
        return {
            "found": found,
            "gaps": [
                (one, histogram(one.bins, label=words("asked_badly", n=one.n_bad)),
                 bar(one.answered.share or 0.0, is_bad=one.answered.bad > 0))
                for one in found.gaps
                if asked.filters().service in (None, one.service)
            ],
            "since": self._fortnight_ago(),
            "holds_texts": True,
        }  # fmt: skip

    def corpus(self, asked: PageQuery, _: Words) -> dict[str, Any]:
        """Return the chunks to read, of the last 14 days and the chosen service."""
        filters = Filters(range_s=GAPS_RANGE_S, service=asked.filters().service)
        return {
            "found": self._sources.reader.chunks(filters),
            "since": self._fortnight_ago(),
            "quoted": _quoted,
            "holds_texts": True,
        }

    def _fortnight_ago(self) -> str:
        return str(max(0, int((self._sources.clock() - GAPS_RANGE_S) * 1000)))

    def conversations(self, asked: PageQuery, _: Words) -> dict[str, Any]:
        """Return the conversations, the worst first."""
        filters = replace(asked.filters(), verdict=None, search=None)
        page = self._snapshots.get(
            self._sources.reader.conversations,
            filters,
            limit=CONVERSATIONS,
            conversation_id=asked.conversation or None,
        )
        whole = bool(asked.conversation)
        rows = [(one, one.turns if whole else _turns_at_fault(one)) for one in page.conversations]
        return {"page": page, "rows": rows, "holds_texts": True}

    def golden(self, _asked: PageQuery, _words: Words) -> dict[str, Any]:
        """Return the golden set."""
        labels = self._sources.labels
        return {
            "entries": [] if labels is None else labels.golden.entries(),
            "golden_path": None if labels is None else str(labels.golden.path),
        }

    def scoring(self, asked: PageQuery, words: Words) -> dict[str, Any]:
        """Return the counts of scored requests, and of others with the reasons."""
        overview = self._read(asked.filters(), scores=True)
        news, fallen = self._news(asked, overview)
        services = list(overview.services)
        if asked.lanes != "all":
            del services[FIRST_SERVICES:]
        measured = [one for one in overview.measured if one.service in services]
        shown = replace(overview, scores=tuple(measured), others=())
        fault = next((one for one in news if one.kind == "fell"), None)
        since = None if fault is None else fault.since_ms
        used = [one for one in STATUSES if any(score.statuses.get(one) for score in measured)]
        judge = overview.judge
        health = self.server_health()
        drops = dict(overview.dropped)
        for name, n in health.get("requests", {}).items():
            if name not in ("scored", "in_flight", "captured"):
                drops[name] = drops.get(name, 0) + n
        return {
            "overview": overview,
            "more": len(overview.services) - len(services),
            "scores": [
                (service, list(rows))
                for service, rows in groupby(
                    score_rows(shown, fallen, self._other_trends(asked, fault), since, words),
                    attrgetter("score.service"),
                )
            ],
            "fault": "" if fault is None else fault.where,
            "statuses": used,
            "missing": _missing_scores(measured, words),
            "judge": [
                ("calls", judge.calls),
                ("failed", judge.failed),
                ("tokens_in", judge.input_tokens),
                ("tokens_out", judge.output_tokens),
                ("cache_hits", judge.cache_hits),
            ],
            "judge_money": _judge_money(overview),
            "outages": self._outages(asked, overview),
            "overloads": self._overloads(overview),
            "drops": sorted(drops.items(), key=lambda one: (-one[1], one[0])),
            "received": sorted(
                (f"{kind}: {name}", n)
                for kind in ("exports", "connections", "spans", "requests", "partial", "unsent")
                for name, n in health.get(kind, {}).items()
            ),
        }

    def _request_page(self, asked: PageQuery) -> RequestPage:
        return self._snapshots.get(
            self._sources.reader.requests,
            asked.filters(),
            sort=asked.sort or "worst",
            limit=ROWS,
            cursor=asked.before or None,
        )

    def _health(self, asked: PageQuery) -> HealthView:
        return self._snapshots.get(self._sources.reader.health, asked.filters(), by=asked.by)

    def _read(self, filters: Filters, *, scores: bool = False) -> Overview:
        return self._snapshots.get(self._sources.reader.overview, filters, scores=scores, groups=False)

    def _services(self, filters: Filters) -> Mapping[str, int]:
        return self._snapshots.get(self._sources.reader.services, filters)

    def _news(self, asked: PageQuery, overview: Overview) -> tuple[tuple[News, ...], Fallen]:
        return news(self._sources.changes(), asked, overview.from_ms)

    def _other_trends(
        self, asked: PageQuery, fault: News | None
    ) -> dict[tuple[str, str, str], tuple[StoredPoint, ...]]:
        """Return the trends of the segment at fault, if it is less than what is shown."""
        if fault is None:
            return {}
        filters = fault.filters.filters()
        filters = replace(filters, since_ms=asked.filters().since_ms, service=fault.change.service)
        if filters == asked.filters():
            return {}
        return self._trends(filters)

    def _trends(self, filters: Filters) -> dict[tuple[str, str, str], tuple[StoredPoint, ...]]:
        """Return the trends of a service's scores, by service, score and measurement."""
        found = self._snapshots.get(self._sources.reader.trends, filters)
        service = filters.service or ""
        return {(service, name.score, name.measurement): tuple(points) for name, points in found.items()}

    def _overloads(self, overview: Overview) -> list[Mapping[str, Any]]:
        """Return the periods within the shown one in which senders were asked to retry."""
        return [
            one
            for one in self.server_health().get("overloads", ())
            if one["until_ms"] >= overview.from_ms and one["from_ms"] < overview.until_ms
        ]

    def _outages(self, asked: PageQuery, overview: Overview) -> tuple[JudgeOutage, ...]:
        if not overview.judge.failed:
            return ()
        return self._snapshots.get(self._sources.reader.outages, asked.filters())

    def _neighbours(self, row: RequestRow, asked: PageQuery) -> tuple[RequestRow | None, RequestRow | None]:
        """Return the previous and next request in the list; of a request not in it, None and the first."""
        rows = self._request_page(asked).requests
        at = next((i for i, one in enumerate(rows) if one.run_id == row.run_id), None)
        if at is None:
            return None, rows[0] if rows else None
        return rows[at - 1] if at else None, rows[at + 1] if at + 1 < len(rows) else None

    def _golden_entry(self, question: str | None) -> GoldenEntry | None:
        """Return the correct answer and documents, from the golden set or else the server's references."""
        if not question:
            return None
        sources = self._sources
        own = None if sources.labels is None else sources.labels.golden.of(question)
        if own is not None or sources.references is None:
            return own
        known = sources.references(question)
        if known is None:
            return None
        return GoldenEntry(question=question, answer=known.answer, context_ids=tuple(known.context_ids or ()))


def _turns_at_fault(one: ConversationView) -> tuple[TurnView, ...]:
    start = max(0, min((one.first_bad or 1) - 2, len(one.turns) - TURNS))
    return one.turns[start : start + TURNS]


def _judge_money(overview: Overview) -> dict[str, str] | None:
    """Return the judge's cost: in total, per request, and per day at this rate; None: unknown."""
    judge = overview.judge
    if judge.cost is None or not judge.priced:
        return None
    days = max(1, overview.until_ms - overview.from_ms) / _DAY_MS
    return {
        "money": money(judge.cost),
        "each": money(judge.cost / judge.priced),
        "day": money(judge.cost / days),
    }


def _missing_scores(scores: Sequence[ScoreSummary], words: Words) -> list[tuple[str, str, int, str, str]]:
    """Return (service, score, requests, status, key of the fix), those with most requests first."""
    found: list[tuple[str, str, int, str, str]] = []
    for score in scores:
        for status, fix in _FIXES.items():
            n = score.statuses.get(status, 0)
            if n:
                # Without importing the score's metric if that is ragmeter's own.
                of_reference = status == "missing_input" and score.name in (
                    REFERENCE_SCORES if words.asks(score.name) else scores_with_reference()
                )
                brings = "fix_references" if of_reference else fix
                found.append((score.service, score.name, n, status, brings))
    return sorted(found, key=lambda one: (-one[2], one[:2]))


@cache
def scores_with_reference() -> frozenset[str]:
    """Return the scores that need a reference, of all installed metrics."""
    found: set[str] = set()
    for name in known_metrics():
        with suppress(ConfigurationError):  # the metric of another package may be installed in part
            for metric in resolve_metrics([name]):
                if any(need.startswith("reference") for need in metric.needs):
                    found.update(metric.score_names)
    return frozenset(found)


def _quoted(chunk: SeenChunk) -> str:
    """Return a search query for the requests that got a chunk: its first words, as a phrase."""
    return '"' + " ".join(chunk.quote.replace('"', " ").split()[:_QUOTED_WORDS]) + '"'
