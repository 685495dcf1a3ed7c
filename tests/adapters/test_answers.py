"""The answer in an output of unknown shape: what the user got, and never a repr."""

import dataclasses
import json
from collections import UserDict, deque
from types import SimpleNamespace
from typing import NamedTuple

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmeter.adapters.reading.answer import Said, choose_answer, is_long
from ragmeter.adapters.reading.fields import MAX_STRINGS, strings_in

ANSWER = "The Eiffel Tower is 330 metres tall."
FOLLOW_UPS = "1. Who built the Eiffel Tower?\n2. When was the tower opened to the public?"


def answer(output, said=(), **known):
    return choose_answer(strings_in(output), said, **known)


@dataclasses.dataclass
class Outcome:
    body: str
    check: str = ""
    sources: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class SlottedOutcome:
    body: str
    check: str = ""


class Model(pydantic.BaseModel):
    model_config = {"extra": "allow"}

    body: str
    check: str = ""


class Pair(NamedTuple):
    body: str
    check: object


class Plain:
    def __init__(self, body, check):
        self.body = body
        self.check = check


@pytest.mark.parametrize(
    "output",
    [
        {"body": ANSWER, "check": "SAFE"},
        {"check": "SAFE", "body": ANSWER},
        {"a": {"b": [{"c": ANSWER}]}, "check": "SAFE"},
        Outcome(ANSWER, "SAFE"),
        SlottedOutcome(ANSWER, "SAFE"),
        Model(body=ANSWER, check="SAFE"),
        Model(body="SAFE", rest=ANSWER),
        Pair(ANSWER, "SAFE"),
        Plain(ANSWER, "SAFE"),
        SimpleNamespace(body=ANSWER, check="SAFE"),
        [ANSWER, "SAFE"],
        (ANSWER, {"check": "SAFE"}),
        deque([ANSWER, "SAFE"]),
        UserDict({"body": ANSWER, "check": "SAFE"}),
        {"one": Outcome(ANSWER), "two": Pair("SAFE", 3)},
    ],
)
def test_the_string_that_a_model_said_is_found_in_outputs_of_every_shape(output):
    assert answer(output, [ANSWER, "SAFE"]) == ANSWER


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ({"body": ANSWER, "check": "SAFE"}, [ANSWER, "SAFE"]),
        ({"body": ANSWER, "next": FOLLOW_UPS}, [ANSWER, FOLLOW_UPS]),
        ({"body": ANSWER, "next": FOLLOW_UPS.splitlines()}, [ANSWER, FOLLOW_UPS]),
        ({"body": ANSWER, "followups": "Do ask me about bridges. They are nice, too."}, [ANSWER]),
        ({"reply": "Yes.", "grade": "The reply is fully supported by both contexts."}, ["Yes."]),
        ({"text": "Yes.", "x": "The reply is fully supported by both contexts."}, ["Yes."]),
    ],
)
def test_what_another_call_said_last_is_not_the_answer(output, said):
    said = [*said, *(item for item in output.values() if isinstance(item, str))]

    assert answer(output, said) == next(iter(output.values()))


def test_of_two_strings_that_were_said_the_one_whose_call_saw_contexts_is_the_answer():
    output = {"a": "Paris", "b": "Our guide to capitals holds many more places like it."}

    assert answer(output, [Said("Paris", saw_contexts=True), Said(output["b"])]) == "Paris"
    assert answer(output, [Said("Paris"), Said(output["b"], saw_contexts=True)]) == output["b"]


STEPS = ["Hold the power button for ten seconds.", "Then wait until the light is amber."]


@pytest.mark.parametrize(
    "output",
    [
        {"title": "Reset", "steps": STEPS},
        {"sentences": [{"text": step, "source": at} for at, step in enumerate(STEPS)]},
        {"inner": {"steps": tuple(STEPS)}, "check": "SAFE"},
    ],
)
def test_a_list_that_one_call_said_is_one_answer(output):
    """Steps, or sentences with a source each: neither the first nor the longest is what the user got."""
    assert answer(output, [json.dumps(output), "SAFE"]) == "\n".join(STEPS)


def test_a_list_that_a_parser_cut_out_of_one_reply_is_one_answer():
    parts = ["hold the power button for long", "release it", "wait until it is amber again"]

    assert answer(parts, [", ".join(parts)]) == "\n".join(parts)


def test_a_verdict_of_another_call_in_the_same_list_is_no_part_of_the_answer():
    assert (
        answer(
            [STEPS[0], "SAFE", "It breaks no rule of ours at all."],
            [Said(STEPS[0], saw_contexts=True), "SAFE", "It breaks no rule of ours at all."],
        )
        == STEPS[0]
    )


