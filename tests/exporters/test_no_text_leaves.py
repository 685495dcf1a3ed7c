"""Without the opt-in no word of question, contexts, answer or reference leaves: every metric, every exporter.

The words of the samples are such that nothing of ours says them: rare English words, a number too long to come
up by chance, and Russian and Chinese, of which ragmeter itself writes nothing.  A judge quotes all of it in every
reason it gives.
"""

import json
import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai_server import OpenAIServer, well_formed

from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.exporters.langfuse import LangfuseScores
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.phoenix import PhoenixAnnotations
from ragmeter.metrics import (
    RagSample,
    Reference,
    RetrievalStage,
    RetrievedContext,
    SemanticContextRelevance,
    VerdictRules,
    evaluate,
    known_metrics,
    resolve_metrics,
)
from ragmeter.metrics.judge import OpenAIJudge

RARE = ("Quokkas", "persimmons", "Zanzibar", "marzipan", "obsidian", "xylophones", "Kierkegaard")
NUMBER = "7311973119731197"
OTHER_SCRIPTS = re.compile(r"[\u0400-\u04ff\u3400-\u9fff]+")
MARKS = (*(word[:5].casefold() for word in RARE), NUMBER)
"""Beginnings of the words, so that a stem is found, too."""

ENGLISH = {
    "question": "How many persimmons do Quokkas of Zanzibar eat?",
    "contexts": (
        f"Quokkas of Zanzibar eat {NUMBER} persimmons. Kierkegaard counted them.",
        "Marzipan is sold beside xylophones in Zanzibar.",
        "Obsidian is not eaten.",
    ),
    "answer": f"Quokkas eat {NUMBER} persimmons [1]. Obsidian xylophones are tuned by Kierkegaard [2, 7].",
    "refusal": "I cannot find anything about persimmons in the documents. The text does not mention Quokkas.",
    "reference": f"Kierkegaard says that Quokkas eat {NUMBER} persimmons.",
}
RUSSIAN = {
    "question": "Сколько хурмы съедают квокки Занзибара?",
    "contexts": (
        f"Квокки Занзибара съедают {NUMBER} плодов хурмы. Их сосчитал Кьеркегор.",
        "Марципан продают рядом с ксилофонами.",
        "Обсидиан не едят.",
    ),
    "answer": f"Квокки съедают {NUMBER} плодов хурмы [1]. Обсидиан настраивает Кьеркегор [2].",
    "refusal": "К сожалению, в документах нет информации о хурме.",
    "reference": f"Кьеркегор говорит, что квокки съедают {NUMBER} плодов хурмы.",
}
CHINESE = {
    "question": "桑给巴尔的短尾矮袋鼠吃多少柿子？",
    "contexts": (
        f"桑给巴尔的短尾矮袋鼠吃{NUMBER}个柿子。克尔凯郭尔数过。",
        "杏仁糖和木琴一起出售。",
        "黑曜石不能吃。",
    ),
    "answer": f"短尾矮袋鼠吃{NUMBER}个柿子【1】。黑曜石由克尔凯郭尔调音。",
    "refusal": "抱歉，文档中没有提到柿子。",
    "reference": f"克尔凯郭尔说短尾矮袋鼠吃{NUMBER}个柿子。",
}


IDS = ("doc-1", "doc-9")


def shapes():
    """Yield samples of every shape: each part there, blank or absent, in each language and mixed."""
    for told in (ENGLISH, RUSSIAN, CHINESE):
        chunks = told["contexts"]
        retrieved = (
            None,
            (),
            ("", "  "),
            chunks,
            (*chunks, chunks[0], " ".join(chunks)),
            tuple(RetrievedContext(text=text, id=f"doc-{n}", score=1 / n) for n, text in enumerate(chunks, 1)),
        )
        answers = (None, " ", told["answer"], told["refusal"], told["refusal"] + told["answer"])
        for contexts, answer in product(retrieved, answers):
            yield RagSample(question=told["question"], contexts=contexts, answer=answer)
        reference = Reference(answer=told["reference"], contexts=chunks[:2], context_ids=IDS)
        for contexts, answer in product(retrieved, answers[1:3]):
            yield RagSample(question=told["question"], contexts=contexts, answer=answer, reference=reference)
        found = tuple(RetrievedContext(text=text, id=f"doc-{n}") for n, text in enumerate(chunks, 1))
        stages = (
            RetrievalStage(name="dense", kind="retriever", contexts=found),
            RetrievalStage(name="rerank", kind="postprocessor", contexts=found[1:], inputs=(0,)),
        )
        yield RagSample(
            question=told["question"],
            contexts=found[1:],
            contexts_by="prompt",
            stages=stages,
            answer=told["answer"],
            reference=reference,
        )
        yield RagSample(question=None, contexts=chunks, answer=told["answer"])
        yield RagSample(question="?", contexts=chunks, answer=told["answer"])
    yield RagSample(question=ENGLISH["question"], contexts=CHINESE["contexts"], answer=RUSSIAN["answer"])


SHAPES = list(shapes())
WITH_EVERYTHING = [s for s in SHAPES if s.reference and s.contexts and s.answer and s.answer.strip()]


