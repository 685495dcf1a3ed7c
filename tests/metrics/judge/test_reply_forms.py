"""Which forms of reply are read, and which are not: no draft that was taken back is ever a verdict."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_tools import judge_at, precision
from openai_server import well_formed

from ragmeter.metrics._connection.failures import FailedCall
from ragmeter.metrics.judge import Group, Item, batching
from ragmeter.metrics.judge._completions import read_completion
from ragmeter.metrics.judge.replies import UnusableReplyError, read_reply

GROUP = Group("chunks", (Item("c1", ("c1",)), Item("c2", ("c2",))))


def said(verdict, **more):
    entries = [{"id": one, "verdict": verdict, **more} for one in ("c1", "c2")]
    return json.dumps({"chunks": entries})


DRAFT, FINAL = said(True), said(False)
CUT = FINAL[:-20]
LOOSE = FINAL.replace('"', "'")
BARE = json.dumps(json.loads(FINAL)["chunks"])
READ = {
    "alone": FINAL,
    "with blanks and a mark": f"\ufeff\n {FINAL}\n\n",
    "a bare list": BARE,
    "a fenced list": f"```json\n{BARE}\n```",
    "fenced": f"```json\n{FINAL}\n```",
    "fenced without a language": f"```\n{FINAL}\n```",
    "fenced in one line": f"```{FINAL}```",
    "fenced by four": f"````json\n{FINAL}\n````",
    "in a fence inside a fence": f"````md\n```json\n{FINAL}\n```\n````",
    "fenced after a fence that ended": f"```\nc1\n```\n```json {FINAL}\n```",
    "in a box": f"<|begin_of_box|>{FINAL}<|end_of_box|>",
    "after an analysis without marks": f"analysisIs it? {DRAFT}assistantfinal{FINAL}",
    "in a fence that is not closed": f"```json\n{FINAL}",
    "after words": f"Here you are: {FINAL}",
    "before a courtesy": f"{FINAL}\n\nI hope this helps! Let me know if you have any questions.",
    "before a courtesy in Russian": f"{FINAL}\n\nНадеюсь, это поможет!",
    "before a courtesy in Chinese": f"```json\n{FINAL}\n```\n以上是我的判断。",
    "between words and fences": f"As asked:\n```json\n{FINAL}\n```\nDone.",
    "before a special token": f"{FINAL}<|im_end|>",
    "after a thought": f"<think>Is it?</think>\n{FINAL}",
    "after a thought with a draft": f"<think>{DRAFT} no, not so</think>{FINAL}",
    "after two thoughts": f"<think>a</think> hm <think>{DRAFT}</think>{FINAL}",
    "after a thought that began before": f"Okay, {DRAFT}?\n</think>\n{FINAL}",
    "after reasoning": f"<REASONING>{DRAFT}</REASONING>{FINAL}",
    "after a thought with attributes": f"<think lang='en'>{DRAFT}</think>{FINAL}",
    "after [THINK]": f"[THINK]{DRAFT}[/THINK]{FINAL}",
    "after a scratchpad": f"<scratchpad>{DRAFT}</scratchpad>\n{FINAL}",
    "in the final channel": f"<|channel|>analysis<|message|>{DRAFT}<|end|><|channel|>final<|message|>{FINAL}",
    "fenced after a thought": f"</think>\n```json\n{FINAL}\n```",
    "between tags of an answer": f"<answer>{FINAL}</answer>",
    "after thinking between tokens": f"<|START_THINKING|>{DRAFT}<|END_THINKING|>{FINAL}<|END_RESPONSE|>",
    "a reason that speaks of an error": said(False, reason="the status is failed"),
    "a reason that speaks of thinking": said(False, reason="it says </think> and <think>"),
    "a reason with braces": said(False, reason='it says {"chunks": []}'),
}
REFUSED = {
    "nothing": "",
    "a draft before words": f"{DRAFT}\nOn reflection neither of them helps.",
    "a fenced draft before words": f"```json\n{DRAFT}\n```\nNo: none of them.",
    "a draft before Russian words": f"{DRAFT}\nХотя нет, оба не подходят.",
    "a draft before Chinese words": f"{DRAFT}。不对，都不相关",
    "a draft before a digit": f"{DRAFT} 0",
    "a draft before a courtesy that goes on": f"{DRAFT} Let me know if both should be false.",
    "a draft before a cross": f"{DRAFT} ✗",
    "a draft before a mark of citation": f"{DRAFT}\nSee [1].",
    "beside an error": f'{{"error": "no context", {DRAFT[1:]}',
    "beside errors": f'{{"errors": ["no context"], {DRAFT[1:]}',
    "without success": f'{{"success": false, {DRAFT[1:]}',
    "of a status": f'{{"status": "failed", {DRAFT[1:]}',
    "words": "All of them are false.",
    "in a sentence that takes it back": f"I take back {DRAFT}",
    "denied": f"NOT {DRAFT}",
    "beside other entries": f'{{"final": [{{"id": "c1", "verdict": false}}], {DRAFT[1:]}',
    "beside another object": f'{{"final": {FINAL}, {DRAFT[1:]}',
    "beside a final reply as text": f'{{"final": {json.dumps(FINAL)}, {DRAFT[1:]}',
    "called a draft": f'{{"draft": true, {DRAFT[1:]}',
    "a fenced draft before a plain final": f"```json\n{DRAFT}\n```\nNo: {FINAL}",
    "a fenced draft before an unclosed one": f"```json\n{DRAFT}\n```\nNo:\n```json\n{FINAL}",
    "two fenced ones": f"```json\n{DRAFT}\n```\n```json\n{FINAL}\n```",
    "two that agree": f"{FINAL}\n{FINAL}",
    "a plain draft before a final that is cut off": f"{DRAFT}\nNo: {CUT}",
    "a plain draft before one that is no JSON": f"{DRAFT}\nNo: {LOOSE}",
    "a plain draft before a fenced final": f"{DRAFT}\n```json\n{FINAL}\n```",
    "a draft before a list": f"{DRAFT}\nNo: {BARE}",
    "a list before a final": f"{json.dumps(json.loads(DRAFT)['chunks'])} {FINAL}",
    "a draft that is cut off before a final": f"{DRAFT[:-20]}\n{FINAL}",
    "a draft that is no JSON before a final": f"{LOOSE}\n{FINAL}",
    "a draft before a brace": f"{DRAFT} or rather {{",
    "a draft that ends a thought before words": f"{DRAFT}</think>None of them.",
    "a draft that ends a thought before nothing": f"{DRAFT}</think>",
    "a draft before a thought without an end": f"{DRAFT}<think>No, wait",
    "a thought without an end": f"<think>{DRAFT}",
    "a thought after a thought without an end": f"<think>a</think>{DRAFT}<think>b",
    "a channel that is not final": f"<|channel|>analysis<|message|>{DRAFT}",
    "a channel after the final one": f"<|channel|>final<|message|>{DRAFT}<|channel|>analysis<|message|>no",
    "a draft before an empty list": f"{DRAFT}\nFinal: []",
    "a draft before a list of words": f"{DRAFT}\nFinal: [c1, false]",
    "a draft before a list of verdicts": f"{DRAFT}\nFinal: [0, 0]",
    "a draft before a wide brace": f"{DRAFT}\n｛chunks：none｝",
    "a draft before a fence of YAML": f"{DRAFT}\n```yaml\nc1: false\n```",
    "a draft before a fence of nothing": f"{DRAFT}\n```json\n",
    "a draft before a fence of tildes": f"{DRAFT}\n~~~\nc1: false\n~~~",
    "a fenced draft before a fence of words": f"```\n{DRAFT}\n```\n```\nc1: false\n```",
    "a draft before an answer between tags": f"{DRAFT}\n<answer>false</answer>",
    "two answers between tags": f"<answer>{DRAFT}</answer>\n<answer>false</answer>",
    "a thought that ends with blanks": f"{DRAFT}< /think >none",
    "a thought that ends in HTML": f"{DRAFT}&lt;/think&gt;none",
    "a thought that ends with a token": f"{DRAFT}<|END_THINKING|>none",
    "a thought that ends with a mark of its own": f"{DRAFT}<unused95>none",
    "a thought of another name": f"{DRAFT}</inner_monologue>none",
    "a thought between tokens without an end": f"<|START_THINKING|>{DRAFT}",
    "struck out": f"~~{DRAFT}~~ none",
    "in a comment": f"<!-- {DRAFT} --> none",
    "between tags of a draft": f"<draft>{DRAFT}</draft> none",
    "in details": f"<details>{DRAFT}</details> none",
    "cut off": CUT,
    "no JSON": LOOSE,
    "braces among the words before": f"For the set {{1, 2}}: {FINAL}",
    "a draft between tags": f"<draft>{DRAFT}</draft>{FINAL}",
    "inside another object": f'{{"result": {FINAL}}}',
    "inside a string": json.dumps(FINAL),
    "a key twice": f'{{"chunks": [], {FINAL[1:]}',
    "a list before it": f'["c1"] {FINAL}',
}


@pytest.mark.parametrize("form", READ)
def test_a_form_that_is_read(form):
    """Exactly one object begins after the last thought."""
    answers = read_reply(READ[form], [GROUP])
    assert {name: answer.value for name, answer in answers.items()} == {"c1": False, "c2": False}


@pytest.mark.parametrize("form", REFUSED)
def test_a_form_that_is_refused(form):
    """Nothing of it is read, not even what is whole."""
    with pytest.raises(UnusableReplyError):
        read_reply(REFUSED[form], [GROUP])


@pytest.mark.parametrize("more", [{"final_verdict": False}, {"revised verdict": "false"}, {"supported": False}])
def test_an_entry_that_states_two_verdicts_answers_nothing(more):
    assert read_reply(said(True, **more), [GROUP]) == {}
    choice = Group("chunks", GROUP.items, kind="choice", choices=("yes", "no", "partly"))
    assert read_reply(said("yes", **more), [choice]) == {}
    assert len(read_reply(said(True, supported=True, final_verdict="yes", confidence=0), [GROUP])) == 2


WORDS = st.sampled_from(["", " ", "Hm. ", "\nNo:\n", "(see [1])", "```", "\n```\n", "```json\n", "<|im_end|>"])
THOUGHTS = st.sampled_from(
    ["<think>", "</think>", "<reasoning>", "</thinking>", "[THINK]", "<|channel|>final<|message|>"]
)
DRAFTS = st.sampled_from(
    [DRAFT, f"```json\n{DRAFT}\n```", f"```{DRAFT}", json.dumps(json.loads(DRAFT)["chunks"])]
)
TAKEN_BACK = st.sampled_from(
    [
        FINAL,
        f"```json\n{FINAL}\n```",
        f"```json\n{FINAL}",
        CUT,
        LOOSE,
        BARE,
        "{",
        "</think>",
        "</think>No.",
        "<think>No",
        "\nNo, neither.",
        "\n不对",
        "\nScratch that (1, 2).",
    ]
)


@given(
    st.lists(WORDS | THOUGHTS | DRAFTS, max_size=4),
    DRAFTS,
    st.lists(WORDS, max_size=2),
    TAKEN_BACK,
    st.lists(WORDS, max_size=2),
)
def test_no_draft_that_was_taken_back_is_read(before, draft, words, taken_back, after):
    """Whatever stands before and around: the verdict is the final one's, or there is none."""
    reply = "".join([*before, draft, *words, taken_back, *after])
    try:
        answers = read_reply(reply, [GROUP])
    except UnusableReplyError:
        return
    assert not any(answer.value for answer in answers.values())


