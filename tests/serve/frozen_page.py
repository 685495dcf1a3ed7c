"""Requests in the store's form, frozen in time, and the page made of them."""

from dataclasses import replace

from starlette.applications import Starlette
from starlette.testclient import TestClient

from ragmeter.adapters.opentelemetry.heard import HeardService
from ragmeter.exporters.changes import NewSince
from ragmeter.quality.corpus.view import ChunkConflict, ChunkReport, SeenChunk, StaleChunk
from ragmeter.quality.estimates import Estimate
from ragmeter.serve.page import Pages, Sources, Standing
from ragmeter.serve.store import Advice, Cause, DocumentView, SameQuestion, StageView, evidence
from ragmeter.serve.store._measured import MeasuredScore
from ragmeter.serve.store.health_views import (
    BadShare,
    ComparisonView,
    DeploymentView,
    HealthView,
    LaneView,
    PartView,
    QuestionView,
    SignalView,
    VersionStep,
)
from ragmeter.serve.store.views import (
    ContextView,
    ConversationPage,
    ConversationView,
    Facet,
    FacetPage,
    FacetValue,
    GapPage,
    GapView,
    Group,
    InvalidQueryError,
    ItemView,
    JudgeOutage,
    JudgeUse,
    Overview,
    RequestPage,
    RequestRow,
    RequestView,
    ScoreSummary,
    ScoreValue,
    ScoreView,
    TrendPoint,
    TurnView,
)
from ragmeter.watch.change import Change

NOW_MS = 1_795_350_000_000  # 2026-11-22, 12:20 UTC
FROM_MS = NOW_MS - 3_600_000
CHANGE_MS = NOW_MS - 1_200_000
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
HOST = "http://127.0.0.1:4318"


def estimate(mean, half=0.03, n=200):
    return Estimate(
        mean=mean,
        lower=max(0.0, mean - half),
        upper=min(1.0, mean + half),
        n_requests=n,
        n_judged=n,
        method="all",
    )


def change(**given):
    values = {
        "score": "lexical_context_relevance", "workflow": "library-qa", "segment": "language:zh",
        "since": CHANGE_MS / 1000, "at": CHANGE_MS / 1000 + 300, "before": estimate(0.80, n=168),
        "now": estimate(0.10, n=95), "evidence": 90_000.0, "kind": "fell",
    }  # fmt: skip
    return Change(**{**values, **given})


CHANGES = (
    change(),
    change(score="lexical_groundedness", before=estimate(0.93), now=estimate(0.12), evidence=5e4),
    change(segment="", before=estimate(0.8), now=estimate(0.53), evidence=2e4),
)


def trend(*means, start=FROM_MS, end=NOW_MS, n=40):
    width = (end - start) // len(means)
    return tuple(
        TrendPoint(
            from_ms=start + at * width, until_ms=start + (at + 1) * width, estimate=estimate(mean, 0.05, n)
        )
        for at, mean in enumerate(means)
        if mean is not None
    )


def summary(name, mean, direction="higher", statuses=None, **given):
    values = {
        "service": "library", "name": name, "direction": direction, "method": "lexical", "target": "retrieval", "definition": "1",
        "range": (0.0, 1.0), "judged": False, "estimate": None if mean is None else estimate(mean),
        "statuses": statuses or {"ok": 200}, "usual": (0.55, 0.95),
        "trend": () if mean is None else trend(0.8, 0.82, None, 0.79, mean, mean),
    }  # fmt: skip
    return ScoreSummary(**{**values, **given})


