"""Precision, recall and F1, ranks and ids: golden tables, oracle vectors, properties."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_tools import oracle

from ragmeter.metrics import (
    ROUGE_CHUNK_MATCH_THRESHOLD,
    ROUGE_SENTENCE_MATCH_THRESHOLD,
    ConfigurationError,
    IdPrecisionRecall,
    MatchingStrategy,
    PrecisionRecallF1,
    RagSample,
    RankedRetrieval,
    Reference,
    evaluate,
    sentences,
)
from ragmeter.metrics.computed._rouge_compat import CompatText, covers

CHUNKS = st.lists(st.text(st.sampled_from(list("ab c.。中文дом\n!\ud800")), max_size=12), max_size=5)
EVERY_SETTING = [
    (strategy, backend) for strategy in MatchingStrategy for backend in ("unicode", "rouge_compat")
]


def scores(metric, retrieved, golden=None, ids=None):
    given_ = {}
    if golden is not None:
        given_["contexts"] = golden
    if ids is not None:
        given_["context_ids"] = ids
    sample = RagSample(question="q", contexts=retrieved, reference=Reference(**given_))
    return evaluate([sample], [metric])[0]


def values(metric, retrieved, golden=None, ids=None):
    return {name: score.value for name, score in scores(metric, retrieved, golden, ids).items()}


@pytest.fixture(scope="module")
def punkt():
    """nltk's English sentence splitter, with the data that llama-index-core ships."""
    core = pytest.importorskip("llama_index.core")
    nltk = pytest.importorskip("nltk")
    from nltk.tokenize.punkt import PunktTokenizer

    nltk.data.path.insert(0, str(Path(core.__file__).parent / "_static" / "nltk_cache"))
    return PunktTokenizer("english").tokenize


def test_continuous_eval_is_reproduced(punkt):
    """`rouge_compat` with ``zero_division=0.0`` gives every recorded number of the package."""
    records = oracle("ce_precision_recall_f1")
    assert len(records) == 644
    for record in records:
        strategy = MatchingStrategy[record["params"]["matching_strategy"]]
        metric = PrecisionRecallF1(
            strategy,
            threshold=record["params"]["threshold"] if strategy.uses_rouge else None,
            backend="rouge_compat",
            zero_division=0.0,
            split_sentences=punkt,
        )
        got = values(metric, record["input"]["retrieved_context"], record["input"]["ground_truth_context"])
        expected = {name.removeprefix("context_"): v for name, v in record["expected"].items()}
        assert got == pytest.approx(expected, abs=1e-9), record["id"]


def test_continuous_evals_ranks_are_reproduced():
    """``denominator="retrieved"`` gives its average precision, reciprocal rank and NDCG."""
    records = oracle("ce_ranked")
    assert len(records) == 322
    for record in records:
        strategy = MatchingStrategy[record["params"]["matching_strategy"]]
        metric = RankedRetrieval(
            strategy,
            threshold=record["params"]["threshold"] if strategy.uses_rouge else None,
            backend="rouge_compat",
            denominator="retrieved",
        )
        got = values(metric, record["input"]["retrieved_context"], record["input"]["ground_truth_context"])
        expected = record["expected"]
        if "error" in expected:  # it divides by no golden chunk; ours is undefined
            assert got["ndcg"] is None
        else:
            assert {name: got[name] for name in expected} == pytest.approx(expected, abs=1e-9), record["id"]


def test_the_package_rouge_is_reproduced():
    """As many words of the golden text are covered as `rouge` 1.0.1 counts, and not one more."""
    for record in oracle("rouge_1_0_1_pairs"):
        truth = CompatText(record["input"]["ground_truth"])
        retrieved = CompatText(record["input"]["retrieved"])
        if "error" in record["expected"]:
            assert truth.is_empty or retrieved.is_empty
            assert not covers(truth, retrieved, 0)
        else:
            counted = round(record["expected"]["r"] * len(truth.words))
            assert record["expected"]["r"] == pytest.approx(counted / len(truth.words), abs=1e-12)
            assert covers(truth, retrieved, counted)
            assert not covers(truth, retrieved, counted + 1)


def test_a_thousand_repeats_do_not_lose_the_match():
    """The package raises RecursionError here and says "no match"; ours matches."""
    text = "word " * 1100
    metric = PrecisionRecallF1(MatchingStrategy.ROUGE_CHUNK_MATCH, backend="rouge_compat")
    assert values(metric, [text], [text + "other"])["recall"] == 0.0
    assert values(metric, [text], [text])["recall"] == 1.0