FAILURES = st.one_of(
    st.tuples(
        st.sampled_from(["error", "errors", "error_message", "errorMessage", "error_code"]),
        st.sampled_from([["overloaded"], {"message": "slow"}, "slow", 503, "503", True]),
    ),
    st.tuples(st.sampled_from(["success", "ok"]), st.sampled_from([False, "false", 0])),
    st.tuples(
        st.sampled_from(["status", "state", "code"]),
        st.sampled_from(["failed", "Cancelled", "incomplete", "timed_out", "ERROR", 500, "429"]),
    ),
    st.tuples(
        st.just("finish_reason"),
        st.sampled_from(["abort", "cancelled", "canceled", "timeout", "failed", "error", "time_limit", "repetition"]),
    ),
)  # fmt: skip
NO_FAILURES = st.tuples(
    st.sampled_from(["error", "errors", "error_code", "success", "status", "warnings"]),
    st.sampled_from([None, "", "ok", "success"]),
)


def body(place, name, value):
    """Return an endpoint's body of a good reply, with one more member of the body, its choice or message."""
    choice = {"message": {"content": FINAL}, "finish_reason": "stop"}
    whole = {"choices": [choice]}
    {"body": whole, "choice": choice, "message": choice["message"]}[place][name] = value
    return json.dumps(whole).encode()


