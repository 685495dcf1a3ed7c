"""The lexical family, retrieval health and entities."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics import (
    ConfigurationError,
    EntityFinder,
    LexicalContextPrecision,
    LexicalContextRecall,
    LexicalEntityRecall,
    LexicalGroundedness,
    LexicalQueryCoverage,
    RagSample,
    Reference,
    default_metrics,
    evaluate,
)
from ragmeter.metrics.text.named_entities import named_entities

TEXT = st.text(st.sampled_from(list("aB1 .,。中Дё\n《》%-/!\x00\u0301")), max_size=60) | st.text(max_size=40)


def score(metric, **fields):
    """Score one sample with a metric of one score."""
    (only,) = evaluate([RagSample(**{"question": "q", **fields})], [metric])[0].values()
    return only


def answer(text):
    return Reference(answer=text)


def test_recall_needs_most_of_a_sentence_in_two_neighbours():
    """Strict reading: a sentence of which the contexts have two words in five is not attributed."""
    reference = "Зелёный мост открыли в 1931 году. Он стоит в Хольме, Дания. Его построила Мара Линд."
    context = "Зелёный мост открыли в 1931 году для выставки в Хольме."
    got = score(LexicalContextRecall(), contexts=[context], reference=answer(reference))
    assert got.value == pytest.approx(1 / 3)
    assert [item.verdict for item in got.items] == [True, False, False]
    assert got.items[0].evidence == context


def test_recall_joins_neighbours_but_not_chunks():
    """A window is two consecutive sentences of one chunk; the whole scope takes all chunks."""
    reference = answer("The red bridge crosses the wide river Olde")
    one, two = "The red bridge stands.", "It crosses the wide river Olde."
    assert score(LexicalContextRecall(), contexts=[f"{one} {two}"], reference=reference).value == 1.0
    apart = [f"{one} Filler here.", "More filler.", two]
    assert score(LexicalContextRecall(), contexts=apart, reference=reference).items[0].value == pytest.approx(
        4 / 6
    )
    assert score(LexicalContextRecall("whole"), contexts=apart, reference=reference).items[0].value == 1.0


@pytest.mark.parametrize(
    ("order", "expected"), [("rxx", 1.0), ("xxr", 1 / 3), ("rxr", 5 / 6), ("xxx", 0.0), ("", None)]
)
def test_precision_is_rank_aware(order, expected):
    """Average precision over chunks that cover a reference sentence; no chunk is undefined."""
    texts = {"r": "Polar Vast is the largest desert on the planet.", "x": "Camels drink a lot."}
    got = score(
        LexicalContextPrecision(),
        contexts=[texts[one] for one in order],
        reference=answer("The largest desert is the Polar Vast."),
    )
    assert got.value == pytest.approx(expected)
    assert got.status == ("undefined" if expected is None else "ok")


def test_query_coverage_counts_distinct_words():
    """3 distinct content words asked, 2 found; each chunk's own share is shown."""
    got = score(
        LexicalQueryCoverage(), question="Is tea, green tea, healthy?", contexts=["Green tea grows.", "Coffee."]
    )
    assert got.value == pytest.approx(2 / 3)
    assert [item.value for item in got.items] == [pytest.approx(2 / 3), 0.0]


def test_entity_recall_reports_tier_and_chunk():
    """Numbers, dates and names by rule; how and where each was found is the evidence."""
    got = score(
        LexicalEntityRecall(),
        contexts=["Nothing here.", "In Brasilia, since 21.04.1960, live 1000 herons."],
        reference=answer("The city of Brasília opened on April 21, 1960, with 1,000 herons and Mara Lund."),
    )
    found = {item.text: (item.verdict, item.reason, item.evidence) for item in got.items}
    assert found == {
        "Brasília": (True, "tier: accents", "chunk-2"),
        "April 21, 1960": (True, "tier: number", "chunk-2"),
        "1,000": (True, "tier: number", "chunk-2"),
        "Mara Lund": (False, "not found", None),
    }
    assert got.value == 0.75


LEXICAL = [
    LexicalContextPrecision(), LexicalContextRecall(), LexicalContextRecall("whole"), LexicalEntityRecall(),
    LexicalGroundedness(), LexicalQueryCoverage(),
]  # fmt: skip