SCORES = (
    summary("context_count", None, "none", range=(0.0, None), method="exact"),
    summary("empty_retrieval", 0.01, "lower", usual=(0.0, 0.0)),
    summary("faithfulness", 0.7, statuses={"ok": 60, "skipped": 130, "judge_error": 10}, method="llm",
            target="answer", judged=True),
    summary("id_recall", None, statuses={"missing_input": 200}, estimate=None, usual=None, trend=()),
    summary("lexical_context_relevance", 0.53),
    summary("lexical_groundedness", 0.64, target="answer", definition="3"),
)  # fmt: skip
OVERVIEW = Overview(
    from_ms=FROM_MS,
    until_ms=NOW_MS,
    requests=360,
    statuses={"ok": 360},
    verdicts={"good": 250, "suspect": 30, "bad": 80},
    orphans=0,
    nothing_retrieved=5,
    without_text=0,
    scores=SCORES,
    groups=(
        Group(service="library", workflow="library-qa", segment="", requests=360, estimates={
            "lexical_context_relevance": estimate(0.53), "lexical_groundedness": estimate(0.64), "faithfulness": estimate(0.62)}),
        Group(service="library", workflow="library-qa", segment="language:en", requests=265, estimates={
            "lexical_context_relevance": estimate(0.7), "lexical_groundedness": estimate(0.83)}),
        Group(service="library", workflow="library-qa", segment="language:zh", requests=95, estimates={
            "lexical_context_relevance": estimate(0.1), "lexical_groundedness": estimate(0.12)}),
        Group(service="library", workflow="library-qa", segment="metadata.index_version:2026-11-21b", requests=83, estimates={}),
    ),
    judge=JudgeUse(
        requests=70, failed=10, calls=70, input_tokens=500_000, output_tokens=15_526, cost=0.1372, priced=70,
    ),
    dropped={"queue_full": 3},
    services={"library": 360},
    workflows={"library-qa": 360},
    segments={"language": {"en": 265, "zh": 95}, "metadata.index_version": {"2026-11-21b": 83}},
    last_ms=NOW_MS - 4_000,
)  # fmt: skip
BEFORE = replace(OVERVIEW, segments={"language": {"en": 265, "zh": 95}})
EMPTY = Overview(
    from_ms=FROM_MS, until_ms=NOW_MS, requests=0, statuses={}, verdicts={}, orphans=0, nothing_retrieved=0,
    without_text=0, scores=(), groups=(), judge=JudgeUse(), dropped={},
)  # fmt: skip


def row(**given):
    values = {
        "run_id": "run-1", "trace_id": TRACE, "span_id": SPAN, "at_ms": CHANGE_MS + 60_000, "duration_ms": 1108.4,
        "service": "library", "workflow": "library-qa", "framework": "langchain", "status": "ok",
        "segments": {"language": "zh", "metadata.index_version": "2026-11-21b"},
        "question": "哪两项中国传统列入了人类非物质文化遗产代表作名录？", "verdict": "bad",
        "verdict_codes": ("unsupported_answer", "off_topic_context"),
        "scores": {
            "lexical_context_relevance": ScoreValue(value=0.0, status="ok"),
            "lexical_groundedness": ScoreValue(value=0.0, status="ok"),
            "faithfulness": ScoreValue(value=None, status="judge_error"),
        },
        "excess": 1.6,
    }  # fmt: skip
    return RequestRow(**{**values, **given})


ROWS = (
    row(times=24),
    row(run_id="run-2", trace_id="5" * 32, question="Who painted the ceiling of the Sistine Chapel?",
        segments={"language": "en"}, verdict="suspect", verdict_codes=("refused_off_topic",), excess=0.4),
    row(run_id="run-3", trace_id="6" * 32, question="Сколько рек впадает в Байкал?", segments={"language": "ru"},
        verdict="good", verdict_codes=(), excess=0.0, at_ms=NOW_MS - 5_000),
)  # fmt: skip


OUTAGES = (
    JudgeOutage(from_ms=NOW_MS - 1_800_000, until_ms=NOW_MS - 1_200_000, requests=9, models=("judge-1",),
                errors={"APITimeoutError": 7, "RateLimitError": 2}),
)  # fmt: skip


def score(name, value, **given):
    values = {
        "name": name, "value": value, "status": "ok", "label": None, "lower": None, "upper": None,
        "direction": "higher", "method": "lexical", "target": "retrieval", "definition": "1", "range": (0.0, 1.0),
        "error_type": None, "summary": None, "explanation": None, "items": (), "items_left_out": 0,
        "judge_calls": 0, "input_tokens": 0, "output_tokens": 0, "cache_hits": 0,
        "cost": None, "judge": None, "endpoint": None, "usual": (0.6, 0.95),
    }  # fmt: skip
    return ScoreView(**{**values, **given})