def by_id(retrieved, expected):
    contexts = [{"text": "t", "id": identifier} for identifier in retrieved]
    both = [RankedRetrieval(by="ids"), IdPrecisionRecall()]
    sample = RagSample(question="q", contexts=contexts, reference=Reference(context_ids=expected))
    return {name: score.value for name, score in evaluate([sample], both)[0].items()}


NAMES = {
    "recall": "id_recall", "precision": "id_precision", "mrr": "reciprocal_rank", "hit_rate": "hit_rate",
    "ap": "average_precision", "ndcg_linear": "ndcg", "ndcg_at_k": "ndcg", "recall_at_k": "id_recall",
    "precision_at_k": "id_precision", "ir_hit_rate": "hit_rate",
    "IDBasedContextPrecision": "id_precision", "IDBasedContextRecall": "id_recall",
}  # fmt: skip


@pytest.mark.parametrize(
    ("file", "retrieved_key", "expected_key", "at_least"),
    [
        ("llama_ir_metrics", "retrieved_ids", "expected_ids", 130),
        ("trulens_ir_metrics", "retrieved", "expected", 100),
        ("ragas_id_based", "retrieved_context_ids", "reference_context_ids", 74),
    ],
)
def test_id_metrics_agree_with_the_peers(file, retrieved_key, expected_key, at_least):
    """They agree wherever repeats do not matter; where they raise or say NaN ours has no value."""
    checked = 0
    for record in oracle(file):
        name = NAMES.get(record["metric"])
        retrieved, expected = record["input"][retrieved_key], record["input"][expected_key]
        repeats = any(len({*map(str, ids)}) < len(ids) for ids in (retrieved, expected))
        repeats_matter = name not in {"id_recall", "reciprocal_rank", "hit_rate"}
        if name is None or (repeats and repeats_matter and not file.startswith("ragas")):
            continue
        if record["metric"] == "ndcg_linear" and len(expected) > len(retrieved):
            continue  # its ideal ranking is longer than what was retrieved, so 1 is out of reach
        checked += 1
        got = by_id([str(one) for one in retrieved], expected)[name]
        if isinstance(record["expected"], (dict, str)):
            # Nothing to divide by, or nothing retrieved: never a number where one is impossible.
            assert got in (None, 0.0), record
        elif not retrieved or not expected:
            assert got in (None, 0.0), record
        else:
            assert got == pytest.approx(record["expected"], abs=1e-9), record

    assert checked >= at_least


@pytest.mark.parametrize("strategy", list(MatchingStrategy))
@pytest.mark.parametrize(
    ("retrieved", "golden", "expected"),
    [
        ([], ["A b."], (None, 0.0, 0.0)),
        (["A b."], [], (0.0, None, None)),
        ([], [], (None, None, None)),
        (["A b."], ["A b."], (1.0, 1.0, 1.0)),
        (["A b.", "C d."], ["A b."], (0.5, 1.0, 2 / 3)),
        (["A b.", "A b."], ["A b.", "A b.", "X y."], (1.0, 0.5, 2 / 3)),
        (["C d."], ["A b."], (0.0, 0.0, 0.0)),
    ],
)  # fmt: skip
def test_golden_table(strategy, retrieved, golden, expected):
    """Empty sides, repeats and punctuation, the same for every strategy."""
    got = scores(PrecisionRecallF1(strategy), retrieved, golden)
    assert expected == pytest.approx(tuple(score.value for score in got.values()))
    for score in got.values():
        assert score.status == ("undefined" if score.value is None else "ok")


def test_a_text_without_letters_is_a_chunk_but_no_sentence():
    """As a chunk it matches its equal; by sentence there is nothing to measure."""
    for strategy in MatchingStrategy:
        expected = {None} if strategy.by_sentence else {1.0}
        assert set(values(PrecisionRecallF1(strategy), ["!!!"], ["!!!"]).values()) == expected
    assert set(values(PrecisionRecallF1("rouge_chunk_match"), ["!!"], ["!!!"]).values()) == {0.0}


def test_zero_division_stands_in_for_undefined():
    """As the package: zeros, status ok."""
    got = scores(PrecisionRecallF1(zero_division=0.0), ["A b."], [])
    assert [(s.value, s.status) for s in got.values()] == [(0.0, "ok")] * 3


