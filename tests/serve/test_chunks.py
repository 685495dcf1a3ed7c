"""The corpus as the server's store sees it: what a meter counts of the same requests."""

from dataclasses import replace

from stored import scored

from ragmeter.metrics import LexicalContextUtilization, RagSample, RetrievedContext, Verdict
from ragmeter.quality.corpus.memory import CorpusMemory, used_places
from ragmeter.quality.gaps.memory import GapMemory
from ragmeter.serve.store import Filters, Store

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
    at_ns = int((NOW_S - 60 - number) * 1e9)
    run = replace(
        kind.run, run_id=f"r{number}", sample=sample, started_ns=at_ns, ended_ns=at_ns + 10**6,
        target=None, retrievals=(), metadata={},
    )  # fmt: skip
    [used] = LexicalContextUtilization().compute(sample)
    word = "bad" if number % 6 == 4 and number % 9 else "good"
    return replace(kind, run=run, scores={used.name: used}, verdict=Verdict(word=word))


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