FACETS = FacetPage(
    total=3,
    facets=(
        Facet(name="verdict", values=tuple(FacetValue(value=v, requests=1) for v in ("bad", "suspect", "good", ""))),
        Facet(name="reason", values=(FacetValue(value="unsupported_answer", requests=1),)),
        Facet(name="service", values=(FacetValue(value="library", requests=3), FacetValue(value="", requests=1))),
        Facet(name="workflow", values=(FacetValue(value="library-qa", requests=3), FacetValue(value="", requests=1))),
        Facet(name="language", values=(FacetValue(value="zh", requests=1), FacetValue(value="ru", requests=1))),
    ),
    from_ms=FROM_MS,
    step_ms=60_000,
    bins=((0, 0, 0, 0),) * 58 + ((1, 1, 0, 0), (0, 0, 1, 2)),
)  # fmt: skip
GAPS = GapPage(
    gaps=(
        GapView(
            id="0a0b0c0d", name="Iceland ship", workflow="library-qa", language="en", n_bad=46, n_requests=58, share=0.79,
            lower=0.67, upper=0.88, elsewhere=0.1, since=CHANGE_MS / 1000, diagnosis="missing_from_corpus", refused=0.0, suited=0.0,
            examples=("Can you ship a parcel to Iceland?", "Do you ship to Iceland?"), service="library",
            answered=BadShare(bad=18, requests=46, share=18 / 46, lower=0.26, upper=0.54), n_refused=28, n_empty=12,
            relevance=0.03, from_ms=CHANGE_MS, step_ms=60_000, bins=((1, 1, 0, 0), (20, 24, 0, 0)),
        ),
    ),
    n_bad=60, n_requests=360, without_topic=0, why_empty="", complete=False,
)  # fmt: skip
_RETURNS = "Parcels may be returned within {} days of their delivery."
_CHUNK = SeenChunk(
    "returns-1", _RETURNS.format(30), n=212, led=40, bad=31, seen_used=212, used=0, last_seen=NOW_MS / 1000
)
_NEWER = replace(_CHUNK, id="returns-2", quote=_RETURNS.format(14))
CHUNKS = ChunkReport(
    bad=(_CHUNK,), unused=(_CHUNK,), stale=(StaleChunk(_CHUNK, "two_texts"),),
    conflicts=(ChunkConflict((_CHUNK, _NEWER), (_CHUNK.quote, _NEWER.quote), ("30", "14")),),
    n_requests=360, n_bad=60, n_chunks=48, n_compared=48, compares_all=False, undated=1.0, unverified=1.0,
)  # fmt: skip
CONVERSATIONS = ConversationPage(
    conversations=(
        ConversationView(
            conversation_id="talk-1", service="library", workflow="library-qa", verdict="bad", first_bad=2, ended_bad=True,
            turns=tuple(
                TurnView(trace_id=TRACE, span_id=SPAN, run_id=f"run-{at}", at_ms=CHANGE_MS + at, status="ok", verdict=word,
                         question=f"Turn {at}?", answer="<b>An answer.</b>", verdict_codes=codes)
                for at, (word, codes) in enumerate((("suspect", ()), ("bad", ("unsupported_answer",))), 1)
            ),
        ),
    ),
    total=145, with_bad=54, share=54 / 145, lower=0.3, upper=0.45, complete=True,
)  # fmt: skip
ANSWER = "宣纸的制作和二十四节气列入了这一名录。 Гречиху едят те, кто не переносит пшеницу."
CONTEXTS = (
        ContextView(number=1, id="ru-buckwheat#2", score=0.03, text=(
            "В зёрнах гречихи нет клейковины, поэтому их едят люди, которые не переносят пшеницу. Крупа богата белком.")),
        ContextView(number=2, id="<script>alert(1)</script>", score=0.02, text="二十四节气是中国的传统。<img src=x onerror=alert(1)>"),
)  # fmt: skip
VIEW = RequestView(
    row=ROWS[0],
    answer=ANSWER,
    cause=Cause(code="partly_carried", sentences=2, missing=1, chunks=2, words_found=0, topic_words=9),
    advice=Advice(code="write_document", gap="0a0b0c0d", gap_bad=24, gap_requests=30),
    same=SameQuestion(n=24, n_bad=19),
    evidence=evidence(ROWS[0].question, ANSWER, [one.text for one in CONTEXTS]),
    stages=(StageView(kind="retriever", name="index", documents=2), StageView(kind="prompt", name="", documents=2)),
    documents=(
        DocumentView(id="ru-buckwheat#2", ranks=(2, 1), retrieved=2, reranked=1, prompt=1, in_answer=True),
        DocumentView(id="<script>alert(1)</script>", ranks=(1, 2), retrieved=1, reranked=2, prompt=2, in_answer=False),
        DocumentView(id=None, ranks=(3, None), retrieved=3, reranked=None, prompt=None, in_answer=False),
    ),
    verdict_reasons=("0 % of the answer's words are in the chunks", "no chunk is about the question"),
    contexts=CONTEXTS,
    scores=(
        score("context_count", 2.0, direction="none", range=(0.0, None), method="exact", usual=(2.0, 3.0)),
        score("empty_retrieval", 0.0, direction="lower", usual=(0.0, 0.0)),
        score("faithfulness", 0.5, status="partial", lower=0.25, upper=0.75, method="llm", target="answer",
              judge="judge-1", endpoint="openai", cost=0.00196,
              summary="1 of 3 claims supported, 1 unknown", judge_calls=1, input_tokens=900, output_tokens=80,
              items=(ItemView(id="claim-1", verdict=True), ItemView(id="claim-2", verdict=False), ItemView(id="claim-3", verdict=None))),
        score("judged_precision", 0.5, method="llm", items=(ItemView(id="chunk-1", verdict=False), ItemView(id="chunk-2", verdict=True))),
        score("id_recall", None, status="missing_input", usual=None, definition=None, method=None, target=None, direction=None),
        score("lexical_context_relevance", 0.0, summary="no chunk has any of 9 words"),
        score("lexical_groundedness", 0.0, target="answer", summary="0 of 12 words"),
    ),
    metadata={"index_version": "2026-11-21b"},
    conversation_id=None,
    user_id=None,
    missing=("reference",),
    sample_rate=1.0,
    judge_sample_rate=1.0,
    selection="sampled",
    siblings=(),
)  # fmt: skip


