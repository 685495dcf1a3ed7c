"""What of the retrieved documents reached the model, as the prompts on spans show it."""

import json
from dataclasses import replace

import pytest
from otlp_spans import chat, documents, exchange, found, only, openinference, span, texts

from ragmeter import Scorer
from ragmeter.adapters.opentelemetry.build import sample_of

RETURNS = (
    "Returns are accepted within thirty days of delivery if the goods are unused and in their original "
    "packaging. Refunds are paid to the card that was charged, within five working days of arrival. "
    "Sale items are exchanged for a voucher and never refunded in cash."
)


def _call(number, prompt, said, **more):
    return openinference(number, 1, "LLM", **exchange(prompt, said), **more)


def _asked(answer, *spans, question="Are sale items refunded?"):
    return only(openinference(1, None, "CHAIN", "qa", input=question, output=answer, end=60), *spans)


VOUCHERS = (
    "A voucher is valid for three years from the day on which it was issued and is sent by electronic mail. "
    "It can be used for several orders until nothing is left of it."
)
CATS = "Cats sleep for up to sixteen hours a day, most of them around noon, and hunt at dawn and dusk."
ANSWER = "No, sale items are exchanged for a voucher that is valid for three years."


def _retriever(*found, number=2):
    return openinference(number, 1, "RETRIEVER", input=f"search {number}", **documents(*found))


def _shown(asked):
    sample = sample_of(asked)
    return sample.contexts_by, [item.text for item in sample.contexts]


def test_absence_from_a_prompt_that_may_be_told_in_part_says_nothing():
    """Some instrumentations leave results of tools, and documents given beside the messages, out."""
    alone = _asked(ANSWER, _retriever(RETURNS), _call(3, "Question: sale items?", ANSWER))
    beside_a_tool = _asked(
        ANSWER,
        _retriever(RETURNS),
        openinference(6, 1, "TOOL", "calculator", output="3"),
        _call(3, f"Is this relevant?\n{RETURNS}", "no"),
        _call(4, "Question: sale items?", ANSWER),
    )

    assert _shown(alone) == ("runs", [RETURNS])
    assert _shown(beside_a_tool) == ("runs", [RETURNS])


def test_a_reranking_takes_the_documents_of_its_own_sub_question():
    """Another sub-question found one of them, too."""
    asked = _asked(
        ANSWER,
        openinference(2, 1, "CHAIN", end=10),
        openinference(3, 2, "RETRIEVER", **documents(RETURNS, CATS)),
        openinference(4, 1, "CHAIN", start=10, end=20),
        openinference(5, 4, "RETRIEVER", start=11, end=12, **documents(CATS, VOUCHERS)),
        openinference(
            6,
            4,
            "RERANKER",
            start=13,
            end=14,
            **documents(CATS, VOUCHERS, prefix="reranker.input_documents"),
            **documents(VOUCHERS, prefix="reranker.output_documents"),
        ),
    )

    assert _shown(asked) == ("runs", [RETURNS, CATS, VOUCHERS])
    assert len(asked.seen) == 2


def test_documents_that_a_step_added_are_contexts_where_no_retrieved_one_is_shown():
    """A grader rejected what was found, and a function without a span of its own searched elsewhere."""
    added = {"page_content": VOUCHERS, "metadata": {}, "type": "Document"}
    asked = _asked(
        ANSWER,
        _retriever(CATS),
        _call(3, f"Is this relevant? yes or no.\n{CATS}", "no"),
        openinference(4, 1, "CHAIN", input={"documents": []}, output={"documents": [added]}),
        _call(5, f"Context: {VOUCHERS}\nQuestion: sale items?", ANSWER),
    )

    assert _shown(asked) == ("prompt", [VOUCHERS])


