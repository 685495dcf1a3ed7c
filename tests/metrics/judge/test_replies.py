"""Reading replies: aligned with what was asked, or not at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics.judge import Group, Item
from ragmeter.metrics.judge.replies import UnusableReplyError, read_reply, read_verdict

IDS = ("c1", "c2", "c3")


def group(**options):
    return Group("chunks", tuple(Item(item_id, (item_id,)) for item_id in IDS), **options)


VERDICTS = st.sampled_from([True, False, None, 1, 0, 2, -1, 1.0, "yes", "нет", "是", "maybe", "", []])
ENTRIES = st.lists(
    st.fixed_dictionaries({"id": st.sampled_from([*IDS, "c4", 1, None]), "verdict": VERDICTS}), max_size=6
)


@given(ENTRIES)
def test_only_asked_ids_only_booleans(entries):
    """Whatever the entries: nothing but asked ids, known booleans, each from its own entry."""
    answers = read_reply(json.dumps({"chunks": entries}), [group()])

    for item_id, answer in answers.items():
        own = [read_verdict(entry["verdict"]) for entry in entries if entry["id"] == item_id]
        assert set(own) == {answer.value}
        assert answer.value in (True, False)
    if any(entry["id"] not in IDS for entry in entries):
        assert answers == {}


@given(st.text() | st.binary().map(lambda b: b.decode("latin-1")))
def test_any_text_is_read_or_refused(text):
    """No text makes the reader fail otherwise, and none without an object gives a verdict."""
    try:
        answers = read_reply(text, [group()])
    except UnusableReplyError:
        return
    assert answers == {} or "chunks" in text


@given(st.lists(st.sampled_from([*IDS, "c9"])), st.lists(st.sampled_from([*IDS, "c9"])))
def test_two_lists_of_ids(true, false):
    """An id in both or in neither is unknown; an id that was not asked for spoils the group."""
    reply = json.dumps({"chunks": {"true": true, "false": false}})
    answers = read_reply(reply, [group(compact=True)])

    expected = {i: i in true for i in IDS if (i in true) != (i in false)}
    if "c9" in true + false:
        expected = {}
    assert {i: answer.value for i, answer in answers.items()} == expected


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (True, True), (False, False), (1, True), (0, False), ("true", True), ("FALSE", False),
        (" Yes. ", True), ("no!", None), ("Да", True), ("НЕТ", False), ("是", True), ("否。", False),
        ("1", True), ("0", False), ("ＹＥＳ", True),
        (2, None), (-1, None), (1.0, None), (0.0, None), ("2", None), ("-1", None), ("maybe", None),
        ("yes, it is", None), ("", None), (None, None), ([], None), ({}, None), ("не знаю", None),
        ("10", None), ("不是", None),
        # Quotes, brackets, full stops and blanks may stand around it; everything else may turn it around.
        ("«true».", True), (" (True) ", True), ("【是】", True), ("“no”", False), ("`false`", False), ("[1]", True), ("'0'.", False),
        ("Ｔｒｕｅ。", True), ("true...", True), ("\u00a0нет\n", False),
        ("!true", None), ("≠true", None), ("¬true", None), ("~1", None), ("−1", None), ("+1", None), ("–0", None),
        ("true!", None), ("true?", None), ("true,", None), ("true: c1", None), ("true false", None), ("t.r.u.e", None), ("**true**", None),
        (".1", None), ("0.1", None), ("1.0", None), ("1.", True), ("¹", None), ("①", None), ("not true", None), ("true…", None),
        ("..", None), ("()", None),
    ],
)  # fmt: skip
def test_verdict_words(value, verdict):
    assert read_verdict(value) is verdict


def test_choices_are_words_of_the_list_or_plain_verdicts():
    words = ["supported", "No claim", "нет"]
    entries = [{"id": i, "verdict": w} for i, w in zip(IDS, words, strict=True)]
    asked = group(kind="choice", choices=("supported", "absent", "no_claim"))
    answers = read_reply(json.dumps({"chunks": entries}), [asked])

    assert [answers[i].value for i in IDS] == ["supported", "no_claim", "absent"]


def test_texts_may_be_null_but_not_missing():
    entries = [{"id": "c1", "answer": None}, {"id": "c2"}, {"id": "c3", "answer": " x "}]
    answers = read_reply(json.dumps({"chunks": entries}), [group(kind="text")])

    assert {i: (a.known, a.value) for i, a in answers.items()} == {"c1": (True, None), "c3": (True, "x")}


@pytest.mark.parametrize("texts", ["x", [1], None, {"a": 1}])
def test_lists_of_other_things_are_unknown(texts):
    reply = json.dumps({"chunks": [{"id": "c1", "texts": texts}]})

    assert read_reply(reply, [group(kind="texts")]) == {}


@pytest.mark.parametrize("pairs", ["x", [{"question": 1}], [{"question": "a"}], [{"answer": "b"}]])
def test_broken_pairs_are_unknown(pairs):
    reply = json.dumps({"chunks": [{"id": "c1", "pairs": pairs}]})

    assert read_reply(reply, [group(kind="pairs")]) == {}


def test_a_bare_list_is_read_when_there_is_one_group():
    assert read_reply('[{"id": "c1", "verdict": true}]', [group()])["c1"].value is True
