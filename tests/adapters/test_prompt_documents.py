"""Where no step retrieves, the documents are those that the layout of the prompt shows, in every framework."""

import pytest
from langchain.agents.middleware import dynamic_prompt
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_fakes import ScriptedModel, frameworks_deprecate, scripted_agent, texts, watching
from llama_index.core.llms import ChatMessage
from llama_index_fakes import captured, llm
from opentelemetry.sdk.trace import TracerProvider
from otlp_spans import chat

from ragmeter import RagMeter
from ragmeter.adapters.opentelemetry import RagMeterSpanProcessor
from ragmeter.exporters.memory import InMemoryExporter

pytestmark = [frameworks_deprecate]

FOUND = ["Kettle 4711 boils in three minutes flat.", "Kettle 12 needs five minutes in winter."]
QUESTION = "How long does kettle 4711 take?"
ANSWER = "It takes three minutes flat."
PROMPTS = {
    "ruled": "Context:\n{}\n---\n{}",
    "numbered": "Answer from these documents only:\n\n[1] {}\n\n[2] {}",
    "elements": "<documents><document>{}</document><document>{}</document></documents>",
    "in words": "Use the following context in your response:\n\n{}\n\n{}",
}
BESIDE = {
    "instructions": "You help in a shop.\n\nBe brief and kind.\n\nNever speak of politics, please.",
    "a lone text": "Context:\n" + FOUND[0] * 4,
    "a summary": "Sum this up:\n\n" + "\n\n".join(FOUND * 2),
}


def of_langchain(system, questions=(QUESTION,), earlier=()):
    with watching() as watch:
        for question in questions:
            messages = [SystemMessage(system), *earlier, HumanMessage(question)]
            ScriptedModel(script=[ANSWER]).invoke(messages, watch.config)
        return watch.samples


def of_llama_index(system, question=QUESTION):
    with captured() as capture:
        messages = [ChatMessage(role="system", content=system), ChatMessage(role="user", content=question)]
        llm(reply=lambda _: ANSWER).chat(messages)
        return [run.sample for run in capture.runs]


@pytest.mark.parametrize("ask", [of_langchain, of_llama_index])
@pytest.mark.parametrize("layout", PROMPTS)
def test_a_prompt_that_tells_its_documents_apart_has_them(ask, layout):
    (sample,) = ask(PROMPTS[layout].format(*FOUND))
    assert (sample.question, sample.answer, sample.status) == (QUESTION, ANSWER, "ok")
    assert (texts(sample), sample.contexts_by) == (FOUND, "prompt")


@pytest.mark.parametrize("ask", [of_langchain, of_llama_index])
@pytest.mark.parametrize("text", BESIDE)
def test_a_prompt_that_does_not_is_no_request(ask, text):
    assert ask(BESIDE[text]) == []


def test_an_agent_whose_instructions_are_made_of_what_was_found(watch):
    @dynamic_prompt
    def with_context(request):
        return PROMPTS["in words"].format(*FOUND)

    scripted_agent(ANSWER, middleware=[with_context]).invoke({"messages": [("user", QUESTION)]}, watch.config)
    (sample,) = watch.samples
    assert (sample.question, texts(sample)) == (QUESTION, FOUND)


def test_a_template_says_what_its_context_is(watch):
    chain = (
        {"context": lambda _: "\n\n".join(FOUND), "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_template("Read {context} and tell me: {question}")
        | ScriptedModel(script=[ANSWER])
    )
    chain.invoke(QUESTION, watch.config)
    (sample,) = watch.samples
    assert (sample.question, texts(sample)) == (QUESTION, FOUND)


def test_only_this_turns_message_has_its_documents():
    before = ["Teapots are glazed twice in the kiln, first in April.", "Cups have one glaze only."]
    earlier = [HumanMessage(PROMPTS["ruled"].format(*before) + "\n\nQuestion: Teapots?")]
    now = PROMPTS["ruled"].format(*FOUND) + f"\n\nQuestion: {QUESTION}"
    (sample,) = of_langchain("Be brief.", [now], [*earlier, AIMessage("Twice.")])
    assert texts(sample) == FOUND
    assert [item.text for item in sample.carried] == before


def test_what_stands_in_every_prompt_is_the_template(watch):
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Use the following information:\n\n{rules}\n\n{found}"), ("user", "{question}")]
    )
    rules = "Speak of kettles as if they were old friends of yours."
    chain = RunnableLambda(lambda question: {"rules": rules, "question": question, **FILL[question]}) | prompt
    for question in FILL:
        (chain | ScriptedModel(script=[ANSWER])).invoke(question, watch.config)
    found = [texts(sample) for sample in watch.samples]
    assert found[2:] == [[fill["found"]] for fill in list(FILL.values())[2:]]


FILL = {
    f"How long does kettle {number} take?": {"found": f"Kettle {number} boils in {number} minutes."}
    for number in range(4711, 4716)
}


def of_spans(system, questions):
    memory = InMemoryExporter()
    meter = RagMeter(metrics=["retrieval_health"], exporters=[memory])
    provider = TracerProvider()
    provider.add_span_processor(RagMeterSpanProcessor(meter, grace_s=0))
    for question in questions:
        with provider.get_tracer("openai").start_as_current_span("chat") as span:
            span.set_attributes(
                chat([{"role": "system", "content": system}, {"role": "user", "content": question}], ANSWER)
            )
    assert meter.flush(30)
    meter.shutdown(30)
    return [result.sample for result in memory.results]


@pytest.mark.parametrize("ask", [of_langchain, of_spans])
def test_a_prompt_that_never_changes_shows_no_documents(ask):
    samples = ask(PROMPTS["ruled"].format(*FOUND), [f"Kettle {number}?" for number in range(6)])
    assert len(samples) == 2  # from the third question on it is known