def bad_share(bad, requests):
    return BadShare(
        bad=bad, requests=requests, share=bad / requests, lower=max(0.0, bad / requests - 0.05),
        upper=min(1.0, bad / requests + 0.05),
    )  # fmt: skip


def lane(name, bad=80, requests=360, **given):
    values = {
        "name": name, "version": "2.5.0", "requests": requests, "bad": bad_share(bad, requests),
        "bad_before": None, "support": estimate(0.64), "support_before": None, "relevance": estimate(0.53),
        "relevance_before": None, "bins": ((0, 0, 0, 0), (bad, 0, requests - bad, 0)), "deployments": (),
    }  # fmt: skip
    return LaneView(**{**values, **given})


QUESTIONS = (
        QuestionView(
            question=ROWS[0].question, key="ab" * 8, bad=bad_share(19, 26), service="library", workflow="library-qa",
            language="zh", codes=("unsupported_answer", "off_topic_context"), at_ms=NOW_MS - 60_000,
            trace_id=ROWS[0].trace_id, span_id=ROWS[0].span_id, run_id=ROWS[0].run_id,
        ),
    )  # fmt: skip
QUIET_HEALTH = HealthView(
    by="service", bin_ms=300_000, bins_from_ms=FROM_MS, lanes=(lane("library"), lane("desk", 1, 40)),
    deployments=(), lead=None, parts=(), questions=QUESTIONS, signals=(), detectable=0.18,
)  # fmt: skip
DEPLOYMENT = DeploymentView(
    number=1, service="library", at_ms=CHANGE_MS,
    values=(VersionStep(name="service.version", before="2.4.1", value="2.5.0"),
            VersionStep(name="index_version", before="2026-11-16", value="2026-11-21b")),
    comparison=ComparisonView(score="support", before=0.86, after=0.55, lower=-0.38, upper=-0.26, n_before=989,
                              n_after=564, effect="worse"),
    bad_before=bad_share(80, 989), bad_after=bad_share(227, 564),
)  # fmt: skip
HEALTH = replace(
    QUIET_HEALTH,
    lanes=(
        lane("library", bad_before=bad_share(8, 100), support_before=estimate(0.86), deployments=(CHANGE_MS,)),
        lane("desk", 1, 40),
    ),
    deployments=(DEPLOYMENT,),
    lead=DEPLOYMENT,
    parts=(PartView(segment="language:zh", now=bad_share(60, 95), before=bad_share(8, 100)),
           PartView(segment="language:en", now=bad_share(20, 265), before=None)),
    signals=(
        SignalView(name="relevance", score="lexical_context_relevance", now=estimate(0.53), before=estimate(0.8),
                   is_off=True),
        SignalView(name="refusals", score="refusal", now=estimate(0.05), before=None, is_off=False),
    ),
)  # fmt: skip
HEARD = HeardService(
    service="checkout-bot", traces=64, reasons={"no_retrieval_seen": 64}, scopes={"openinference": 64},
    tools=["search"],
    fix="no span reports a retrieval: trace it; or name what retrieves: --retrieval-tool 'search'",
)  # fmt: skip


