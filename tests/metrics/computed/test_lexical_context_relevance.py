"""`lexical_context_relevance`: one chunk must have what the question names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics import LexicalContextRelevance, RagSample, RetrievedContext
from ragmeter.metrics.protocol import compute_metric
from ragmeter.metrics.sample import search_query_of
from ragmeter.metrics.text.analysis import forget_texts

TEXT = st.text(st.sampled_from(list("aB1 .,。中国Дё\n-/!")), max_size=60) | st.text(max_size=40)


def relevance(question, *contexts):
    sample = RagSample(question=question, contexts=contexts)
    (score,) = compute_metric(LexicalContextRelevance(), sample)
    return score


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("How long does a refund take?", "Refunds are paid within 14 days.", "The harbour."),
        ("Where can I find my invoices?", "Invoices are sent as PDF by mail.", "The harbour."),
        ("退款需要多长时间？", "退款将在14天内支付。", "港口。"),
        (
            "Сколько времени занимает возврат денег?",
            "Возврат денег производится в течение 14 дней.",
            "Порт и гавань.",
        ),
        ("What's the refund's deadline?", "The deadline of a refund is 14 days.", "The harbour."),
    ],
)
def test_question_words_are_no_topic(question, right, wrong):
    """A right chunk need not repeat how it was asked."""
    assert relevance(question, wrong, right).value == 1.0
    assert relevance(question, wrong).value == 0.0


def test_one_chunk_must_have_it():
    """Two chunks with half of the topic each are half as good as one with all of it."""
    question = "When was the Kolka lighthouse lit?"
    apart = relevance(question, "Kolka is a village.", "A lighthouse stands there. It was lit.")
    assert apart.value == pytest.approx(2 / 3)
    assert apart.summary == "chunk-2: 2 of 3"
    assert relevance(question, "The lighthouse of Kolka was lit in 1884.").value == 1.0


def test_neighbours_count_half():
    """All words in the chunk, two of three in neighbouring sentences: (1 + 2/3) / 2."""
    got = relevance(
        "When was the Kolka lighthouse lit?",
        "Kolka has a lighthouse. It is red. Nobody knows why. It was lit in 1884.",
    )
    assert got.value == pytest.approx((1 + 2 / 3) / 2)
    assert got.items[0].evidence == "Kolka has a lighthouse."


def test_half_of_a_bigram_in_each_of_two_neighbours_counts_half():
    """The chunk has both characters of 灯塔, and so have its two sentences together."""
    got = relevance("灯塔", "灯在这里。塔在那里。")
    assert got.value == 0.5
    assert got.items[0].evidence == "灯在这里。 塔在那里。"
    assert relevance("灯塔", "灯在这里。山在这里。塔在那里。").value == 0.25
    assert relevance("NASA 灯塔", "NASA在这里。塔在那里。灯呢。").value == (1.5 / 2 + 1 / 2) / 2


def test_the_best_passage_is_the_evidence():
    """One sentence, or two where the second adds a word; per chunk with its value."""
    got = relevance(
        "notice period of the rental contract",
        "A contract is signed. The rental begins. The notice comes by post.",
        "Nothing here.",
    )
    assert [(item.id, item.value, item.evidence) for item in got.items] == [
        ("chunk-1", pytest.approx((3 / 4 + 2 / 4) / 2), "A contract is signed. The rental begins."),
        ("chunk-2", 0.0, None),
    ]
    assert got.explanation == ("chunk-1 has 3 of the question's 4 topic words; in no chunk: period")
    assert got.summary == "chunk-1: 3 of 4; 1 word in no chunk"


def test_words_in_no_chunk_are_shown_as_the_question_writes_them():
    """Not as stems; Chinese pairs that overlap as one run."""
    got = relevance("Wie: HEREDITARY Properties?", "wie")
    assert got.explanation == (
        "chunk-1 has 1 of the question's 3 topic words; in no chunk: HEREDITARY, Properties"
    )
    assert relevance("灯塔管理员的退款", "退款").explanation.endswith("in no chunk: 灯塔管理员的退")
    none = relevance("Kolka lighthouse", "The harbour.")
    assert none.explanation == (
        "no chunk has any of the question's 2 topic words; in no chunk: Kolka, lighthouse"
    )
    assert none.summary == "no chunk has any of 2 topic words"


def test_a_bigram_that_is_only_half_there_counts_half():
    """灯塔 in 灯和塔."""
    assert relevance("灯塔", "灯和塔").value == 0.5
    assert relevance("灯塔", "灯塔").value == 1.0


def test_edges():
    """No token, no chunk, another script, only question words."""
    assert relevance("?!", "a chunk").status == "undefined"
    assert relevance("And there?", "a chunk").status == "undefined"
    for courtesy in ("ok", "Thank you", "bye", "хорошо, спасибо", "好的，谢谢"):
        assert relevance(courtesy, "a chunk", "Глава", "章").explanation == "no topic word in the question"
    for nothing in ((), ("",), (" \n", "***")):
        empty = relevance("How tall is it in Kolka?", *nothing)
        assert (empty.value, empty.status) == (0.0, "ok")
        assert empty.explanation == empty.summary == "nothing was retrieved"
    other = relevance("Как высок маяк?", "The lighthouse is 21 metres tall.", "")
    assert other.status == "undefined"
    assert other.explanation == "question and chunks are in different scripts"
    assert relevance("What name?", "Its name is Ovisi.").value == 0.5  # none is left: all count
    assert relevance(None, "a").status == "missing_input"


def test_a_question_as_long_as_a_book_is_skipped_where_it_would_take_minutes():
    """Chinese pairs of words and sentences are counted first."""
    question = "".join(chr(0x4E00 + n) for n in range(3_000))
    text = "。".join(chr(0x4E00 + n) + chr(0x4E01 + n) for n in range(1_000))
    score = relevance(question, text)
    assert (score.status, score.error_type) == ("skipped", "too_long")


def test_what_was_searched_for_is_the_question():
    """Of a chat the last turn may say nothing of its topic; the condensed one does."""
    fields = {"question": "And there?", "contexts": ["The lighthouse of Kolka is tall."]}
    (alone,) = compute_metric(LexicalContextRelevance(), RagSample(**fields))
    assert alone.status == "undefined"
    sample = RagSample(**fields, search_query="How tall is the Kolka lighthouse?")
    (condensed,) = compute_metric(LexicalContextRelevance(), sample)
    assert condensed.value == 1.0


@pytest.mark.parametrize(
    ("question", "queries", "expected"),
    [
        ("And there?", ["How tall is it?"], "How tall is it?"),
        ("And there?", ["How tall is it?", "How tall is it?"], "How tall is it?"),
        ("And there?", ["How tall?", "How old?"], None),
        ("And there?", ["And there? "], None),
        ("And there?", ["How tall?", None], None),
        ("And there?", [" "], None),
        ("And there?", [], None),
        (None, ["How tall?"], "How tall?"),
    ],
)
def test_the_query_that_all_retrievals_had(question, queries, expected):
    """Several queries are parts or variants of the question, none is the question."""
    assert search_query_of(question, queries) == expected


@given(TEXT, st.lists(TEXT, max_size=4), st.randoms())
def test_order_and_blank_chunks_do_not_matter(question, contexts, random):
    """The best chunk is the best wherever it stands, and a blank one is never it."""
    value = relevance(question, *contexts).value
    assert value is None or 0 <= value <= 1
    shuffled = random.sample(contexts, len(contexts))
    assert relevance(question, *shuffled).value == value
    assert relevance(question, *contexts, " \n").value == value


WORDS = "harbour bridge Brücke мост моста ёлка year 1932 大桥 港口 的 and the . ! ? 。".split()


@given(
    question=st.lists(st.sampled_from(WORDS), max_size=8),
    chunks=st.lists(st.lists(st.sampled_from(WORDS), max_size=30), max_size=5),
)
def test_the_value_alone_is_that_of_the_score(question, chunks):
    sample = RagSample(
        question=f"What about {' '.join(question)}?",
        contexts=[RetrievedContext(text=" ".join(words)) for words in chunks],
    )

    forget_texts()
    alone = LexicalContextRelevance().value_of(sample)
    forget_texts()

    assert alone == LexicalContextRelevance().compute(sample)[0].value
