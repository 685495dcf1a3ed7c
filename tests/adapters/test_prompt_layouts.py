"""Which documents and which question a prompt shows, by its layout alone, in many forms that applications write."""

import json

import pytest

from ragmeter.adapters.reading.calls import last_reply
from ragmeter.adapters.reading.prompt_documents import asked_in, contexts_in_prompts
from ragmeter.adapters.reading.step import Message, Step

ONE = "Kettle 4711 boils in three minutes flat, as long as it is not full."
TWO = "Kettle 12 needs five minutes in winter; in summer it is a little faster."
QUESTION = "How long does kettle 4711 take?"
ANSWER = "It takes three minutes flat."

SHOWN = {
    "fields in brackets": f"[[ ## context ## ]]\n[1] «{ONE}»\n[2] «{TWO}»\n\n[[ ## question ## ]]\n{QUESTION}\n\nFill in the field `answer`.",
    "quoted sections": f'Use the below articles.\n\nPart of an article:\n"""\n{ONE}\n"""\n\nPart of an article:\n"""\n{TWO}\n"""\n\nQuestion: {QUESTION}',
    "with a verb": f"The user's question is: {QUESTION}\n\nContext is: {ONE}\n\n{TWO}",
    "element named before": f"Your knowledge stands in <context></context> elements.\n\n<context>\n{ONE}\n\n{TWO}\n</context>\n\nQuestion: {QUESTION}",
    "element for the question": f'<context>\n<source id="1">{ONE}</source>\n<source id="2">{TWO}</source>\n</context>\n\n<user_query>\n{QUESTION}\n</user_query>',
    "file names": f"{QUESTION}\n\nSources:\nkettle.pdf#page=1: {ONE}\nwinter.md: {TWO}",
    "bullets and a bare question": f"Answer with these facts:\n* {ONE}\n* {TWO}\n\n{QUESTION}",
    "elements alone": f"<question>{QUESTION}</question>\n<passages>\n<passage>{ONE}</passage>\n<passage>{TWO}</passage>\n</passages>",
    "scored headings": f"Retrieved documents:\n\n--- Document 1 (score 0.91) ---\n{ONE}\n\n--- Document 2 (score 0.8) ---\n{TWO}\n\nQuestion: {QUESTION}",
    "metadata in parentheses": f"Answer from the sources.\n\n(Source: a.md)\n{ONE}\n\n(Source: b.md)\n{TWO}\n\nQuestion: {QUESTION}",
    "numbers after a full stop": f"Answer from these passages.\n\n[1] {ONE}\n\n[2] {TWO}\n\nQuestion: {QUESTION}",
    "one object": json.dumps({"question": QUESTION, "context": [{"id": 1, "text": ONE}, {"id": 2, "text": TWO}]}),
    "Russian": f"Ответь по фрагментам ниже.\n\nФрагмент 1:\n{ONE}\n\nФрагмент 2:\n{TWO}\n\nВопрос пользователя: {QUESTION}",
    "Chinese numbers": f"资料：\n【1】{ONE}\n【2】{TWO}\n\n问题：{QUESTION}",
    "Chinese headings": f"已知信息：\n文档1：{ONE}\n文档2：{TWO}\n\n根据上述信息回答用户的问题。问题是：{QUESTION}",
    "Spanish": f"Contexto:\n{ONE}\n\n{TWO}\n\nPregunta: {QUESTION}",
    "German headings": f"Antworte nur anhand der folgenden Auszüge.\n\nAuszug 1:\n{ONE}\n\nAuszug 2:\n{TWO}\n\nFrage: {QUESTION}",
    "Portuguese element": f"<contexto>\n{ONE}\n---\n{TWO}\n</contexto>\n\nPergunta: {QUESTION}",
    "Japanese numbers": f"文脈:\n[1] {ONE}\n\n[2] {TWO}\n\n質問: {QUESTION}",
    "Arabic": f"السياق:\n{ONE}\n\n{TWO}\n\nالسؤال: {QUESTION}",
    "Japanese": f"コンテキスト:\n{ONE}\n\n{TWO}\n\n質問: {QUESTION}",
}  # fmt: skip
NOT_SHOWN = {
    "notes to sum up": f"Sum up these notes:\n\n- {ONE}\n- {TWO}",
    "a text to translate": f"Translate into French:\n\n{ONE}\n\n{TWO}",
    "an object to sum up": json.dumps({"task": "sum up", "documents": [ONE, TWO]}),
    "an object about a user": json.dumps({"name": "Maria", "information": ONE}),
    "answers to compare": f"Compare.\n\nAnswer 1: {ONE}\n\nAnswer 2: {TWO}\n\nWhich is better?",
    "a conversation": f"So far:\n\nUser: {ONE}\n\nAssistant: {TWO}\n\nWrite a short title.",
    "numbered instructions": f"Answer from the sources.\n\n1. {ONE}\n2. {TWO}",
}


def call(*texts, said=ANSWER, began=1):
    messages = tuple(Message("user", text) for text in texts)
    return Step(id=str(began), started_ns=began, ended_ns=began + 1, messages=messages, said=said)


@pytest.mark.parametrize("layout", SHOWN)
def test_a_layout_that_divides_documents_shows_them_and_the_question(layout):
    calls = [call(SHOWN[layout])]

    shown = contexts_in_prompts(calls, ANSWER, asked_in(calls))

    assert asked_in(calls) == QUESTION
    assert shown.is_divided
    assert [item.text.strip("«»") for item in shown.documents] == [ONE, TWO]


@pytest.mark.parametrize("text", NOT_SHOWN)
def test_any_other_text_shows_none(text):
    calls = [call(NOT_SHOWN[text])]

    shown = contexts_in_prompts(calls, ANSWER, asked_in(calls))

    assert shown is None or not shown.is_divided


@pytest.mark.parametrize(
    ("said", "sent", "reply"),
    [
        ("1. What about kettle 12?\n2. Is it safe?\n3. Who made it?", ANSWER, ANSWER),
        ("Which of the two kettles do you mean?", "nothing of it", "Which of the two kettles do you mean?"),
        ("yes", ANSWER, ANSWER),
        ("It takes three minutes, or five in winter.", ANSWER, "It takes three minutes, or five in winter."),
    ],
)  # fmt: skip
def test_follow_up_questions_about_a_reply_are_not_the_answer(said, sent, reply):
    assert last_reply([call(QUESTION), call(sent, said=said, began=3)]) == reply