@pytest.mark.parametrize(
    ("said", "got"),
    [
        (f"  {ANSWER}\n", ANSWER),
        (f"<think>Is it 300? No.</think>\n{ANSWER}", ANSWER),
        (f"It is 330, I believe.</think>{ANSWER}", ANSWER),
        (f'"{ANSWER}"', ANSWER),
        (f"```\n{ANSWER}\n```", ANSWER),
        (json.dumps({"thought": "hm", "final": ANSWER}), ANSWER),
        ('```json\n{"final": "Высота \\u2014 330 м"}\n```', "Высота — 330 м"),
        ("Thought: easy.\nFinal Answer: Paris", "Paris"),
        ("<answer>Paris</answer>", "Paris"),
        ("Paris\n\nSources: [1]", "Paris"),
        (ANSWER, f"{ANSWER}\n\nAsk me anything!"),
        (ANSWER, "<p>The <b>Eiffel Tower</b> is <i>330</i> metres tall.</p>"),
        ("AT&T's tower is 330 metres tall.", "AT&amp;T&#x27;s tower is 330 metres tall."),
        (ANSWER.replace(" ", "\n"), ANSWER),
        ("埃菲尔铁塔高三百三十米。[1]", "埃菲尔铁塔高三百三十米。"),
    ],
)
def test_what_parsers_and_templates_do_to_an_answer_does_not_hide_it(said, got):
    assert answer({"x": got, "y": "Thank you for asking our service today."}, ["SAFE", said]) == got


@pytest.mark.parametrize("short", ["ok", "yes", "is", "330"])
def test_a_short_string_that_occurs_somewhere_in_what_was_said_is_not_the_answer(short):
    assert answer({"state_of_things": short}, [f"It is ok: yes, 330 or so, {ANSWER}"]) is None


def test_a_verdict_that_was_said_last_is_no_answer_beside_a_draft():
    output = {"draft": ANSWER, "review": "fine"}
    assert answer(output, [Said(ANSWER, saw_contexts=True), Said("fine", saw_contexts=True)]) == ANSWER


def test_a_string_under_a_name_that_says_answer_needs_no_proof():
    output = {"question": "How tall?", "answer": "330 m", "rewritten": "height of the tower"}

    assert answer(output, ["height of the tower"]) == "330 m"
    assert answer({"data": {"reply": ["It is tall.", "330 m."]}}) == "It is tall.\n330 m."


def test_a_name_that_says_something_else_is_never_the_answer():
    output = {"moderation": {"response": "SAFE"}, "metadata": {"text": ANSWER}, "documents": [ANSWER]}

    assert answer(output, ["SAFE", ANSWER]) is None


def test_what_the_input_held_is_not_the_answer():
    question = "How tall is the Eiffel Tower in Paris?"
    output = {"q": question, "body": ANSWER}

    assert answer(output, copied=[question]) == ANSWER
    assert answer({"q": question}, [question], copied=[question]) is None


def test_an_answer_that_was_given_before_or_quotes_a_context_whole_is_still_the_answer():
    history = [("user", "How tall?"), ("assistant", ANSWER), ("user", "Again?")]
    output = {"messages": [*history, ("assistant", ANSWER)]}

    assert answer(output, [ANSWER], copied=strings_in({"messages": history})) == ANSWER
    assert answer({"messages": history[:2]}, copied=strings_in({"messages": history})) is None
    assert answer({"body": ANSWER}, [ANSWER], contexts=[ANSWER]) == ANSWER
    assert answer({"body": ANSWER}, contexts=[ANSWER]) is None


def test_without_a_model_that_was_seen_the_only_long_string_is_the_answer():
    context = "The Eiffel Tower was built in 1889."
    output = {
        "id": "6f1c2a9e-1d1b-4ef4-93a4-0bd0c0ffee00",
        "link": "https://example.org/a/long/address/of/a/page",
        "texts": [context],
        "prompt_text": f"Context:\n{context}\nAnswer:",
        "body": ANSWER,
    }

    assert answer(output, contexts=[context]) == ANSWER
    assert answer({"body": ANSWER, "more": "Another sentence of some length."}) is None
    assert answer({"done": True, "n": 3, "code": "ok"}) is None


def test_contexts_pasted_below_an_answer_are_no_part_of_it():
    context = "The Eiffel Tower was built in 1889 for the World's Fair."
    output = {"page": f"{ANSWER}\n\nSources:\n{context}"}

    assert answer(output, [ANSWER], contexts=[context]) == ANSWER


class Message(SimpleNamespace):
    pass


def message(type_, content, **more):
    return Message(type=type_, content=content, **more)