@given(st.sampled_from(["body", "choice", "message"]), FAILURES)
def test_nothing_is_believed_beside_a_failure(place, failure):
    """Errors, no success, a status of failure, an end that is none: in the body, its choice or the message."""
    name, value = failure
    read = read_completion(body("choice" if name == "finish_reason" else place, name, value), {}, 9)
    assert isinstance(read, FailedCall) or (read.text, read.error_type) == ("", "unusable_reply")


@given(st.sampled_from(["body", "choice", "message"]), NO_FAILURES)
def test_what_says_that_nothing_failed_costs_no_reply(place, member):
    """Empty and good words are none."""
    read = read_completion(body(place, *member), {}, 9)
    assert (read.text, read.error_type) == (FINAL, None)


@pytest.mark.parametrize(
    "form",
    ["```json\n{0}\n```\nNo: {1}", "{0}\nNo, none of them.", '{{"success": false, {2}'],
    ids=["before another", "before words", "without success"],
)
def test_the_cache_has_nothing_of_a_reply_that_is_refused(server, form):
    """A draft that was taken back is neither a verdict now nor later."""

    def taken_back(request):
        draft = json.dumps(well_formed(request, lambda *_: True))
        return form.format(draft, draft[:-9], draft[1:])

    server.script.extend([taken_back] * 4)
    judge = judge_at(server)
    assert [precision(judge).error_type for _ in range(2)] == ["unusable_reply"] * 2
    assert len(judge.cache) == 0
    server.script.clear()
    server.script.append(lambda request: well_formed(request, lambda *_: False))
    assert precision(judge).value == 0.0


def test_what_another_reader_remembered_is_asked_again(server, monkeypatch, tmp_path):
    """The keys have the reader's version."""
    answer = [True]
    server.script.extend([lambda request: well_formed(request, lambda *_: answer[0])] * 9)
    monkeypatch.setattr(batching, "READER", 1)
    assert precision(judge_at(server, cache=str(tmp_path / "answers"))).value == 1.0
    monkeypatch.undo()
    answer[0] = False
    judge = judge_at(server, cache=str(tmp_path / "answers"))
    assert [precision(judge).value for _ in range(2)] == [0.0, 0.0]
    assert len(server.requests) == 2