def scored(make, samples, metrics, judge=None):
    """Return the samples as scored requests with spans of their own and verdicts."""
    runs = []
    for number, (sample, scores) in enumerate(zip(samples, evaluate(samples, metrics, judge), strict=True)):
        run = make.scored_run(
            tuple(scores.values()),
            retrieval={"contexts": sample.contexts or (), "query": sample.question},
            run_id=f"run-{number}",
            parent=make.span_context(0xA1, 0xB000 + number),
        )
        verdict = VerdictRules().verdict(scores, sample.status)
        runs.append(replace(run, run=replace(run.run, sample=sample), verdict=verdict))
    return runs


def everything_sent(runs, sdk, backend, directory):
    """Return all that the exporters write about `runs`, as one text."""
    written = []
    for mode in ("own", "evaluation"):
        otel = OpenTelemetryExporter(**sdk.providers, span_mode=mode, events="both")
        otel.export(runs)
        PhoenixAnnotations(backend.url, spans=otel, trace_annotations=True).export(runs)
        LangfuseScores(backend.url, "pk", "sk", spans=otel).export(runs)
    names = sorted({name for run in runs for name in run.scores})
    PhoenixAnnotations(backend.url, spans=otel, scores=names).export(runs)
    lines = directory / "scores.jsonl"
    JsonlExporter(lines).export(runs)
    written.append(lines.read_text(encoding="utf-8"))
    for span in sdk.all_spans():
        written += [span.name, repr(dict(span.attributes)), repr(span.status.description)]
        written += [repr((event.name, dict(event.attributes))) for event in span.events]
    written += [repr((record.body, dict(record.attributes))) for record in sdk.records()]
    written += [repr(dict(p.attributes)) for points in sdk.points().values() for p in points]
    written += [json.dumps(body, ensure_ascii=False) for _, _, body, _ in backend.requests]
    return "\n".join(written)


def assert_no_text(sent):
    found = [mark for mark in MARKS if mark in sent.casefold()] + OTHER_SCRIPTS.findall(sent)
    places = [sent[max(0, sent.casefold().find(m.casefold()) - 120) :][:200] for m in found[:3]]
    assert not found, f"{found[:10]} in {places}"


def metric_of(name):
    """Return a metric by name, with an embedder where it asks for one."""
    if name == "semantic_context_relevance":
        return SemanticContextRelevance(lambda texts: [[1.0, len(text) % 7 + 1.0] for text in texts])
    [metric] = resolve_metrics([name])
    return metric


def free(name):
    return not metric_of(name).judged


FREE = [name for name in known_metrics() if free(name)]
JUDGED = [name for name in known_metrics() if not free(name)]


@pytest.mark.parametrize("metric", FREE)
def test_no_text_leaves_with_any_free_metric(make, metric, sdk, backend, tmp_path):
    runs = scored(make, SHAPES[::4] + WITH_EVERYTHING[::2], [metric_of(metric)])

    assert any(score.value is not None for run in runs for score in run.scores.values())
    assert_no_text(everything_sent(runs, sdk, backend, tmp_path))


@pytest.mark.parametrize("metric", JUDGED)
@pytest.mark.parametrize(
    "verdicts", [(True, True, False), pytest.param(("yes", "no", None), marks=pytest.mark.slow)]
)
def test_no_text_leaves_with_any_judged_metric(make, metric, verdicts, sdk, backend, tmp_path):
    """Whatever the judge says, and however much of the texts is in it."""
    with OpenAIServer() as server:
        server.script.extend([_quoting(verdicts)] * 2_000)
        judge = OpenAIJudge("m", server.url, "k", max_retries=0)
        samples = SHAPES[3::14] + WITH_EVERYTHING[::4]
        runs = scored(make, samples, [metric], judge)

    assert_no_text(everything_sent(runs, sdk, backend, tmp_path))


WORDS = st.sampled_from([*RARE, NUMBER, "квокки", "хурма", "柿子", "袋鼠", "the", "not", "?", ".", "\n", "[1]"])
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


@given(
    question=st.none() | TEXTS,
    contexts=st.none() | st.lists(TEXTS, max_size=4).map(tuple),
    answer=st.none() | TEXTS,
    reference=st.none() | TEXTS,
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_leaves_with_all_free_metrics_of_any_request(
    make, sdk, backend, tmp_path, question, contexts, answer, reference
):
    sample = RagSample(
        question=question,
        contexts=contexts,
        answer=answer,
        reference=None if reference is None else Reference(answer=reference, contexts=(reference,)),
    )
    runs = scored(make, [sample], [metric_of(name) for name in FREE])

    assert_no_text(everything_sent(runs, sdk, backend, tmp_path))


def _quoting(verdicts):
    """Return a reply that gives `verdicts` in turn, with the prompt's texts as every reason."""

    def reply(request):
        said = well_formed(request, lambda _, item_id: verdicts[int(item_id[1:]) % len(verdicts)])
        return _with_reasons(said, " ".join((*RARE, NUMBER, "квокки 柿子")))

    return reply


def _with_reasons(said, text):
    if isinstance(said, dict):
        return {k: text if k == "reason" else _with_reasons(v, text) for k, v in said.items()}
    return [_with_reasons(each, text) for each in said] if isinstance(said, list) else said