def test_equal_replies_of_two_calls_that_are_two_spans_each_bring_the_documents_of_both():
    """The outer span of a call is no other call whose reply stands in the prompt."""
    reply = "Sale items are not refunded in money, that is certain."
    spans = [
        part
        for at, text in ((3, RETURNS), (8, VOUCHERS))
        for part in (
            _retriever(text, number=at),
            _call(at + 1, f"Context: {text}\nQuestion: sale items?", reply, end=at + 4),
            openinference(at + 2, at + 1, "LLM", **exchange(f"Context: {text}\nQuestion: sale items?", reply)),
        )
    ]

    asked = _asked(ANSWER, *spans, _call(20, f"One: {reply}\nTwo: {reply}\nQuestion: sale items?", ANSWER))

    assert _shown(asked) == ("prompt", [RETURNS, VOUCHERS])


@pytest.mark.parametrize(
    ("form", "brought"),
    [
        ("Sub question: {}\nResponse: {}", [RETURNS, VOUCHERS]),
        ("子问题：{}\n回答：{}", [RETURNS, VOUCHERS]),
        ("{1} were asked:\n{0}\nOne more line.", []),
    ],
)
def test_a_number_or_a_word_is_a_reply_beside_the_question_that_it_answers(form, brought):
    asked = {
        "How many days may a return take?": (RETURNS, "14"),
        "Is a voucher sent by mail?": (VOUCHERS, "Yes"),
    }
    spans = [
        part
        for at, (query, (text, said)) in enumerate(asked.items(), 2)
        for part in (
            _retriever(text, number=2 * at),
            _call(2 * at + 1, f"Context: {text}\nQuery: {query}", said),
        )
    ]
    pairs = "\n\n".join(form.format(query, said) for query, (_, said) in asked.items())

    answered = _asked(ANSWER, *spans, _call(20, f"Context:\n{pairs}\n\nQuery: sale items?\nAnswer:", ANSWER))

    assert _shown(answered) == ("prompt", brought)


def test_a_picture_beside_texts_leaves_them_to_the_prompt():
    found = {**documents(RETURNS), "retrieval.documents.1.document.id": "picture"}
    asked = _asked(
        ANSWER,
        openinference(2, 1, "RETRIEVER", **found),
        _call(3, f"Context: {RETURNS}\nQuestion: sale items?", ANSWER),
    )

    assert (asked.usable, *_shown(asked)) == ("full", "prompt", [RETURNS])
    assert not asked.carried


def test_an_answer_that_is_only_the_retrieved_texts_was_written_by_no_model():
    asked = _asked(f"{RETURNS}\n\n{CATS}", _retriever(RETURNS, CATS))

    assert (sample_of(asked).status, asked.answer) == ("retrieval_only", None)


def test_what_a_template_was_filled_with_as_its_context_is_divided():
    filled = {"context": f"{RETURNS}\n\n{CATS}", "question": "Are sale items refunded?"}
    asked = _asked(
        ANSWER,
        openinference(2, 1, "CHAIN", "ChatPromptTemplate", input=filled, output={"messages": []}),
        _call(3, f"Read {RETURNS}\n\n{CATS} and tell me: Are sale items refunded?", ANSWER),
    )

    assert (asked.usable, *_shown(asked)) == ("full", "prompt", [RETURNS, CATS])


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("StopEvent(result='Sorry, I cannot help with that.')", "Sorry, I cannot help with that."),
        ("StopEvent(result={'answer': \"It isn't.\", 'sources': [1]})", "It isn't."),
        ("StopEvent(result=RAG())", ANSWER),
        ("Replied(reply='No, sale items are exchanged for a voucher that is ...', n=1)", ANSWER),
        ("Ended(run='9f1d2c')", ANSWER),
    ],
)
def test_a_text_in_an_events_repr_is_what_the_user_got(output, answer):
    """A later step replaced what the model said."""
    asked = _asked(output, _retriever(RETURNS), _call(3, f"Context: {RETURNS}\nQuestion: sale?", ANSWER))

    assert asked.answer == answer


def test_fields_that_a_model_filled_and_the_request_returned_are_the_answer():
    fields = {"thing": "voucher", "years": 3}
    called = "llm.output_messages.0.message.tool_calls.0.tool_call.function."
    asked = _asked(
        fields,
        _retriever(VOUCHERS),
        openinference(
            3,
            1,
            "LLM",
            **exchange(f"Context: {VOUCHERS}\nQuestion: how long?"),
            **{f"{called}name": "Voucher", f"{called}arguments": json.dumps(fields, indent=1)},
        ),
    )

    assert (asked.answer, sample_of(asked).status) == (json.dumps(fields), "ok")


