"""The corpus as the server's store sees it: what a meter counts of the same requests."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY
from stored import moved, scored, store, told

from ragmeter.exporters._format import text_id
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.protocol import Retrieval
from ragmeter.metrics import LexicalContextUtilization, RagSample, RetrievedContext
from ragmeter.quality.corpus.memory import CorpusMemory, used_places
from ragmeter.quality.gaps.memory import GapMemory
from ragmeter.serve._gauges import store_points
from ragmeter.serve.store import Store
from ragmeter.serve.store.views import Filters

NOW_S = 1_760_000_400.0
OLD = "Our shop takes parcels back. Unused goods may be returned within 30 days of their delivery."


def _request(number):
    (kind,) = scored(1)
    texts = [f"Article {number % 6} tells of subject number {number % 6}.", OLD]
    if number % 2:
        texts[1] = OLD.replace("30", "14")
    contexts = [RetrievedContext(text=text, id=f"doc-{text[:9]}") for text in texts]
    answer = f"Article {number % 6} tells of subject number {number % 6}."
    sample = RagSample(question="What is it?", contexts=contexts, answer=answer, name="shop")
    [used] = LexicalContextUtilization().compute(sample)
    word = "bad" if number % 6 == 4 and number % 9 else "good"
    made = moved(kind, f"r{number}", NOW_S - 60 - number, word=word, sample=sample, metadata={})
    return replace(made, scores={used.name: used})


def test_the_store_lists_what_a_meter_lists():
    requests = [_request(number) for number in range(120)]
    memory, texts = CorpusMemory(), GapMemory()
    for one in requests:
        memory.add(
            one.sample.contexts, at=one.run.started_ns / 1e9, bad=one.verdict.word == "bad",
            used=used_places(one.scores["lexical_context_utilization"]),
        )  # fmt: skip
        texts.add_chunks(context.text for context in one.sample.contexts)
    store = Store(clock=lambda: NOW_S)
    try:
        store.export(requests)
        found = store.reader().chunks(Filters())
    finally:
        store.close()

    assert found == memory.view(texts.chunks(), NOW_S)
    assert [one.quote for one in found.bad] == ["Article 4 tells of subject number 4."]
    assert [one.n for one in found.unused] == [60, 60]
    assert [sorted(one.figures) for one in found.conflicts] == [["14", "30"]]
    assert (found.n_requests, found.n_chunks, found.undated) == (120, 8, 1.0)


@pytest.mark.parametrize("foreign", [False, True], ids=["scored here", "received"])
def test_chunks_of_earlier_turns_support_an_answer_and_were_searched_by_nothing(tmp_path, foreign):
    run = _request(1)
    sample = run.run.sample.model_copy(
        update={
            "contexts": (RetrievedContext(text="Bees collect nectar from flowers.", id="bees"),),
            "carried": (RetrievedContext(text="The tower was built in 1889.", id="tower"),),
            "question": "When was the tower built?",
            "answer": "The tower was built in 1889.",
        }
    )
    with store(tmp_path / "serve.db", clock=lambda: NOW_S) as kept:
        at_ns = run.run.started_ns + 10
        found = Retrieval(started_ns=at_ns, ended_ns=at_ns + 10, contexts=sample.contexts)
        run = replace(run, run=replace(run.run, sample=sample, retrievals=(found,)))
        if foreign:
            for export in told([run]):
                kept.take(export)
        else:
            kept.export([run])
        view = kept.reader().request(run.run.run_id)
        listed = kept.reader().chunks(Filters(range_s=3600))

    assert [(one.number, one.id, one.carried) for one in view.contexts] == [
        (1, "bees", False),
        (2, "tower", True),
    ]
    assert view.evidence.answer[0].supporters == ((2, 1),)
    assert listed.n_chunks == 1, "it is no chunk that this request's search has found"


def test_chunks_without_ids_and_texts_are_counted_by_a_hash_or_not_at_all(tmp_path):
    """Never by their rank: every first chunk would be one."""
    texts = ["Bees collect nectar.", "The tower was built in 1889.", "Bees collect nectar.", ""]
    runs = [
        replace(one, run=replace(one.run, sample=one.run.sample.model_copy(update={"contexts": (context,)}),
            retrievals=(Retrieval(started_ns=one.run.started_ns, ended_ns=one.run.ended_ns, contexts=(context,)),)))
        for one, context in zip(map(_request, range(4)), (RetrievedContext(text=text) for text in texts), strict=True)
    ]  # fmt: skip
    with store(tmp_path / "serve.db", clock=lambda: NOW_S) as kept:
        for export in told(runs, content=False):
            kept.take(export)
        found = kept.reader().chunks(Filters(range_s=3600))
        seen = [
            [chunk.id for chunk in kept.reader().request(one.trace_id).contexts]
            for one in kept.reader().requests().requests
        ]

    assert found.n_chunks == 2
    assert Counter(chain.from_iterable(seen)) == {
        text_id(texts[0]): 2, text_id(texts[1]): 1, None: 1
    }  # fmt: skip


def test_prometheus_has_the_lengths_of_the_lists_and_the_share_of_conversations():
    requests = [
        replace(one, run=replace(one.run, conversation_id=f"talk {number // 6}"))
        for number, one in enumerate(map(_request, range(120)))
    ]
    kept = Store(clock=lambda: NOW_S)
    kept.export(requests)
    provider = MeterProvider([PrometheusMetricReader()])
    try:
        exporter = OpenTelemetryExporter(meter_provider=provider)
        exporter.observe_lists(partial(store_points, kept.reader(), nullcontext()))
        page = {
            (sample.name, sample.labels.get("ragmeter_corpus_list")): sample.value
            for metric in REGISTRY.collect()
            for sample in metric.samples
            if sample.name.startswith(("ragmeter_corpus", "ragmeter_conversation"))
        }
        talks = kept.reader().conversations(Filters(range_s=86_400), limit=1)
    finally:
        provider.shutdown()
        kept.close()

    assert page == {
        ("ragmeter_corpus_chunks", "bad"): 1,
        ("ragmeter_corpus_chunks", "unused"): 2,
        ("ragmeter_corpus_chunks", "conflicts"): 1,
        ("ragmeter_corpus_chunks", "stale"): 1,
        ("ragmeter_conversation_bad", None): talks.share,
        ("ragmeter_conversation_bad_lower", None): talks.lower,
        ("ragmeter_conversation_bad_upper", None): talks.upper,
    }
    assert talks.share == talks.with_bad / 20
