"""Every judged metric, end to end over HTTP, judged by a real and very weak language model.

A model of 135 million parameters copies the prompt, makes things up and loses the thread. What it
says may be wrong; what is scored must be what it said, under the ids it was asked for, from texts
that are there.  Otherwise there is no number, and the status says why.
"""

import os
import sys
import time

import pytest
from recording import Recording

from ragmeter.metrics import (
    AnswerRelevancy,
    ContextEntityRecall,
    ContextPrecision,
    ContextRecall,
    ContextRelevancy,
    ContextUtilization,
    Faithfulness,
    FusedContextMetrics,
    LiveJudged,
    RagQuestEval,
    RagSample,
    Reference,
    evaluate,
)
from ragmeter.metrics.judge import OpenAIJudge
from ragmeter.metrics.text.quote_check import is_answer_from, is_sentence_of, stands_as_entity

SAMPLES = {
    "en": RagSample(
        question="Who painted the ceiling of the town hall in Vilhelm?",
        contexts=[
            "The ceiling of the town hall in Vilhelm was painted by Ada Norrby in 1911.",
            "Ferries to the islands leave from the old harbour.",
        ],
        answer="Ada Norrby painted it in 1911. I hope this helps!",
        reference=Reference(answer="Ada Norrby painted the ceiling in 1911. It shows the harvest."),
    ),
    "ru": RagSample(
        question="Кто построил мост через Сорву?",
        contexts=[
            "Мост через Сорву построил инженер Пётр Лаптев в 1903 году.",
            "Зимой по реке ходят на лыжах.",
        ],
        answer="Мост построил Пётр Лаптев в 1903 году. Рад помочь!",
        reference=Reference(answer="Мост построил Пётр Лаптев. Строили его в 1903 году."),
    ),
    "zh": RagSample(
        question="青石塔是谁建的？",
        contexts=["青石塔由李文山于1887年建成。", "城里的茶馆很多。"],
        answer="青石塔是李文山建的。希望对你有帮助！",
        reference=Reference(answer="青石塔由李文山建造。塔建于1887年。"),
    ),
}
METRICS = {
    "context_precision": ContextPrecision(),
    "context_utilization": ContextUtilization(),
    "context_recall": ContextRecall(),
    "context_recall by claim": ContextRecall(unit="claim"),
    "context_entity_recall": ContextEntityRecall(),
    "context_relevancy": ContextRelevancy(),
    "faithfulness": Faithfulness(),
    "faithfulness of nothing": Faithfulness(),
    "answer_relevancy": AnswerRelevancy(),
    "rag_quest_eval": RagQuestEval(),
    "fused_context_metrics": FusedContextMetrics(entities=True),
    "live_judged": LiveJudged(),
    "live_judged of nothing": LiveJudged(),
}
FULL = os.environ.get("RAGMETER_REAL_MODEL") == "full"
"""Every metric in every language, alone and through the proxy; else each metric in one language.

Without the one that asks eight times what the others ask once, which was nearly half of the time of all.
"""
STATUSES = {"ok", "partial", "undefined", "judge_error", "timeout"}
WORDS = {"true": True, "supported": True, "relevant": True}


def dealt(language, *, proxy):
    """Return the metrics that a language is tried with; in the short form they are dealt out."""
    if FULL:
        return list(METRICS)
    quick = [name for name in METRICS if name != "fused_context_metrics"]
    mine = quick[list(SAMPLES).index(language) :: len(SAMPLES)]
    return mine[:1] if proxy else mine


def judge_at(recording, **options):
    """A judge that remembers nothing and is patient: the machine may be busy."""
    return OpenAIJudge("smollm2", recording.url, "none", max_retries=0, timeout_s=240, cache=False, **options)


def judged(name, sample, judge, recording):
    """Return the scores, what was exchanged for them, and the seconds it took."""
    given = sample.model_copy(update={"contexts": ()}) if name.endswith("nothing") else sample
    recording.exchanges.clear()
    started = time.monotonic()
    [scores] = evaluate([given], [METRICS[name]], judge, concurrency=1)
    return dict(scores), list(recording.exchanges), time.monotonic() - started


def verdicts_said(exchanges):
    """Return what was said of each item, by the letter and number of its id.

    Only replies that are complete, one object, and answer no id but those of their request.
    """
    said = {}
    for one in exchanges:
        if one.said is None or one.finish != "stop":
            continue
        asked = {one.request.tag + i: i for i in one.request.ids}
        for body in one.said.values():
            for sent, word in entries(body):
                if sent in asked:
                    said.setdefault(asked[sent], []).append(word)
    return said


def words_said(exchanges):
    """Return the words said of each item, likewise, as they were said."""
    said = {}
    for one in exchanges:
        asked = {one.request.tag + i: i for i in one.request.ids}
        for body in (one.said or {}).values():
            for entry in body if isinstance(body, list) else ():
                if entry.get("id") in asked:
                    said.setdefault(asked[entry["id"]], set()).add(entry.get("verdict"))
    return said