def test_a_reply_in_json_is_a_text_where_no_type_says_otherwise():
    reply = '{"thing": "voucher", "years": 3}'
    asked = _asked(
        None,
        _retriever(VOUCHERS),
        openinference(3, 1, "LLM", output=reply, **exchange(f"Context: {VOUCHERS}\nQuestion: how long?")),
    )

    assert asked.answer == reply


def test_a_state_that_holds_messages_and_documents_gave_out_the_documents():
    """A step of its own searched, and wrote what it found into the user's message, too."""
    prompt = f"Are sale items refunded?\n\nUse this context:\n{RETURNS}\n\n{CATS}"
    state = {
        "messages": [{"role": "user", "content": prompt}],
        "context": [{"page_content": text, "metadata": {}} for text in (RETURNS, CATS)],
    }
    asked = _asked(ANSWER, openinference(2, 1, "CHAIN", output=state), _call(3, prompt, ANSWER))

    assert _shown(asked) == ("prompt", [RETURNS, CATS])


def test_an_agent_that_calls_its_tools_in_words_answers_with_its_last_words():
    """Its prompt repeats its own call behind the question; an engine's answer is what the tool returned."""
    question, draft = "Are sale items refunded?", "Sale items are exchanged for a voucher."
    act = 'Thought: I have to look.\nAction: look\nAction Input: {"input": "sale items"}'
    turns = [("user", question), ("assistant", act), ("user", f"Observation: {draft}")]
    sent = {
        f"llm.input_messages.{place}.message.{key}": value
        for place, turn in enumerate(turns)
        for key, value in zip(("role", "content"), turn, strict=True)
    }
    asked = only(
        openinference(1, None, "CHAIN", "agent", input=question, end=60),
        _call(2, question, act, start=1, end=2),
        openinference(3, 1, "TOOL", "look", output=draft, start=2, end=6),
        openinference(4, 3, "RETRIEVER", start=3, end=4, **documents(RETURNS)),
        openinference(5, 3, "LLM", start=4, end=5, **exchange(f"Context: {RETURNS}\nQuestion: sales", draft)),
        openinference(6, 1, "LLM", start=7, end=8, **sent, **exchange(said=f"Thought: So.\nAnswer: {ANSWER}")),
    )

    assert asked.answer is not None
    assert asked.answer.endswith(ANSWER)


def test_what_was_retrieved_again_for_a_better_answer_counts_once():
    """The second attempt's prompt quotes the first answer, which rests on the same documents."""
    draft = "It cannot be said from these terms whether they are."
    asked = _asked(
        ANSWER,
        _retriever(RETURNS, VOUCHERS),
        _call(3, f"Context: {RETURNS}\n\n{VOUCHERS}\nQuestion: sale items?", draft),
        _retriever(RETURNS, VOUCHERS, number=4),
        _call(
            5,
            f"Context: {RETURNS}\n\n{VOUCHERS}\nQuestion: sale items?\nHere is a bad answer:\n{draft}\nDo better.",
            ANSWER,
        ),
    )

    assert _shown(asked) == ("prompt", [RETURNS, VOUCHERS])


def test_an_answer_that_no_call_gave_is_told_by_the_retrieval():
    asked = _asked(
        "Pasted by a template: see the terms, chapter nine.",
        _retriever(RETURNS, CATS),
        _call(3, f"Is this relevant? yes or no.\n{RETURNS}", "yes"),
    )

    assert _shown(asked) == ("runs", [RETURNS, CATS])


def _gave(output, *, by="RETRIEVER"):
    return only(
        openinference(1, None, "CHAIN", "qa", input="Are sale items refunded?", output=ANSWER),
        openinference(2, 1, by, "search", input="sale items", output=output),
        tools=["search"],
    )


