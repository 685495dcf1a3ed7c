"""References: files, mappings, callables, and how questions are matched."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics import ConfigurationError, Reference, ReferenceFileError
from ragmeter.requests.references import load_references, normalise_question


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("What is  RAG?", "what is rag"),
        ("ｗｈａｔ is rag？", "What is RAG"),
        ("Что такое RAG?", "что такое rag"),
        ("什么是RAG？", "什么是rag"),
        ("Really?!", "really"),
        ("Straße", "STRASSE"),
    ],
)
def test_questions_match_across_case_width_space_and_final_punctuation(left, right):
    assert normalise_question(left) == normalise_question(right)


def test_different_questions_stay_different():
    assert normalise_question("What is RAG?") != normalise_question("What was RAG?")
    assert normalise_question("3.5 or 35?") != normalise_question("35 or 35?")


@given(st.text())
def test_normalising_never_fails_and_is_idempotent_but_for_folding(text):
    once = normalise_question(text)

    assert normalise_question(f"  {text} \n") == once


def test_jsonl_with_flat_and_nested_references(tmp_path):
    path = tmp_path / "golden.jsonl"
    rows = [
        {"question": "One?", "answer": "1", "contexts": ["uno"], "context_ids": [7]},
        {"question": "Two?", "reference": {"answer": "2"}},
        {"question": "Three?", "reference": "3", "id": "ignored"},
    ]
    path.write_text("\n\n".join(json.dumps(row) for row in rows), encoding="utf-8-sig")

    find = load_references(str(path))

    assert find("one") == Reference(answer="1", contexts=("uno",), context_ids=("7",))
    assert find("two") == Reference(answer="2")
    assert find("three") == Reference(answer="3")
    assert find("four") is None
    assert not find("two").supplies("contexts")


def test_csv_with_lists_and_plain_texts(tmp_path):
    path = tmp_path / "golden.csv"
    path.write_text(
        'question,answer,contexts,context_ids\n"One, or more?",1,"[""a"",""b""]",x\nTwo?,,[see note] text,\n',
        encoding="utf-8",
    )

    find = load_references(path)

    assert find("One, or more?") == Reference(answer="1", contexts=("a", "b"), context_ids=("x",))
    assert find("two") == Reference(contexts=("[see note] text",))


@pytest.mark.parametrize(
    ("name", "content", "line", "reason"),
    [
        ("a.jsonl", b'{"question": "q", "answer": "a"}\n{broken\n', 2, "not JSON"),
        ("a.jsonl", b'{"question": "q", "answer": "a"}\n[1]\n', 2, "not a JSON object"),
        ("a.jsonl", b'\n\n{"answer": "a"}\n', 3, "no 'question'"),
        ("a.jsonl", b'{"question": "q"}\n', 1, "nothing to compare with"),
        ("a.jsonl", b'{"question": "q", "contexts": [1, 2]}\n', 1, "contexts"),
        ("a.jsonl", b'{"question": "q", "answer": "\xff"}\n', 1, "not UTF-8"),
        ("a.jsonl", b"[" * 100_000, 1, "not JSON"),
        ("a.csv", b"question,answer\nq,a,b\n", 2, "more fields"),
        ("a.csv", b"answer\na\n", 2, "no 'question'"),
    ],
)
def test_a_broken_row_names_file_line_and_reason(tmp_path, name, content, line, reason):
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(ReferenceFileError, match=reason) as caught:
        load_references(path)

    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert str(path) in str(caught.value)


def test_a_mapping_takes_answers_fields_and_references():
    find = load_references({"a": "1", "b": {"contexts": ["x"]}, "c": Reference(answer="3")})

    assert find("A?") == Reference(answer="1")
    assert find("B") == Reference(contexts=("x",))
    assert find("c.") == Reference(answer="3")


def test_a_malformed_mapping_is_refused_at_construction():
    with pytest.raises(ConfigurationError, match="reference for 'a'"):
        load_references({"a": {"anwser": "1"}})


def test_a_callable_is_asked_with_the_raw_question():
    find = load_references(lambda question: {"answer": question} if question != "no" else None)

    assert find("Yes?") == Reference(answer="Yes?")
    assert find("no") is None


@given(st.binary(max_size=200))
def test_any_bytes_give_references_or_a_clear_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "golden.jsonl"
    path.write_bytes(content)

    with contextlib.suppress(ReferenceFileError, ConfigurationError):
        load_references(path)
