"""The demo's articles, questions, embedding and local answers: real data, checked for honesty."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_process import run_python

from ragmeter.cli.demo._embedding import DIMENSIONS, HashedNgramEmbedding, features
from ragmeter.cli.demo._responders import (
    EndpointResponder,
    ExtractiveResponder,
    choose_responder,
    format_contexts,
)
from ragmeter.cli.demo.corpus import load_chunks, load_questions, questions_text

CHUNKS = load_chunks()
QUESTIONS = load_questions()
EMBEDDING = HashedNgramEmbedding(chunk.text for chunk in CHUNKS)


def test_at_least_four_articles_in_each_language():
    articles = {(chunk.language, chunk.title) for chunk in CHUNKS}
    counts = Counter(language for language, _ in articles)
    assert all(counts[language] >= 4 for language in ("en", "ru", "zh"))


def test_chunk_ids_are_unique_and_texts_are_whole_paragraphs():
    assert len({chunk.id for chunk in CHUNKS}) == len(CHUNKS)
    assert all(chunk.text[-1] in ".。" and "\n" not in chunk.text for chunk in CHUNKS)


def test_at_least_fifteen_questions_in_three_languages_some_made_to_fail():
    assert len(QUESTIONS) >= 15
    assert {question.language for question in QUESTIONS} == {"en", "ru", "zh"}
    assert {question.kind for question in QUESTIONS} == {
        "direct",
        "other_words",
        "cross_language",
        "not_in_corpus",
    }


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.question[:30])
def test_golden_sentences_stand_verbatim_in_the_chunks_they_name(question):
    texts = {chunk.id: chunk.text for chunk in CHUNKS}
    assert all(any(sentence in texts[id_] for id_ in question.context_ids) for sentence in question.contexts)
    assert all(any(sentence in texts[id_] for sentence in question.contexts) for id_ in question.context_ids)
    assert bool(question.contexts) == (question.kind != "not_in_corpus")


def test_questions_file_is_a_reference_file(tmp_path):
    """The questions can be passed to RagMeter(references=...) as they are."""
    from ragmeter.requests.references import load_references

    path = tmp_path / "questions.jsonl"
    path.write_text(questions_text(), encoding="utf-8")
    look_up = load_references(path)
    assert look_up is not None
    for line in questions_text().splitlines():
        row = json.loads(line)
        reference = look_up(row["question"].upper())
        assert reference is not None
        assert (reference.answer, list(reference.contexts)) == (row["answer"], row["contexts"])


@given(st.text())
def test_embedding_takes_any_text_and_gives_a_unit_or_zero_vector(text):
    vector = EMBEDDING.embed(text)
    length = sum(value * value for value in vector)
    assert len(vector) == DIMENSIONS
    assert length == pytest.approx(1.0) or length == 0.0


def test_embedding_is_the_same_in_every_process():
    """Python's own hash differs between processes; ours must not."""

    code = (
        "from ragmeter.cli.demo._embedding import HashedNgramEmbedding as E;"
        "v = E(['one two', '二三']).embed('two 三');"
        "print([i for i, x in enumerate(v) if x])"
    )
    runs = {run_python("-I", "-c", code, check=True).stdout for _ in range(2)}
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("one", "other"), [("locks", "lock"), ("предсказал", "предсказаний"), ("造纸术", "造纸的方法")]
)
def test_inflected_words_share_pieces(one, other):
    assert set(features(one)) & set(features(other))


def _prompt(question, *texts):
    return f"{format_contexts(texts)}\n<question>{question}</question>"


@pytest.mark.parametrize(
    ("question", "texts", "answer"),
    [
        ("How deep is it?", ["The lake is deep. It is cold."], "The lake is deep."),
        ("Какая глубина?", ["Лёд тонкий. Глубина большая."], "Глубина большая."),
        ("深度是多少？", ["湖很大。深度是一千米。"], "深度是一千米。"),
    ],
)
def test_local_answer_quotes_the_sentence_that_shares_most(question, texts, answer):
    responder = ExtractiveResponder(HashedNgramEmbedding(texts))
    assert answer in responder.respond(_prompt(question, *texts))


@pytest.mark.parametrize(
    ("question", "refusal"), [("Who?", "do not answer"), ("Кто?", "ответа нет"), ("谁？", "没有回答")]
)
def test_local_answer_refuses_in_the_language_of_the_question(question, refusal):
    assert refusal in ExtractiveResponder(EMBEDDING).respond(_prompt(question, "1234567"))


def test_local_answers_unless_an_endpoint_is_configured(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert isinstance(choose_responder(EMBEDDING), ExtractiveResponder)

    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("RAGMETER_DEMO_MODEL", "my-model")
    chosen = choose_responder(EMBEDDING)
    assert isinstance(chosen, EndpointResponder)
    assert chosen.name == "my-model"
    assert isinstance(choose_responder(EMBEDDING, offline=True), ExtractiveResponder)