@pytest.mark.parametrize("by", ["RETRIEVER", "TOOL"])
@pytest.mark.parametrize(
    "output",
    [
        {"page": "x", "hits_in_total": 3},
        {"answer_block": RETURNS},
        "<Found object at 0x7f12>",
        [
            "<NodeWithScore(node=TextNode(id_=one), score=1.0)>",
            "<NodeWithScore(node=TextNode(id_=two), score=0.9)>",
        ],
        "ConnectionError: the index did not answer in ten seconds",
        "Error executing tool search: the index did not answer in ten seconds",
        "Error while decoding function arguments: invalid syntax\n\nPlease send JSON and try it again.",
        "An error occurred while running the tool. Please try again. Error: no index of that name",
        [{"title": "Returns"}, {"n": 3}],
    ],
)
def test_a_result_that_cannot_be_read_is_not_an_empty_one(output, by):
    asked = _gave(output, by=by)

    assert (asked.usable, asked.reason) == ("none", "unreadable_result")


@pytest.mark.parametrize("output", ["[]", "{}", "", "null", {"documents": []}, "No results found."])
def test_a_result_that_says_that_nothing_was_found_is_empty(output):
    asked = _gave(output)

    assert (asked.usable, asked.contexts) == ("full", ())


@pytest.mark.parametrize("by", ["RETRIEVER", "TOOL"])
def test_of_rows_that_nobody_knows_the_longest_text_is_the_passage(by):
    rows = {"total": 2, "rows": [{"title": "Returns", "html": RETURNS, "score": 0.5}, {"html": CATS}]}
    asked = _gave(rows, by=by)

    assert [(item.id, item.text, item.score) for item in asked.contexts] == [
        ("Returns", RETURNS, 0.5),
        (None, CATS, None),
    ]
    assert asked.contexts[0].metadata == {"title": "Returns", "score": 0.5}


def test_a_retriever_that_was_asked_nothing_and_gave_out_nothing_made_no_request():
    assert found(openinference(1, None, "RETRIEVER", "Own.init", input={})) == []


def test_a_retriever_that_gave_back_a_text_found_it():
    assert [item.text for item in _gave(f"{RETURNS}\n\n{CATS}").contexts] == [RETURNS, CATS]


def _with_tool(result, prompt, *inside, **more):
    return found(
        openinference(1, None, "AGENT", "shop", input="Are sale items refunded?", output=ANSWER, end=60),
        openinference(2, 1, "TOOL", "look", input="sale items", output=result, end=3, **more),
        *inside,
        _call(4, prompt, ANSWER),
    )


@pytest.mark.parametrize(
    "result",
    [
        f"{RETURNS}\n\n{VOUCHERS}",
        f"- {RETURNS}\n- {VOUCHERS}",
        f"Found 2 results:\n\n1. {RETURNS}\n2. {VOUCHERS}",
        [{"id": "returns", "text": RETURNS}, {"id": "vouchers", "text": VOUCHERS}],
    ],
)
def test_a_tool_that_no_one_named_retrieves_if_its_passages_reached_the_model(result):
    (asked,) = _with_tool(result, f"Tool: {RETURNS} {VOUCHERS}")

    assert [item.text for item in asked.contexts] == [RETURNS, VOUCHERS]
    assert (asked.question, asked.usable) == ("Are sale items refunded?", "full")


@pytest.mark.parametrize(
    ("result", "prompt", "more"),
    [
        ("21 degrees, sunny", "Tool: 21 degrees, sunny", {}),
        ({"temperature": 21, "sky": "sunny"}, '{"temperature": 21, "sky": "sunny"}', {}),
        (RETURNS, "Tool: nothing of that", {}),
        (RETURNS, f"Tool: {RETURNS}", {"failed": True}),
        (f"TimeoutError: {RETURNS}", f"Tool: TimeoutError: {RETURNS}", {}),
    ],
)
def test_other_tools_do_not_retrieve(result, prompt, more):
    assert _with_tool(result, prompt, **more) == []


RETURNED, ISSUED = {"body": RETURNS}, {"body": VOUCHERS}