@pytest.mark.parametrize("metric", LEXICAL, ids=lambda m: m.name)
def test_edge_cases_of_the_family(metric):
    """Nothing given is missing, nothing to measure is undefined, nothing retrieved is 0."""
    blank = score(metric, question="?!", contexts=["a word"], answer="...", reference=answer("…"))
    assert (blank.value, blank.status) == (None, "undefined")

    whole = {"question": "Where is Bergen 7?", "answer": "In Bergen 7.", "reference": answer("See Bergen 7.")}
    empty = score(metric, contexts=[], **whole)
    if metric.name == "lexical_context_precision":
        assert empty.status == "undefined"
    else:
        assert (empty.value, empty.status) == (0.0, "ok")
    assert score(metric, contexts=["  "], **whole).value == 0.0
    assert score(metric, contexts=["See Bergen 7, where it is"], **whole).value == 1.0
    assert score(metric, contexts=None, **whole).status == "missing_input"
    assert RagSample(question=None).contexts is None
    bare = evaluate([RagSample(question=None, contexts=["a"])], [metric])[0][metric.name]
    assert bare.status == "missing_input"


def test_a_failed_request_skips_answer_metrics():
    """Answer metrics judge answers: of a failed request there is none."""
    got = score(LexicalGroundedness(), contexts=["a"], answer="a", status="error")
    assert got.status == "skipped"


@pytest.mark.parametrize(
    "build",
    [
        lambda: LexicalContextRecall("page"),
        lambda: LexicalContextRecall(threshold=0),
        lambda: LexicalContextPrecision(2),
    ],
)
def test_wrong_settings_raise(build):
    """Out-of-range thresholds and unknown scopes are refused at construction."""
    with pytest.raises(ConfigurationError):
        build()


@pytest.mark.parametrize(
    ("entity", "tier"),
    [
        ("taj mahal", "string"),
        ("“The Taj Mahal”", "string"),
        ("ＡＧＲＡ", "string"),
        ("1000", "number"),
        ("1 000", "number"),
        ("April 21, 1960", "number"),
        ("21 апреля 1960 г.", "number"),
        ("1960年4月21日", "number"),
        ("3.5", None),
        ("3.5 km", "number"),
        ("Jose", "accents"),
        ("Эйфелева башня", "stems"),
        ("上海市", "han"),
        ("上海", "string"),
        ("5", None),
        ("3", None),
        ("Mah", None),
        ("Yamuna", None),
        ("", None),
        ("!!!", None),
    ],
)
def test_entity_tiers(entity, tier):
    """The tightest tier that finds an entity is reported; parts of words and numbers are none."""
    finder = EntityFinder(
        [
            "The Taj Mahal in Agra, 1,000 steps, seen 21.04.1960 by José.",
            "У Эйфелевой башни, 3,5 км.",
            "他去过上海。",
        ]
    )
    match = finder.find(entity)
    assert tier == (match and match.tier)


def test_named_entities_in_three_languages():
    """Numbers, dates and capitalised spans that do not merely open a sentence."""
    assert named_entities("The Green Bridge is in Holm. It cost 2,000 crowns on May 3, 1931.") == (
        "Green Bridge", "Holm", "2,000", "May 3, 1931",
    )  # fmt: skip
    assert named_entities("Мост стоит в Хольме. Его построила Мара Линд в 1931 году.") == (
        "Хольме",
        "Мара Линд",
        "1931",
    )
    assert "2004" in named_entities("2004年的维修更换了《绿桥》的桥面。")
    assert "绿桥" in named_entities("2004年的维修更换了《绿桥》的桥面。")


@given(TEXT, st.lists(TEXT, max_size=3), TEXT, TEXT)
def test_every_free_metric_survives_any_text(question, contexts, said, wanted):
    """In range and never a `metric_error`, whatever the characters."""
    clean = [text.encode("utf-8", "ignore").decode() for text in (question, said, wanted)]
    sample = RagSample(
        question=clean[0],
        contexts=contexts,
        answer=clean[1],
        reference=Reference(answer=clean[2], contexts=[clean[2], *contexts], context_ids=["1"]),
    )
    (got,) = evaluate([sample], default_metrics())
    for one in got.values():
        assert one.status != "metric_error", one
        lowest, highest = one.range
        assert one.value is None or (one.value >= lowest and (highest is None or one.value <= highest))


@given(st.lists(TEXT, max_size=4), TEXT, st.randoms())
def test_lexical_metrics_ignore_order_and_repeats_of_chunks(contexts, wanted, random):
    """All but the rank-aware precision see the contexts as a set."""
    metrics = [LexicalContextRecall(), LexicalEntityRecall(), LexicalGroundedness(), LexicalQueryCoverage()]

    def values(texts):
        sample = RagSample(question=wanted, contexts=texts, answer=wanted, reference=answer(wanted))
        return {name: one.value for name, one in evaluate([sample], metrics)[0].items()}

    assert values(contexts) == values(random.sample(contexts, len(contexts)) + contexts)
