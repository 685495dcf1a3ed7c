"""How many documents passed each stage, and what became of each right one."""

import pytest
from pydantic import ValidationError

from ragmeter.metrics import (
    RagSample,
    Reference,
    RetrievalFunnel,
    RetrievalStage,
    RetrievedContext,
    RightDocumentLoss,
)
from ragmeter.metrics.protocol import compute_metric

TEXTS = {
    "a": "Apples are picked in the late summer of the north.",
    "b": "Bridges need new paint every seven years at least.",
    "c": "Candles burn longer when they have been kept cold.",
    "d": "Dolphins sleep with one half of their brain at a time.",
}
CONTEXTS = {name: RetrievedContext(text=text, id=name) for name, text in TEXTS.items()}


def contexts(found):
    """Contexts by their names, or as they are."""
    return tuple(CONTEXTS[one] if isinstance(one, str) else one for one in found)


def stage(name, kind, left, *inputs, recorded=True):
    found = None if left is None else contexts(left)
    return RetrievalStage(name=name, kind=kind, contexts=found, inputs=inputs, recorded=recorded)


DENSE = stage("dense", "retriever", "ab")
LEXICAL = stage("lexical", "retriever", "cb")
ENSEMBLE = stage("ensemble", "fusion", "bac", 0, 1)


def sample_of(stages, prompt, *, ids=None, **fields):
    fields = {"contexts_by": "prompt", "answer": "Yes.", **fields}
    if ids is not None:
        fields["reference"] = Reference(context_ids=list(ids))
    return RagSample(
        question="?", contexts=None if prompt is None else contexts(prompt), stages=stages, **fields
    )


def funnel(sample):
    [score] = compute_metric(RetrievalFunnel(), sample)
    return score


def loss(sample):
    """The first score, and the fate of each right document."""
    dropped, never = compute_metric(RightDocumentLoss(), sample)
    assert dropped.items == never.items
    return dropped, never, [item.reason for item in dropped.items]


def fates(stages, prompt, ids, **fields):
    return loss(sample_of(stages, prompt, ids=ids, **fields))[2]


def test_counts_per_stage():
    score = funnel(sample_of([DENSE, LEXICAL, ENSEMBLE], "ba"))
    assert [(item.id, item.value) for item in score.items] == [
        ("dense", 2.0),
        ("lexical", 2.0),
        ("ensemble", 3.0),
        ("unknown", None),
        ("prompt", 2.0),
    ]
    assert score.value == pytest.approx(2 / 3)
    assert score.summary == "dense 2 and lexical 2 → ensemble 3 → unknown → prompt 2"
    assert score.direction == "none"
    assert score.explanation == f"{score.summary}; not in the prompt: “{TEXTS['c']}”"


def test_what_is_inferred_is_marked():
    stages = [DENSE, stage("unknown", "unknown", "b", 0, recorded=False)]
    score = funnel(sample_of(stages, "b", contexts_by="runs"))
    assert score.summary == "dense 2 → unknown 1 (inferred) → prompt 1 (inferred)"
    assert [item.reason for item in score.items] == [
        "retriever, recorded",
        "unknown, inferred",
        "prompt, inferred",
    ]


def test_what_was_not_seen_is_unknown_and_never_0():
    score = funnel(sample_of([stage("dense", "retriever", None)], "a"))
    assert (score.status, score.value) == ("undefined", None)
    assert score.summary == "dense unknown → prompt 1"
    assert score.items[0].value is None
    failed = funnel(sample_of([DENSE], "ab", contexts_by="runs", status="error", answer=None))
    assert failed.summary == "dense 2 → prompt unknown"
    assert failed.value is None


def test_without_a_model_it_is_no_prompt():
    sample = sample_of([DENSE], "ab", ids="a", contexts_by="runs", status="retrieval_only")
    assert funnel(sample).summary == "dense 2 → output 2"
    assert loss(sample)[2] == ["returned"]


def test_nothing_was_retrieved():
    score = funnel(sample_of([stage("dense", "retriever", "")], ""))
    assert (score.status, score.summary) == ("undefined", "dense 0 → prompt 0")
    assert fates([stage("dense", "retriever", "")], "", "a") == ["never_found"]