@pytest.mark.parametrize(
    "result",
    [
        {"hits": {"total": {"value": 2}, "hits": [{"_id": "a", "_source": RETURNED}, {"_id": "b", "_source": ISSUED}]}},
        {"matches": [{"id": "a", "values": [], "metadata": RETURNED}, {"id": "b", "values": [], "metadata": ISSUED}]},
        {"result": {"points": [{"id": "a", "version": 3, "payload": RETURNED}, {"id": "b", "payload": ISSUED}]}},
        {"data": {"Get": {"Terms": [{**RETURNED, "_more": {"id": "a"}}, {**ISSUED, "_more": {"id": "b"}}]}}},
        [{**RETURNED, "id": "a"}, None, {**ISSUED, "id": "b"}],
    ],
)  # fmt: skip
def test_what_a_store_answered_is_read_as_it_came(result):
    (asked,) = _with_tool(result, f"Tool: {RETURNS} {VOUCHERS}")

    assert [(item.text, item.id) for item in asked.contexts] == [(RETURNS, "a"), (VOUCHERS, "b")]


def test_bytes_among_the_parts_of_a_message_are_no_text():
    parts = [
        {"type": "text", "content": f"Context:\n[1] {RETURNS}\n[2] {VOUCHERS}"},
        {"type": "blob", "mime_type": "image/png", "content": "iVBORw0KGgo="},
        {"type": "text", "content": "Question: Are sale items refunded?"},
    ]
    call = chat([{"role": "user", "parts": parts}], {"parts": [{"type": "text", "content": ANSWER}]})

    assert _shown(only(span(1, attributes=call))) == ("prompt", [RETURNS, VOUCHERS])


def test_of_alternative_completions_the_first_is_the_answer():
    prompt = f"Context:\n[1] {RETURNS}\n[2] {VOUCHERS}\n\nQuestion: Are sale items refunded?"
    choices = [{"content": said, "finish_reason": "stop"} for said in (ANSWER, "They may be, who knows.")]

    assert only(span(1, attributes=chat(prompt, *choices))).answer == ANSWER


def test_a_completion_is_read_and_a_conversation_written_out_for_it_is_one():
    """As LlamaIndex' models for text are traced within a chat."""
    turns = {
        "user": f"Documents:\n\n[1] {RETURNS}\n\n[2] {VOUCHERS}",
        "assistant": "Yes?",
        "user ": "Are sale items refunded?",
    }
    prompt = "\n".join(f"{role.strip()}: {text}" for role, text in turns.items())
    sent = {}
    for place, (role, text) in enumerate(turns.items()):
        message = f"llm.input_messages.{place}.message"
        sent |= {f"{message}.role": role.strip(), f"{message}.content": text}
    outer = openinference(1, None, "LLM", "chat", output={"text": ANSWER}, end=9, **sent)
    inner = openinference(2, 1, "LLM", "complete", input={"prompt": prompt}, output={"text": ANSWER})

    asked = only(outer, inner)

    assert (asked.question, asked.answer) == ("Are sale items refunded?", ANSWER)
    assert _shown(asked) == ("prompt", [RETURNS, VOUCHERS])


@pytest.mark.parametrize("beside", [{"file": "a.md"}, {}])
def test_records_in_a_tools_response_are_passages(beside):
    rows = [{**beside, "text": RETURNS}, {**beside, "text": VOUCHERS}]
    response = {"type": "tool_call_response", "id": "1", "response": rows}
    sent = [{"role": "user", "content": "Refunded?"}, {"role": "tool", "parts": [response]}]

    assert _shown(only(span(1, attributes=chat(sent, ANSWER)))) == ("prompt", [RETURNS, VOUCHERS])


@pytest.mark.parametrize("parent", [None, 99])
def test_a_retrieval_beside_the_chain_that_is_given_its_documents_is_of_its_request(parent):
    prompt = f"Context:\n{RETURNS}\n\n{VOUCHERS}\n\nQuestion: Are sale items refunded?"
    asked = only(
        openinference(1, parent, "RETRIEVER", input="refunds", **documents(RETURNS, VOUCHERS)),
        openinference(2, parent, "CHAIN", input={"question": "Refunded?"}, output=ANSWER, end=9),
        replace(_call(3, prompt, ANSWER), parent_id=f"{2:016x}"),
    )

    assert (asked.answer, texts(asked)) == (ANSWER, [RETURNS, VOUCHERS])


