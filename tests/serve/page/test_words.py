"""The page's words in three languages."""

import json
import re
import string
from pathlib import Path

import pytest

from ragmeter.exporters.change_words import LANGUAGES
from ragmeter.metrics import RagSample, Reference, evaluate, registry
from ragmeter.quality.verdict_shares import VERDICT_BAD, VERDICT_NOT_GOOD
from ragmeter.serve import page
from ragmeter.serve.page._words import chosen_language, words_in

FOLDER = Path(page.__file__).parent / "words"
READ = {code: json.loads((FOLDER / f"{code}.json").read_text("utf-8")) for code in LANGUAGES}


def fields(text):
    texts = text if isinstance(text, list) else [text]
    return {name for one in texts for _, name, _, _ in string.Formatter().parse(one) if name}


@pytest.mark.parametrize("code", ["ru", "zh"])
def test_every_language_has_the_same_words_with_the_same_values(code):
    for part in ("words", "scores"):
        assert READ[code][part].keys() == READ["en"][part].keys()
        for key, text in READ["en"][part].items():
            assert fields(READ[code][part][key]) == fields(text), key


SAMPLES = (
    RagSample(question="When does the ferry leave?", contexts=["The ferry leaves at nine."], answer="At ten.",
              reference=Reference(answer="At nine, from Roja.", contexts=["The ferry leaves at nine.", "It is red."])),
    RagSample(question="Why?", contexts=["It is 5 km.", "It is 5 km.", "The fare is $3; cash only."], answer=(
        "It is 7 km long. The fare is not $3; cash and card are taken by the crew of the red boat. I do not know."
    )),
    RagSample(question="Where is it?", contexts=["A long text, with a ferry."], answer="I do not know."),
    RagSample(question="Where is it?", contexts=[], answer="In the north."),
    RagSample(question="Где музей?", contexts=["The museum is open."], answer="Музей на севере города."),
    RagSample(question="hello", contexts=["The museum is open."], answer="Hello!"),
    RagSample(question="Where is it?", answer="In the north."),
)  # fmt: skip


@pytest.mark.parametrize("code", ["ru", "zh"])
def test_explanations_and_reasons_are_in_the_language_of_the_page(code):
    for scores in evaluate(SAMPLES, "golden"):
        reasons = scores.verdict.reasons if scores.verdict else ()
        texts = [text for score in scores.values() for text in (score.explanation, score.summary)]
        for said in filter(None, [*reasons, *texts]):
            translated = words_in(code).explanation(said)
            named = re.sub(r"“[^”]*”|(?:chunk|sentence)-[0-9]+|[:：] ?[\w ,.|-]+(?=[;；]|$)", "", translated)

            assert not re.search("[a-z]{2}", named), (said, translated)
            assert words_in("en").explanation(said) == said


def test_what_a_judge_says_in_an_explanation_stays():
    said = "2 of 3 chunks hold something that answers the question; not: chunk-2: “a; b” is about x; y"

    assert words_in("ru").explanation(said) == (
        "фрагментов, отвечающих на вопрос: 2 из 3; not: chunk-2: “a; b” is about x; y"
    )


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_score_of_ours_has_its_question(code):
    ours = {name for key in registry._HOMES for name in registry._builtin(key).score_names}

    assert READ[code]["scores"].keys() == ours | {VERDICT_BAD, VERDICT_NOT_GOOD}


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_rates_beside_a_verdict_are_those_of_the_documentation(code):
    guide = (Path(__file__).parents[3] / "docs" / "verdict.md").read_text("utf-8")
    (row,) = re.findall(r"^\| RAGTruth QA.*$", guide, re.MULTILINE)
    _, _, bad, good, *_ = (cell.strip() for cell in row.strip("|").split("|"))

    assert (bad in READ[code]["words"]["rate_bad"], good in READ[code]["words"]["rate_good"]) == (True, True)


def test_every_word_is_used():
    templates = "".join(
        path.read_text("utf-8")
        for path in [
            *(FOLDER.parent / "templates").glob("*.html"),
            *FOLDER.parent.glob("*.py"),
            FOLDER.parents[1] / "_digest.py",
        ]
    )
    made = tuple(
        """
        status_ range_ filter_ sort_ theme_ tokens_ fix_ word_ code_ why_ do_ score_ group_ life_
        facet_ heard_ setup_ shadow_ step_ support_ relevance_ refusals_ nothing_found_ lacks_ empty_
    """.split()
    )
    kinds = {"fell", "mix", "judge", "recovered", "higher", "lower", "none"}
    unused = [
        key for key in READ["en"]["words"]
        if f'"{key}"' not in templates and f"'{key}'" not in templates
        and not key.startswith(made) and key not in kinds
    ]  # fmt: skip

    assert unused == []


@pytest.mark.parametrize(
    ("n", "text"),
    [(1, "1 запрос"), (2, "2 запроса"), (5, "5 запросов"), (11, "11 запросов"), (21, "21 запрос"), (112, "112 запросов")],
)  # fmt: skip
def test_russian_counts(n, text):
    assert words_in("ru")("n_requests", n=n) == text


def test_english_counts():
    assert words_in("en")("n_requests", n=1) == "1 request"
    assert words_in("en")("n_requests", n=0) == "0 requests"


@pytest.mark.parametrize(
    ("asked", "kept", "accepted", "language"),
    [
        (None, None, "", "en"),
        ("ru", "zh", "en", "ru"),
        (None, "zh", "ru", "zh"),
        (None, None, "de-DE,ru;q=0.8,zh;q=0.9", "zh"),
        (None, None, "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("xx", None, "ru;q=x", "en"),
        (None, None, "ru;q=0", "en"),
    ],
)
def test_the_language_is_asked_for_kept_or_accepted(asked, kept, accepted, language):
    assert chosen_language(asked, kept, accepted) == language