def test_nobody_watched():
    sample = sample_of(None, "a", ids="a")
    for metric in (RetrievalFunnel(), RightDocumentLoss()):
        for score in compute_metric(metric, sample):
            assert (score.status, score.missing) == ("missing_input", "stages")


def test_names_that_come_twice_and_names_of_ours():
    stages = [DENSE, DENSE, stage("prompt", "function", "a", 0), stage("x\n y", "function", "a", 2)]
    found = [item.id for item in funnel(sample_of(stages, "a")).items]
    assert found == ["dense", "dense-2", "prompt-2", "x y", "unknown", "prompt"]


CHAIN = [DENSE, LEXICAL, ENSEMBLE]


@pytest.mark.parametrize(
    ("stages", "prompt", "expected"),
    [
        ([*CHAIN], "bac", "in_prompt"),
        ([*CHAIN, stage("filter", "function", "ac", 2)], "ac", "dropped_by filter"),
        ([*CHAIN, stage("rerank", "postprocessor", "a", 2)], "a", "dropped_by rerank"),
        ([DENSE, LEXICAL, stage("ensemble", "fusion", "ca", 0, 1)], "ca", "dropped_by ensemble"),
        ([*CHAIN], "ac", "dropped_by unknown"),
        ([*CHAIN, stage("all", "function", "", 2)], "", "dropped_by all"),
        # In the order of the list and cut: by a function, or by nobody that was seen.
        ([stage("dense", "retriever", "acb")], "ac", "ranked_below_k unknown"),
        ([stage("dense", "retriever", "acb"), stage("top", "function", "ac", 0)], "ac", "ranked_below_k top"),
        # A reranker of the framework's own is made to choose.
        (
            [stage("dense", "retriever", "acb"), stage("rerank", "postprocessor", "ac", 0)],
            "ac",
            "dropped_by rerank",
        ),
        # Who moved it below is to blame, not who cut.
        (
            [
                stage("dense", "retriever", "bac"),
                stage("rerank", "function", "acb", 0),
                stage("keep", "function", "acb", 1),
                stage("top", "function", "ac", 2),
            ],
            "ac",
            "ranked_below_k rerank",
        ),
        ([stage("dense", "retriever", "ac")], "ac", "never_found"),
        ([stage("dense", "retriever", None)], "ac", "unknown"),
        ([*CHAIN, stage("rerank", "postprocessor", None, 2)], "ac", "unknown"),
        # Two ways: the one that came nearer to the model.
        ([DENSE, LEXICAL, stage("rerank", "postprocessor", "a", 0)], "ac", "dropped_by unknown"),
    ],
)
def test_the_fate_of_b(stages, prompt, expected):
    assert fates(stages, prompt, "b") == [expected]
    by_text = sample_of(stages, prompt, reference=Reference(contexts=[TEXTS["b"]]))
    assert loss(by_text)[2] == [expected]


def test_shares_label_and_sentence():
    sample = sample_of([*CHAIN, stage("rerank", "function", "a", 2)], "a", ids="abcd")
    dropped, never, found = loss(sample)
    assert found == ["in_prompt", "dropped_by rerank", "dropped_by rerank", "never_found"]
    assert (dropped.value, never.value) == (0.5, 0.25)
    assert (dropped.label, never.label) == ("rerank", None)
    assert dropped.summary == ("4 right documents: 2 dropped by rerank, 1 in the prompt, 1 never found")
    assert dropped.explanation == f"{dropped.summary}; e.g. “b”"
    assert never.explanation == f"{never.summary}; e.g. “d”"
    assert [item.verdict for item in dropped.items] == [True, False, False, False]
    assert [item.value for item in dropped.items] == [1.0, 1.0, 3.0, None]
    assert dropped.items[1].evidence == "rank 1 of ensemble, recorded"
    assert dropped.method == "exact"


def test_no_text_of_the_request_is_in_a_summary():
    reference = Reference(contexts=[TEXTS["b"], TEXTS["d"]])
    sample = sample_of([*CHAIN, stage("rerank", "function", "a", 2)], "a", reference=reference)
    for score in (*compute_metric(RightDocumentLoss(), sample), funnel(sample)):
        assert score.summary
        assert not any(text in score.summary for text in TEXTS.values())
        assert any(text in str(score.explanation) for text in TEXTS.values())