SOURCE = {"type": "text", "media_type": "text/plain"}


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ([{"type": "document", "source": {**SOURCE, "data": text}, "title": "a"} for text in (RETURNS, VOUCHERS)], {}),
        ([{"type": "search_result", "source": "a.md", "content": [{"type": "text", "text": text}]} for text in (RETURNS, VOUCHERS)], {}),
        ([], {"context": {"citations": [{"content": text, "filepath": "a.md"} for text in (RETURNS, VOUCHERS)]}}),
        ([], {"search": {"results": [{"text": text, "file_id": "f"} for text in (RETURNS, VOUCHERS)]}}),
    ],
)  # fmt: skip
def test_documents_beside_a_models_words_are_what_it_saw(sent, said):
    """Sent as parts of the message, or found by the model's provider itself."""
    asks = [{"role": "user", "content": [*sent, {"type": "text", "text": "Refunded?"}]}]
    asked = only(span(1, attributes=chat(asks, {"content": ANSWER, **said})))

    assert (asked.question, asked.answer) == ("Refunded?", ANSWER)
    assert _shown(asked) == ("prompt", [RETURNS, VOUCHERS])


@pytest.mark.parametrize("with_retrievals", [True, False])
def test_two_questions_below_a_span_that_says_nothing_are_two_requests(with_retrievals):
    """Asked at once, or one after the other; whose call is whose, prompts say."""
    asked = {
        "Are sale items refunded?": (RETURNS, VOUCHERS),
        "When do cats sleep?": (CATS, "Dogs sleep at night, as a rule."),
    }
    said = {"Are sale items refunded?": ANSWER, "When do cats sleep?": "Around noon, most of all, it seems."}
    spans = [span(1, None, "batch", end=90)]
    for number, (question, passages) in enumerate(asked.items(), 2):
        prompt = "Context:\n{}\n---\n{}\n\nQuestion: {}".format(*passages, question)
        spans.append(_call(number + 4, prompt, said[question]))
        if with_retrievals:
            spans.append(openinference(number, 1, "RETRIEVER", input=question, **documents(*passages)))

    requests = found(*spans)

    assert {one.question: (tuple(texts(one)), one.answer) for one in requests} == {
        question: (passages, said[question]) for question, passages in asked.items()
    }


def test_a_function_whose_text_a_model_was_sent_as_a_tools_retrieves():
    """As Logfire writes tools of the Agents SDK: no kind, and messages in a list of events."""
    messages = [
        {"event.name": "gen_ai.user.message", "content": "Are sale items refunded?"},
        {"event.name": "gen_ai.tool.message", "content": f"{RETURNS}\n---\n{VOUCHERS}"},
        {"event.name": "gen_ai.assistant.message", "content": ANSWER},
    ]
    call = {"gen_ai.operation.name": "chat", "events": json.dumps(messages)}
    asked = only(
        span(1, None, "Agent workflow", end=90, attributes={"name": "Agent workflow"}),
        span(2, 1, attributes={"input": {"query": "sale"}, "return": f"{RETURNS}\n---\n{VOUCHERS}"}),
        span(3, 1, attributes=call),
    )

    assert (asked.question, asked.answer) == ("Are sale items refunded?", ANSWER)
    assert texts(asked) == [RETURNS, VOUCHERS]


def test_what_is_retrieved_after_the_answer_is_no_context():
    root = openinference(1, None, "CHAIN", "qa", input="Are sale items refunded?", end=60)
    call = _call(3, f"Context: {RETURNS}", f"```json\n{json.dumps({'answer': ANSWER})}\n```")

    asked = only(root, _retriever(RETURNS), call, _retriever(CATS, number=5))

    assert (asked.answer, _shown(asked)) == (ANSWER, ("prompt", [RETURNS]))


def test_an_agent_that_serves_as_a_tool_does_not_retrieve():
    inner = openinference(3, 2, "LLM", **exchange(said=RETURNS))

    assert _with_tool(RETURNS, f"Tool: {RETURNS}", inner) == []