def test_nothing_given_is_missing_input():
    """Not supplied is not empty: no golden contexts, or retrieval not captured."""
    for metric in (PrecisionRecallF1(), RankedRetrieval(), IdPrecisionRecall()):
        for sample in (
            RagSample(question="q", contexts=["a"]),
            RagSample(question="q", contexts=["a"], reference=Reference(answer="x")),
            RagSample(question="q", reference=Reference(contexts=["a"], context_ids=["1"])),
        ):
            (got,) = evaluate([sample], [metric])
            assert {score.status for score in got.values()} == {"missing_input"}


def test_thresholds_are_reached_with_equality():
    """7 of 10 tokens match at 0.7, 8 of 10 at 0.8; one fewer does not."""
    golden = "a b c d e f g h i j"
    assert (ROUGE_CHUNK_MATCH_THRESHOLD, ROUGE_SENTENCE_MATCH_THRESHOLD) == (0.7, 0.8)
    for strategy, enough in (
        (MatchingStrategy.ROUGE_CHUNK_MATCH, 7),
        (MatchingStrategy.ROUGE_SENTENCE_MATCH, 8),
    ):
        for backend in ("unicode", "rouge_compat"):
            metric = PrecisionRecallF1(strategy, backend=backend)
            assert values(metric, [" ".join(golden.split()[:enough])], [golden])["recall"] == 1.0
            assert values(metric, [" ".join(golden.split()[: enough - 1])], [golden])["recall"] == 0.0


@pytest.mark.parametrize(
    ("chunk", "sentence"),
    [
        ("The bridge opened in 1931. It is green. Cyclists use the north lane.", "It is green."),
        ("Мост открыт в 1931 году. Он зелёный. Велосипедисты едут справа.", "Он зелёный."),
        ("大桥于1931年通车。它是绿色的。骑车人走北侧。", "它是绿色的。"),
    ],
    ids=["en", "ru", "zh"],
)
@pytest.mark.parametrize("strategy", list(MatchingStrategy)[1:])
def test_a_sentence_is_found_in_its_paragraph(chunk, sentence, strategy):
    """In English, Russian and Chinese alike."""
    got = scores(PrecisionRecallF1(strategy), [chunk], [sentence])
    assert got["recall"].value == 1.0
    assert got["recall"].items[0].verdict is True


def test_evidence_says_which_golden_sentence_is_missing():
    """Items name the component, its text, the best retrieved one and the number compared."""
    got = scores(
        PrecisionRecallF1(MatchingStrategy.ROUGE_SENTENCE_MATCH),
        ["The bridge is green. It is long."],
        ["The bridge is green. The tower is very tall."],
    )
    found, missed = got["recall"].items
    assert (found.id, found.verdict, found.evidence, found.value) == (
        "chunk-1/sentence-1", True, "The bridge is green.", 1.0,
    )  # fmt: skip
    assert (missed.verdict, missed.text, missed.value) == (False, "The tower is very tall.", 0.4)
    assert [item.verdict for item in got["precision"].items] == [True, False]


def test_split_sentences_and_dedupe():
    """The caller's splitter is used; repeats can be counted once."""
    metric = PrecisionRecallF1(
        MatchingStrategy.EXACT_SENTENCE_MATCH,
        split_sentences=lambda text: text.split("|"),
        dedupe_retrieved=True,
    )
    assert values(metric, ["a|b|a", "b"], ["b|c"]) == pytest.approx(
        {"precision": 0.5, "recall": 0.5, "f1": 0.5}
    )


@pytest.mark.parametrize(
    "build",
    [
        lambda: PrecisionRecallF1("rouge"),
        lambda: PrecisionRecallF1(threshold=0),
        lambda: PrecisionRecallF1(threshold=1.1),
        lambda: PrecisionRecallF1(threshold=math.nan),
        lambda: PrecisionRecallF1(MatchingStrategy.EXACT_CHUNK_MATCH, threshold=0.5),
        lambda: PrecisionRecallF1(backend="fast"),
        lambda: PrecisionRecallF1(zero_division=2),
        lambda: RankedRetrieval(MatchingStrategy.ROUGE_SENTENCE_MATCH),
        lambda: RankedRetrieval(denominator="some"),
        lambda: RankedRetrieval(by="text"),
    ],
)
def test_wrong_settings_raise_at_construction(build):
    """The message names the value and what is allowed."""
    with pytest.raises(ConfigurationError, match=r" is |no threshold|which have no rank"):
        build()