def test_nothing_lost():
    dropped, never, _ = loss(sample_of(CHAIN, "bac", ids="ab"))
    assert (dropped.value, dropped.label, never.value) == (0.0, "none", 0.0)


def test_unknown_fates_are_bounds():
    dropped, never, _ = loss(sample_of([DENSE, stage("lexical", "retriever", None)], "a", ids="abc"))
    for score, lower, upper in ((dropped, 1 / 3, 2 / 3), (never, 0, 1 / 3)):
        assert (score.status, score.value) == ("partial", None)
        assert (score.lower, score.upper) == (pytest.approx(lower), pytest.approx(upper))


def test_golden_items_given_empty():
    dropped, never, _ = loss(sample_of(CHAIN, "a", ids=""))
    assert (dropped.status, never.status, dropped.label) == ("undefined", "undefined", None)


def test_documents_without_ids():
    nameless = RetrievedContext(text=TEXTS["a"])
    sources = [stage("bm25", "retriever", [nameless])]
    sample = sample_of(sources, "", ids="a")
    assert loss(sample)[0].missing == "contexts.id"
    # One source tells ids, the other one does not: what is asked for may be among its documents.
    assert fates([*sources, DENSE], "ab", ["a", "b", "d"]) == ["in_prompt", "in_prompt", "never_found"]
    other = RetrievedContext(text=TEXTS["c"])
    stages = [stage("bm25", "retriever", [other]), DENSE]
    assert fates(stages, "ab", "d") == ["unknown"]


def test_a_document_is_followed_by_its_text_where_ids_change():
    parent = RetrievedContext(text=f"{TEXTS['a']} {TEXTS['b']}", id="parent")
    merged = stage("merge", "postprocessor", [parent], 0)
    sample = sample_of([DENSE, merged], [parent], reference=Reference(context_ids=["a", "b", "c"]))
    assert loss(sample)[2] == ["in_prompt", "in_prompt", "never_found"]
    assert funnel(sample).value == 1.0


def test_an_extract_is_a_part_of_its_document():
    extract = RetrievedContext(text=TEXTS["b"][:30])
    compressed = stage("extractor", "postprocessor", [extract], 0)
    for reference in (Reference(context_ids=["a", "b"]), Reference(contexts=[TEXTS["a"], TEXTS["b"]])):
        sample = sample_of([DENSE, compressed], [extract], reference=reference)
        assert loss(sample)[2] == ["dropped_by extractor", "in_prompt"]
        assert funnel(sample).value == 0.5


def test_too_long_a_text_of_a_stage_skips_what_reads_it():
    sample = sample_of(CHAIN, "a", ids="a")
    for score in compute_metric(RightDocumentLoss(), sample, max_text_chars=10):
        assert (score.status, score.error_type) == ("skipped", "too_long")


def test_rewritten_documents_without_ids_are_unknown_and_not_dropped():
    rewritten = RetrievedContext(text="Pommes werden im Spätsommer gepflückt.")
    translate = stage("translate", "function", [rewritten], 0)
    sample = sample_of([DENSE, translate], [rewritten], reference=Reference(context_ids=["a", "c"]))
    dropped, _never, found = loss(sample)
    assert found == ["unknown", "never_found"]
    assert (dropped.status, dropped.label) == ("partial", None)
    assert (funnel(sample).status, funnel(sample).value) == ("undefined", None)


def test_rewritten_documents_that_keep_their_ids_are_followed():
    rewritten = RetrievedContext(text="Pommes werden im Spätsommer gepflückt.", id="a")
    translate = stage("translate", "function", [rewritten], 0)
    for reference in (Reference(context_ids=["a"]), Reference(contexts=[TEXTS["a"]])):
        sample = sample_of([DENSE, translate], [rewritten], reference=reference)
        assert loss(sample)[2] == ["in_prompt"]
    assert funnel(sample).value == 0.5