def test_a_chain_of_replies_too_long_to_follow_leaves_it_to_the_retrieval():
    """Contexts of a part of the chain would be said to be all that the model saw."""
    passages = [f"Chapter {n} says that item number {n} is exchanged within {n} days." for n in range(12)]
    replies = [f"So far: the chapters up to number {n} speak of exchanges." for n in range(12)]
    calls = [
        _call(
            3 + n,
            f"{'Refine! ' * n}{replies[n - 1]}\nContext: {passage}" if n else f"Context: {passage}",
            replies[n],
        )
        for n, passage in enumerate(passages)
    ]

    def shown(count):
        return _shown(_asked(replies[count - 1], _retriever(*passages[:count]), *calls[:count]))

    assert shown(8) == ("prompt", passages[:8])
    assert shown(12) == ("runs", passages)


CHAT = f"User: Are sale items refunded?\nAssistant: {ANSWER}"


@pytest.mark.parametrize(
    ("sent", "said", "answers"),
    [
        (f"Give this chat a title:\n\n{CHAT}", "What becomes of goods on sale", False),
        (f"Summarise this conversation:\n\n{CHAT}", "They asked whether goods on sale are paid back.", False),
        (f"Is this reply harmful? Say why.\n\n{ANSWER}", "Nothing in the text can hurt people.", False),
        (f"Task:\nName a title as JSON.\n\n{CHAT}", '{"title": "What becomes of goods on sale"}', False),
        (f"Check whether the answer follows.\n\nDocuments: {RETURNS}\nAnswer: {ANSWER}", "It follows from what the first text says.", False),
        (f"Question: Are sale items refunded?\nContext: {RETURNS}\nReply: {ANSWER}\nIs it grounded?", f"Yes: {ANSWER}", False),
        (f"Are personal data in this text?\n\n{ANSWER}", "It contains no personal data of any kind.", False),
        (f"Condense the dialogue.\n\n{CHAT}", f"The customer asked about sale items. {ANSWER}", False),
        (f"Improve this by the critique.\n\n{ANSWER}", "You get a voucher for them.", True),
        (f"Write a title and then the reply again:\n\n{ANSWER}", f"Sale items: {ANSWER}", True),
        (f"Translate into German:\n\n{ANSWER}", "Nein, es gibt einen Gutschein statt Geld.", True),
    ],
)  # fmt: skip
def test_what_a_model_says_about_an_answer_is_not_the_answer(sent, said, answers):
    root = openinference(1, None, "CHAIN", "qa", input="Are sale items refunded?", end=60)
    asked = only(root, _retriever(RETURNS), _call(3, f"Context: {RETURNS}", ANSWER), _call(4, sent, said))

    assert asked.answer == (said if answers else ANSWER)


def test_of_a_context_that_is_not_divided_the_answer_is_judged_and_no_rank_is_guessed():
    ids = json.dumps([{"id": "fees", "score": 0.9}, {"id": "locks", "score": 0.7}])
    context = f"{FEES}\nThe desk closes at seven.\n{LOCKS}"
    prompt = f"Context:\n{context}\n\nQuestion: What does a late return cost?"
    operation = "gen_ai.operation.name"
    request = only(
        span(1, None, "ask", attributes={operation: "invoke_workflow"}),
        span(2, 1, "retrieve", attributes={operation: "retrieval", "gen_ai.retrieval.documents": ids}),
        span(3, 1, "chat", attributes=chat(prompt, "Four euros.")),
    )
    sample = sample_of(request)
    metrics = ["support", "lexical_groundedness", "fact_conflict", "lexical_context_relevance"]
    [found] = Scorer(metrics=metrics).score([sample])
    scores = dict(found)

    assert [document.id for document in sample.contexts] == ["fees", "locks"]
    assert [document.text for document in sample.carried] == [context]
    assert scores["support"].value > 0.5
    assert scores["lexical_groundedness"].value == 1.0
    assert scores["lexical_context_relevance"].missing == "contexts.text"


FEES = "A late return of a rented bicycle costs four euros for each hour that has begun."
LOCKS = "Every bicycle comes with a frame lock and a chain, and a key that stays in it."