def entries(body):
    if isinstance(body, dict):
        for word in ("true", "false"):
            for entry in body.get(word, ()):
                yield (entry["id"] if isinstance(entry, dict) else entry), word == "true"
    else:
        for entry in body:
            if isinstance(entry.get("verdict"), str):
                yield entry["id"], WORDS.get(entry["verdict"], False)


def texts_said(exchanges):
    return {
        text
        for one in exchanges
        if one.said is not None
        for body in one.said.values()
        if isinstance(body, list)
        for entry in body
        for text in entry.get("texts", ())
    }


def check(name, sample, scores, exchanges):
    """Recompute from the exchanges what may be known and what it cost, and compare."""
    assert exchanges
    assert {one.status for one in exchanges} == {200}
    assert sum(score.judge_calls for score in scores.values()) == len(exchanges)
    counted = sum(one.usage["prompt_tokens"] for one in exchanges)
    assert sum(score.input_tokens for score in scores.values()) == counted
    said = verdicts_said(exchanges)
    for score in scores.values():
        assert score.status in STATUSES, score
        assert score.explanation or score.items, score
        if score.status == "judge_error":
            assert score.error_type, score
        if score.value is None:
            assert score.status != "ok", score
            continue
        assert 0.0 <= score.value <= 1.0
        assert score.status in {"ok", "partial"}
        known = [item for item in score.items if item.verdict is not None]
        assert known or name.endswith("nothing") or score.explanation, score
        if score.name == "context_entity_recall":
            reference = sample.reference.answer
            for item in known:
                assert item.text in texts_said(exchanges)
                assert stands_as_entity(item.text, reference)
                assert not is_sentence_of(item.text, reference)
        elif score.name == "context_sufficiency":
            assert name.endswith("nothing") or score.label in words_said(exchanges)["e1"], score
        elif score.name == "judged_refusal":
            words = words_said(exchanges)
            for number, item in enumerate(score.items, start=1):
                assert item.evidence is None or item.evidence in words[f"a{number}"], score
        elif score.name.startswith("rag_quest_eval"):
            for item in known:
                assert item.evidence is None or is_answer_from(item.evidence, sample.answer), item
        else:
            counted = [item for item in known if item.reason != "blank"]
            told = [word for words in said.values() for word in set(words)]
            for verdict in (True, False):
                count = sum(item.verdict is verdict for item in counted)
                assert count <= told.count(verdict), (score, exchanges)


def figures(where, language, name, scores, exchanges, seconds):
    """Return one line per score: what became of it, and what it took."""
    tokens = sum(one.usage["prompt_tokens"] for one in exchanges)
    details = (one.usage.get("prompt_tokens_details") or {} for one in exchanges)
    cached = sum(one.get("cached_tokens") or 0 for one in details)
    lines = []
    for score in scores.values():
        value = "-" if score.value is None else f"{score.value:.3f}"
        why = score.error_type or (score.explanation or "")[:60]
        lines.append(
            f"\n{where:8}{language} {name:24}{score.name:23}{score.status:12}{value:>6}"
            f"{len(exchanges):3} calls {tokens:5} tokens, {cached:5} cached {seconds:6.1f} s  {why}"
        )
    return "".join(lines)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("language", SAMPLES)
def test_every_judged_metric_by_a_real_model(llama, language, capsys):
    """Straight from the model's server, which enforces the schema and says what it cached."""
    with Recording(llama) as recording:
        judge = judge_at(recording, max_output_tokens=96)
        for name in dealt(language, proxy=False):
            measured = judged(name, SAMPLES[language], judge, recording)
            with capsys.disabled():
                sys.stdout.write(figures("direct", language, name, *measured))
                sys.stdout.flush()
            check(name, SAMPLES[language], *measured[:2])
        assert judge.structured_output == "json_schema"


@pytest.mark.timeout(3000)
def test_every_judged_metric_through_a_proxy(litellm, capsys):
    """The same through LiteLLM, as many installations have it."""
    with Recording(*litellm) as recording:
        judge = judge_at(recording, max_output_tokens=80)
        for language, name in [(one, name) for one in SAMPLES for name in dealt(one, proxy=True)]:
            measured = judged(name, SAMPLES[language], judge, recording)
            with capsys.disabled():
                sys.stdout.write(figures("litellm", language, name, *measured))
                sys.stdout.flush()
            check(name, SAMPLES[language], *measured[:2])


def test_the_metrics_of_one_request_share_the_beginning_of_their_prompts(llama):
    """The model's server reads rules and chunks once: of the second prompt most is known to it."""
    with Recording(llama) as recording:
        judge = judge_at(recording, max_output_tokens=8)
        shares = []
        for name in ("context_precision", "context_utilization", "context_recall"):
            _, exchanges, _ = judged(name, SAMPLES["en"], judge, recording)
            usage = exchanges[0].usage
            shares.append(usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"])

        assert min(shares[1:]) > 0.5, shares
