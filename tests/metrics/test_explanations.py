"""Every free score says in one sentence what it saw, with the request's texts and without."""

import re

import pytest

from ragmeter.metrics import BUILTIN, PrecisionRecallF1, RagSample, Reference, RetrievedContext, evaluate

FREE = [kind() for kind in BUILTIN if not kind.judged]
FREE.append(PrecisionRecallF1(zero_division=0.0).prefixed("zero_"))
GOOD = "Zorblax the quendle stands in Murrim. It was glimped in 1884 by Tavik."
OTHER = "Wolbert sells krants to the fimmel of Drost."
SAMPLES = {
    "mixed": RagSample(
        question="When was the quendle of Zorblax glimped, and by which nurvel?",
        contexts=[
            RetrievedContext(text=GOOD, id="Idzor", score=0.9),
            RetrievedContext(text=OTHER, id="Idwol", score=0.4),
            RetrievedContext(text=GOOD, id="Idzor", score=0.3),
        ],
        answer="Zorblax was glimped in 1884 [1]. Its pelmet is orvid. I don't know the nurvel.",
        reference=Reference(
            answer="Tavik glimped Zorblax in 1884. Its nurvel is Hesker.",
            contexts=[GOOD, "Hesker is the nurvel of Zorblax and lives in Pindrel."],
            context_ids=["Idzor", "Idhes"],
        ),
    ),
    "nothing found": RagSample(
        question="When was the quendle glimped?",
        contexts=[RetrievedContext(text=OTHER, id="Idwol", score=0.4)],
        answer="Glimped in 1884 [1].",
        reference=Reference(answer="Tavik in 1884.", contexts=[GOOD], context_ids=["Idzor"]),
    ),
    "nothing retrieved": RagSample(
        question="When was the quendle glimped?",
        contexts=[],
        answer="Glimped in 1884 [1].",
        reference=Reference(answer="Tavik in 1884.", contexts=[GOOD], context_ids=["Idzor"]),
    ),
    "everything found": RagSample(
        question="quendle Zorblax",
        contexts=[RetrievedContext(text=GOOD, id="Idzor", score=0.9)],
        answer=GOOD,
        reference=Reference(answer=GOOD, contexts=[GOOD], context_ids=["Idzor"]),
    ),
}
OWN_WORDS = re.compile(
    "|".join(
        sorted({word for word in re.findall("[A-Za-z]{5,}", " ".join(map(repr, SAMPLES.values())))
                if re.search("zor|quen|murrim|glimp|tavik|wolb|krant|fimm|drost|nurv|pelm|orvid|hesk|pind|^Id", word, re.IGNORECASE)})
    ),
    re.IGNORECASE,
)  # fmt: skip


@pytest.mark.parametrize("name", list(SAMPLES))
def test_every_free_score_has_both_sentences(name):
    """The summary without a word of the request, ids included."""
    (scores,) = evaluate([SAMPLES[name]], FREE)
    assert len(scores) > 20
    for score in scores.values():
        if score.value is None:
            continue
        assert score.explanation, score.name
        assert score.summary, score.name
        assert "\n" not in score.explanation + score.summary
        assert OWN_WORDS.search(score.summary) is None, (score.name, score.summary)


def test_what_is_missing_is_quoted_where_texts_may_leave():
    """What a person would look for first."""
    (scores,) = evaluate([SAMPLES["mixed"]], FREE)
    said = {name: score.explanation for name, score in scores.items()}
    assert said["recall"] == (
        "2 of 3 golden sentences retrieved; not “Hesker is the nurvel of Zorblax and lives in Pindrel.”"
    )
    assert said["id_recall"] == "1 of 2 golden ids retrieved"
    assert said["hit_rate"] == (
        "1 of 2 golden items found, at rank 1; not “Hesker is the nurvel of Zorblax and lives in Pindrel.”"
    )
    assert said["lexical_context_recall"] == (
        "1 of 2 sentences found in the chunks; not “Its nurvel is Hesker.”"
    )
    assert said["lexical_entity_recall"] == "3 of 4 entities in the chunks; missing: Hesker"
    assert said["lexical_context_precision"] == (
        "2 of 3 chunks on a sentence of the reference, at ranks 1 and 3"
    )