def test_chunks_that_share_their_documents_id_are_told_apart_by_text():
    one, two = (CONTEXTS[name].model_copy(update={"id": "doc"}) for name in "ab")
    stages = (stage("store", "retriever", [one, two]), stage("rerank", "function", [two], 0))
    sample = sample_of(stages, [two], reference=Reference(contexts=[TEXTS["a"], TEXTS["b"]]))
    assert loss(sample)[2] == ["dropped_by rerank", "in_prompt"]


def test_records_that_differ_in_a_name_are_told_apart():
    """ROUGE-L would take each for the other one."""
    texts = [f"The branch of {city} is open from nine to five on all days." for city in ("Oslo", "Riga")]
    oslo, riga = (RetrievedContext(text=text) for text in texts)
    stages = (stage("store", "retriever", [oslo, riga]), stage("rerank", "function", [riga], 0))
    sample = sample_of(stages, [riga], reference=Reference(contexts=texts))
    assert loss(sample)[2] == ["dropped_by rerank", "in_prompt"]


@pytest.mark.parametrize(
    ("text", "golden", "other"),
    [
        (
            "Apples are picked in late summer, and kept in the cellar.",
            "Apples are picked in late summer and kept in a cellar.",
            "Bridges need new paint every seven years.",
        ),
        (
            "Яблоки собирают в конце лета и хранят в холодном погребе.",
            "Яблоки собирают в конце лета и хранят в погребе.",
            "Мосты красят каждые семь лет, даже если они не ржавеют.",
        ),
    ],
)
def test_a_golden_text_that_stands_nowhere_as_it_is(text, golden, other):
    """Then what is nearly the same counts, as for recall."""
    near, far = RetrievedContext(text=text), RetrievedContext(text=other)
    stages = (stage("store", "retriever", [near, far]), stage("rerank", "postprocessor", [far], 0))
    sample = sample_of(
        stages, [far], reference=Reference(contexts=[golden, "Nobody has ever said anything like this."])
    )
    assert loss(sample)[2] == ["dropped_by rerank", "never_found"]


@pytest.mark.parametrize("inputs", [(0,), (1,), (-1,)])
def test_a_stage_is_given_documents_by_earlier_ones_only(inputs):
    with pytest.raises(ValidationError, match="earlier stages"):
        sample_of([stage("rerank", "function", "a", *inputs)], "a")


LONG = RetrievedContext(text=f"{TEXTS['a']} {TEXTS['b']}", id="long")


@pytest.mark.parametrize(
    ("shown", "fates"),
    [
        (LONG.text, ["in_prompt", "in_prompt"]),
        (TEXTS["a"], ["in_prompt", "cut_by unknown"]),
        (TEXTS["b"], ["cut_by unknown", "in_prompt"]),
        (TEXTS["a"][:30], ["in_prompt", "cut_by unknown"]),
        (f"{TEXTS['a'][:20]} … {TEXTS['b'][-20:]}", ["in_prompt", "in_prompt"]),
        ("Äpfel werden im Norden im Spätsommer gepflückt.", ["in_prompt", "in_prompt"]),
    ],
)
def test_what_a_prompt_cut_off_is_lost_and_the_rest_is_not(shown, fates):
    """Text that stands in no document was made of one: nothing is known to be cut."""
    retrieved = RetrievalStage(name="dense", kind="retriever", contexts=(LONG,))
    prompt = [RetrievedContext(text=shown, id="long")]
    golden = Reference(contexts=[TEXTS["a"], TEXTS["b"]])
    sample = sample_of([retrieved], prompt, reference=golden)
    dropped, _, found = loss(sample)
    assert found == fates
    assert dropped.value == fates.count("cut_by unknown") / 2
    assert ("1 cut" in funnel(sample).explanation) == (
        (shown in LONG.text and shown != LONG.text) or "…" in shown
    )


def test_a_stage_that_cuts_is_named():
    retrieved = RetrievalStage(name="dense", kind="retriever", contexts=(LONG,))
    half = RetrievedContext(text=TEXTS["a"], id="long")
    cutter = RetrievalStage(name="shorten", kind="function", contexts=(half,), inputs=(0,))
    golden = Reference(contexts=[TEXTS["b"]])
    dropped, _, found = loss(sample_of([retrieved, cutter], [half], reference=golden))
    assert (found, dropped.label) == (["cut_by shorten"], "shorten")