@pytest.mark.parametrize(
    "messages",
    [
        [message("human", "How tall?"), message("ai", ANSWER)],
        [message("human", "Hi"), message("ai", "Hello, how are you today?"), message("ai", ANSWER)],
        [("human", "How tall?"), ("ai", ANSWER)],
        [{"role": "user", "content": "How tall?"}, {"role": "assistant", "content": ANSWER}],
        [message("ai", "Let me look that up.", tool_calls=[{"name": "x"}]), message("ai", ANSWER)],
        [message("ai", [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": ANSWER}])],
        [Message(role="assistant", blocks=[SimpleNamespace(block_type="text", text=ANSWER)])],
    ],
)
def test_of_a_conversation_the_models_last_message_is_the_answer(messages):
    assert answer({"thread": messages, "n": 1}) == ANSWER


@pytest.mark.parametrize(
    ("aside", "is_answer"),
    [
        ("PASS", False),
        ("Would you like to see it?\nShall I tell you more?", False),
        ("Die Antwort lautet dreihundert Meter.", True),
        ("330 m", True),
    ],
)
def test_a_verdict_or_questions_after_the_models_message_are_not_the_answer(aside, is_answer):
    output = {"messages": [("user", "How high is it?"), ("ai", ANSWER), ("ai", aside)]}

    got = answer(output, [Said(ANSWER, saw_contexts=True), aside])
    assert got == (aside if is_answer else ANSWER)
    # Alone, it is what the user got.
    assert answer({"messages": output["messages"][::2]}, [aside]) == aside


def test_documents_and_nodes_are_not_looked_into():
    document = SimpleNamespace(page_content=ANSWER, metadata={})
    node = SimpleNamespace(node=SimpleNamespace(text=ANSWER, metadata={}), score=0.5)
    row = {"text": ANSWER, "metadata": {}, "score": 0.5}

    assert strings_in({"a": [document], "b": [node], "c": (row,), "d": {"page_content": ANSWER}}) == ()


class Hostile:
    """Raises whenever its own code runs."""

    def _no(self, *_):
        raise RuntimeError

    __getattribute__ = __getattr__ = __iter__ = __len__ = __eq__ = __bool__ = __str__ = _no
    __repr__ = _no
    __hash__ = None
    computed = property(_no)


class HostileDict(dict):
    def _no(self, *_):
        raise RuntimeError

    items = keys = values = get = __iter__ = __getitem__ = __len__ = __contains__ = _no


class HostileText(str):
    __slots__ = ()

    def _no(self, *_):
        raise RuntimeError

    strip = split = __eq__ = __len__ = __contains__ = __str__ = _no
    __hash__ = None


def test_no_code_of_the_application_runs():
    hostile = Hostile()
    object.__setattr__(hostile, "body", ANSWER)
    output = {"a": hostile, "b": HostileDict(body=HostileText(ANSWER)), "c": Hostile()}

    assert answer(output, [ANSWER]) == ANSWER
    assert len(strings_in(output)) == 2


def test_what_looks_at_an_output_is_bounded():
    ring = {"body": ANSWER}
    ring["ring"] = [ring, ring]
    deep = ANSWER
    for _ in range(50):
        deep = {"deeper": deep}
    wide = {str(n): [f"{n} {m}" for m in range(100)] for n in range(100)}

    assert answer(ring, [ANSWER]) == ANSWER
    assert strings_in(deep) == ()
    assert len(strings_in(wide)) == MAX_STRINGS
    assert len(strings_in(list(range(1_000_000)))) == 0


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@settings(derandomize=True)
@given(JSONISH, st.lists(st.text(max_size=60), max_size=4), st.lists(st.text(max_size=30), max_size=3))
def test_the_answer_is_a_string_of_the_output_or_of_a_call_and_nothing_is_changed(output, said, copied):
    before = json.dumps(output)
    strings = strings_in(output)
    found = choose_answer(strings, said, copied=copied, contexts=copied[:1])

    assert json.dumps(output) == before
    if found is not None:
        texts = [item.text for item in strings]
        assert found in texts or set(found.split("\n")) <= set("\n".join(texts).split("\n"))
        assert found not in copied


@settings(derandomize=True)
@given(st.text(min_size=1, max_size=200), st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5))
def test_an_answer_that_was_said_is_found_wherever_it_stands(text, path):
    if not text.strip(" \t\r\n\"'`*“”«»‘’…"):
        return
    output = text
    for name in path:
        output = {name: output}

    found = answer(output, [text])
    # A text that ends a model's thoughts is read from there on.
    assert found == text or "</" in text


@pytest.mark.parametrize(
    ("text", "long"),
    [
        (ANSWER, True),
        ("Столица Франции это Париж", True),
        ("埃菲尔铁塔高三百三十米", True),
        ("request completed", False),
        ("6f1c2a9e-1d1b-4ef4-93a4-0bd0c0ffee00", False),
        ("https://example.org/a/long/address", False),
        ("2026-11-21 10:00:00 +0000 1234", False),
        ("It is so", False),
    ],
)
def test_a_long_string_reads_like_a_sentence(text, long):
    assert is_long(text) is long