@pytest.mark.parametrize(
    ("retrieved", "golden", "expected"),
    [
        (["a", "x", "y"], ["a"], (1.0, 1.0, 1.0, 1.0)),
        (["x", "y", "a"], ["a"], (1 / 3, 1 / 3, 0.5, 1.0)),
        (["a", "x", "y"], ["a", "b"], (0.5, 1.0, 1 / (1 + 1 / math.log2(3)), 1.0)),
        (["a", "a", "a"], ["a"], (1.0, 1.0, 1.0, 1.0)),
        (["a"], ["a", "a", "a"], (1.0, 1.0, 1.0, 1.0)),
        ([], ["a"], (0.0, 0.0, 0.0, 0.0)),
        (["a"], [], (None, None, None, None)),
    ],
)
def test_ranks_by_text_and_by_id(retrieved, golden, expected):
    """Each golden item is credited once; the same numbers for texts and for ids."""
    names = ("average_precision", "reciprocal_rank", "ndcg", "hit_rate")
    by_text = values(RankedRetrieval(), retrieved, golden)
    contexts = [{"text": "t", "id": one} for one in retrieved]
    by_ids = scores(RankedRetrieval(), contexts, ids=golden)
    assert expected == pytest.approx(tuple(by_text[name] for name in names))
    assert expected == pytest.approx(tuple(by_ids[name].value for name in names))
    assert {score.method for score in by_ids.values()} <= {"exact"} or not golden


def test_ids_are_strings_and_chunks_without_id_never_hit():
    """1 equals "1", case counts, a chunk without id is one more retrieved id."""
    contexts = [{"text": "t", "id": "1"}, {"text": "t", "id": "2"}, {"text": "t", "id": "3"}]
    assert values(IdPrecisionRecall(), contexts, ids=[1, 2]) == pytest.approx(
        {"id_precision": 2 / 3, "id_recall": 1.0}
    )
    mixed = [{"text": "t", "id": "a"}, {"text": "t"}, {"text": "t", "id": "A"}]
    assert values(IdPrecisionRecall(), mixed, ids=["A"]) == pytest.approx(
        {"id_precision": 1 / 3, "id_recall": 1.0}
    )
    assert values(IdPrecisionRecall(), [], ids=["A"]) == {"id_precision": None, "id_recall": 0.0}
    for metric in (IdPrecisionRecall(), RankedRetrieval()):
        got = scores(metric, ["no id"], ids=["A"])
        assert {score.status for score in got.values()} == {"missing_input"}


@given(CHUNKS, CHUNKS, st.sampled_from(EVERY_SETTING), st.randoms())
def test_properties_of_precision_recall_f1(retrieved, golden, setting, random):
    """In range; order does not matter; repeats of golden texts change nothing; self matches."""
    metric = PrecisionRecallF1(setting[0], backend=setting[1])
    retrieved = [text.replace("\ud800", "") for text in retrieved]
    golden = [text.replace("\ud800", "") for text in golden]
    got = values(metric, retrieved, golden)
    assert all(value is None or 0.0 <= value <= 1.0 for value in got.values())

    shuffled = random.sample(retrieved, len(retrieved))
    assert got == pytest.approx(values(metric, shuffled, random.sample(golden, len(golden))))
    assert got == values(metric, retrieved, golden + golden)
    if setting[1] == "unicode":
        itself = values(metric, golden, golden)
        assert set(itself.values()) <= {1.0, None}


@given(CHUNKS, CHUNKS, st.sampled_from(["all", "retrieved"]))
def test_ranks_stay_in_range(retrieved, golden, denominator):
    """Never above 1, however often a text is repeated."""
    clean = [[text.replace("\ud800", "") for text in texts] for texts in (retrieved, golden)]
    got = values(RankedRetrieval(denominator=denominator), *clean)
    assert all(value is None or 0.0 <= value <= 1.0 + 1e-12 for value in got.values())


def test_ten_megabytes_are_measured():
    """One chunk of 10 MB against a golden sentence: a value, not a hang."""
    chunk = "The bridge over the river is green and was opened by the mayor. " * 160_000
    got = values(PrecisionRecallF1(MatchingStrategy.ROUGE_CHUNK_MATCH), [chunk], [sentences(chunk[:200])[0]])
    assert got["recall"] == 1.0
