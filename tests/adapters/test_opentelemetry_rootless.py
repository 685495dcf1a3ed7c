"""Traces whose root never arrived: what stands below one missing parent is one request if it hands on texts."""

import random
from itertools import permutations

import pytest
from otlp_recordings import TOOLS, cases
from otlp_spans import documents, exchange, found, only, openinference, texts

from ragmeter.adapters.opentelemetry.otlp import read_protobuf
from ragmeter.adapters.opentelemetry.requests import read_trace
from ragmeter.adapters.reading.results import as_tools

RIVER = "The river rises in the north of the valley."
BREAD = "Bread needs flour, water, salt and time."
REPLY = "It rises in the north, far up in the valley."
ASKED = "Where does the river rise?"
LOST = 99

NOT_TOLD = {"openllmetry-langchain-py/streamed_after_root", "vercel-ai-sdk-js/empty_retrieval"}
"""Recordings in which only the root has the answer."""


def retrieved(number, *found_, query=ASKED):
    """A step with a retrieval in it."""
    return [
        openinference(number, LOST, "CHAIN", end=number + 0.9),
        openinference(number + 1, number, "RETRIEVER", input=query, **documents(*found_)),
    ]


def answered(number, prompt, said, parent=LOST):
    return openinference(number, parent, "LLM", **exchange(prompt, said))


def prompt_of(*found_, question=ASKED):
    return "Context:\n" + "\n\n".join(found_) + f"\n\nQuestion: {question}"


def _rootless():
    """Yield recordings with one request that is read in full, its root apart, and the spans below it."""
    for name, folder in cases().items():
        spans = [
            one for file in sorted(folder.glob("*traces.pb")) for one in read_protobuf(file.read_bytes()).spans
        ]
        for trace in {one.trace_id for one in spans}:
            own = [one for one in spans if one.trace_id == trace]
            requests = read_trace(own, (), as_tools(TOOLS)).requests
            if (
                len(requests) != 1
                or requests[0].usable != "full"
                or requests[0].span is None
                or name in NOT_TOLD
            ):
                continue
            by_id, above, top = {one.span_id: one for one in own}, set(), requests[0].span
            while top is not None:
                above.add(top.span_id)
                top = by_id.get(top.parent_id)
            left = [one for one in own if one.span_id not in above]
            if left:
                yield name, left, requests[0]


def test_a_recorded_trace_without_its_root_is_the_same_request():
    wrong, count = [], 0
    for name, spans, whole in _rootless():
        count += 1
        random.Random(name).shuffle(spans)
        requests = read_trace(spans, (), as_tools(TOOLS)).requests
        if [(texts(one), one.answer) for one in requests] != [(texts(whole), whole.answer)]:
            wrong.append(name)

    assert wrong == []
    assert count > 20


def test_a_step_that_retrieved_and_a_call_that_was_sent_its_documents():
    """In any order of arrival."""
    spans = [*retrieved(1, RIVER, BREAD), answered(4, prompt_of(RIVER), REPLY)]

    for order in permutations(spans):
        one = only(*order)
        assert (one.question, one.answer, texts(one)) == (ASKED, REPLY, [RIVER])


def test_a_call_that_wrote_the_query_belongs_to_it():
    rewriting = answered(1, f"Rewrite: and it? History: {BREAD}", ASKED)
    one = only(rewriting, *retrieved(2, RIVER), answered(5, prompt_of(RIVER), REPLY))

    assert (one.answer, texts(one)) == (REPLY, [RIVER])
    assert rewriting in one.members


def test_an_agents_two_searches_are_one_request():
    """The call between them answers nothing: it asks for the second search."""
    one = only(
        *retrieved(1, RIVER),
        answered(4, prompt_of(RIVER), None),
        *retrieved(5, BREAD, query="bread"),
        answered(8, prompt_of(RIVER, BREAD), REPLY),
    )

    assert (one.answer, texts(one)) == (REPLY, [RIVER, BREAD])


def test_two_requests_below_one_missing_parent_stay_two():
    """Also where their spans overlap."""
    other = "What does bread need?"
    first = [*retrieved(1, RIVER), answered(5, prompt_of(RIVER), REPLY)]
    second = [
        *retrieved(3, BREAD, query=other),
        answered(6, prompt_of(BREAD, question=other), BREAD[:-1] + " in all."),
    ]

    requests = found(*first, *second)

    assert [(one.question, texts(one)) for one in requests] == [(ASKED, [RIVER]), (other, [BREAD])]


@pytest.mark.parametrize("sent", [RIVER, BREAD])
def test_what_was_found_below_a_missing_parent_is_the_requests_whose_model_was_sent_it(sent):
    """A span between them was lost, or belongs to another provider; what its model was not sent is another's."""
    request = openinference(1, None, "CHAIN", input=ASKED, output=REPLY, end=9)
    search = openinference(2, LOST, "RETRIEVER", input=ASKED, **documents(RIVER))
    requests = found(request, search, answered(4, prompt_of(sent), REPLY, parent=1))

    whole = [(one.question, one.answer, texts(one)) for one in requests if one.span == request]
    assert whole == ([(ASKED, REPLY, [RIVER])] if sent == RIVER else [])


def test_an_engine_that_an_agent_asked_by_another_instrumentation_is_a_part_of_its_request():
    """It has the application's span as its parent, as the agent has; beside it, it is a request of its own."""
    answer = "The north it is, dear reader of these lines."
    server = openinference(1, None, "", name="POST /ask", end=30)
    agent = openinference(2, 1, "AGENT", input=ASKED, output=answer, end=20)
    model = openinference(18, 2, "LLM", **exchange(f"{ASKED}\nThe tool found: {REPLY}", answer))

    def engine(begun):
        return [
            openinference(begun, 1, "CHAIN", input="river", output=REPLY, end=begun + 4),
            openinference(begun + 1, begun, "RETRIEVER", input="river", **documents(RIVER, BREAD)),
            openinference(
                begun + 2, begun, "LLM", **exchange(prompt_of(RIVER, BREAD, question="river"), REPLY)
            ),
        ]

    one = only(server, agent, model, *engine(5))
    assert (one.question, one.answer, texts(one)) == (ASKED, answer, [RIVER, BREAD])
    assert [one.answer for one in found(server, agent, model, *engine(22))][-1] == REPLY


def test_the_next_turn_of_a_conversation_is_a_request_of_its_own():
    """It is sent the earlier turn once more: its documents, and the reply as the assistant's."""
    later = openinference(
        7,
        LOST,
        "LLM",
        **{
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": prompt_of(RIVER),
            "llm.input_messages.1.message.role": "assistant",
            "llm.input_messages.1.message.content": REPLY,
            "llm.input_messages.2.message.role": "user",
            "llm.input_messages.2.message.content": prompt_of(BREAD, question="And bread?"),
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "Flour, water, salt and time.",
        },
    )
    requests = found(
        *retrieved(1, RIVER),
        answered(4, prompt_of(RIVER), REPLY),
        *retrieved(5, BREAD, query="And bread?"),
        later,
    )

    assert [one.answer for one in requests] == [REPLY, "Flour, water, salt and time."]
    assert texts(requests[1]) == [BREAD]