class FrozenReader:
    """Answers like the store, from its given data."""

    def __init__(self, overview=OVERVIEW, before=BEFORE, rows=ROWS, views=(VIEW,), health=QUIET_HEALTH):
        self._health = health
        self._overview, self._before, self._rows = overview, before, rows
        self._views = {view.row.trace_id: view for view in views}
        self.asked = []
        self.at = 1

    def services(self, filters):
        return self.overview(filters).services

    def overview(self, filters, **_):
        self.asked.append(filters)
        return self._before if filters.until_ms is not None else self._overview

    def health(self, filters, *, by=""):
        if by and by not in {"service", "workflow", "retriever", *self._overview.segments}:
            raise InvalidQueryError(f"by is one of {', '.join(sorted(self._overview.segments))}, retriever")
        return replace(self._health, lanes=self._health.lanes if self._overview.requests else ())

    def shadows(self, service):
        return ()

    def explained(self, change):
        new = NewSince(name="index_version", value="2026-11-21b", at=CHANGE_MS / 1000 + 60, requests=83)
        return replace(change, new=(new,))

    def trends(self, filters):
        return {MeasuredScore(one.name, one.measurement): one.trend for one in self.overview(filters).scores}

    def requests(self, filters, *, sort="worst", limit=50, cursor=None, grouped=False):
        self.asked.append((filters, sort, cursor, grouped))
        if cursor not in (None, "more"):
            raise InvalidQueryError("before is not a cursor of this server")
        return RequestPage(requests=self._rows, next=None if cursor else "more", total=len(self._rows))

    def facets(self, filters):
        self.asked.append(filters)
        return FACETS

    def gaps(self, filters):
        self.asked.append(filters)
        return GAPS

    def known_gaps(self, service):
        return [one for one in GAPS.gaps if one.state == "open" and service in (None, one.service)]

    def chunks(self, filters):
        self.asked.append(filters)
        return CHUNKS

    def conversations(self, filters, *, limit=50, conversation_id=None):
        self.asked.append((filters, limit, conversation_id))
        return CONVERSATIONS

    def request(self, key, span_id=None):
        view = self._views.get(key)
        return None if view is None or span_id not in (None, view.row.span_id) else view

    as_stored = request

    def outages(self, filters):
        self.asked.append(filters)
        return OUTAGES

    def last_ms(self):
        return max((one.at_ms + (one.duration_ms or 0) for one in self._rows), default=None)

    def revision(self):
        return self.at


def sources(reader=None, **given):
    values = {
        "reader": reader or FrozenReader(), "changes": lambda: CHANGES,
        "standing": lambda: Standing(series=81), "clock": lambda: NOW_MS / 1000,
        "http_address": HOST, "grpc_address": "http://127.0.0.1:4317",
    }  # fmt: skip
    return Sources(**{**values, **given})


def client(reader=None, **given):
    """Return a browser of the page, which runs no script."""
    pages = Pages(sources(reader, **given))
    return TestClient(Starlette(routes=pages.routes()), base_url=HOST, follow_redirects=False)
