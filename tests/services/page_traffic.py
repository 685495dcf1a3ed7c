"""An hour of traffic in three languages with one fault in it, stored like scored requests of `ragmeter serve`.

The fault: for its last twenty minutes, questions in Chinese of one workflow find chunks of other articles.
"""

import random

from opentelemetry.trace import SpanContext, TraceFlags

from ragmeter.cli.demo.corpus import load_chunks, load_questions
from ragmeter.exporters.protocol import RagRun, ScoredRun
from ragmeter.metrics import RagSample, RetrievedContext, Score, VerdictRules
from ragmeter.metrics.registry import resolve_metrics
from ragmeter.quality.estimates import Estimate
from ragmeter.watch.change import Change

METRICS = ["lexical_context_relevance", "lexical_groundedness", "retrieval_health", "refusal"]
WORKFLOW, FAULTY, NEW_VERSION = "library-qa", "zh", "2026-11-21b"
FAULT_S = 1_200.0


def fault_at(now):
    return now - FAULT_S


def runs(now, n=600, *, texts=True):
    """Return scored requests of the hour before `now`, the same in every run."""
    rng = random.Random(17)
    chunks = {chunk.id: chunk for chunk in load_chunks()}
    questions = [question for question in load_questions() if question.context_ids]
    metrics = resolve_metrics(METRICS)
    known, found = {}, []
    for number in range(n):
        at = now - 3_600 + 3_600 * number / n
        asked = rng.choice(questions)
        own = [one for one in chunks.values() if one.language == asked.language]
        faulty = asked.language == FAULTY and at > fault_at(now)
        if faulty:
            ids = [one.id for one in rng.sample([one for one in own if one.id not in asked.context_ids], 3)]
        else:
            ids = [asked.context_ids[0], rng.choice(own).id]
        sample = RagSample(
            question=asked.question if texts else None,
            contexts=[RetrievedContext(text=chunks[one].text, id=one, score=0.5) for one in ids],
            answer=asked.answer if texts else None,
            name=WORKFLOW if asked.language != "en" or number % 3 else "docs-assistant",
        )
        key = (asked.question, *ids)
        if key not in known:
            whole = sample.model_copy(update={"question": asked.question, "answer": asked.answer})
            known[key] = {score.name: score for one in metrics for score in one.compute(whole)}
        scores = dict(known[key])
        if number % 4 == 0:
            failed = now - 2_400 < at < now - 2_100
            scores["faithfulness"] = Score(
                name="faithfulness", value=None if failed else 0.1 if faulty else 1.0,
                status="judge_error" if failed else "ok", method="llm", definition="1", target="answer",
            )  # fmt: skip
        run = RagRun(
            sample=sample,
            run_id=f"{number:032x}",
            framework="langchain",
            started_ns=int(at * 1e9),
            ended_ns=int((at + 0.8) * 1e9),
            target=SpanContext(number + 1, number + 1, is_remote=False, trace_flags=TraceFlags(1)),
            metadata={"language": asked.language, "index_version": NEW_VERSION if faulty else "2026-11-14"},
            resource={"service.name": "library"},
        )
        found.append(
            ScoredRun(
                run=run,
                scores=scores,
                judged=frozenset({"faithfulness"}),
                judge_sample_rate=0.25,
                verdict=VerdictRules().verdict(scores),
            )
        )
    return found


def fall(now, score="lexical_context_relevance"):
    """Return a detector's report of it."""

    def mean(value):
        return Estimate(
            mean=value, lower=value - 0.03, upper=value + 0.03, n_requests=90, n_judged=90, method="all"
        )  # fmt: skip

    return Change(
        score=score, workflow=WORKFLOW, segment=f"metadata.language:{FAULTY}", service="library",
        since=fault_at(now), at=fault_at(now) + 300, before=mean(0.85), now=mean(0.1), evidence=9e5, kind="fell",
    )  # fmt: skip
