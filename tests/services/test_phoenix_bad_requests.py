"""A new user's way in Phoenix: which requests are bad, and why, with a retriever that is broken for some."""

from dataclasses import dataclass

import httpx
import pytest
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from processes import wait_until

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

LIBRARY = {
    "returns": "A refund is paid within 14 days of the return. Returned goods must be unused.",
    "shipping": "Parcels are shipped from Tallinn within two days. Shipping is free from 50 euros.",
    "warranty": "Lamps have a warranty of three years. Batteries have a warranty of six months.",
    "harbour": "The harbour freezes in winter and the ferry stops until April.",
    "bread": "A sourdough starter is fed with flour and water every morning.",
}
GOOD = {
    "How long does a refund take?": (("returns", "shipping"), "A refund is paid within 14 days."),
    "Is shipping free?": (("shipping", "returns"), "Shipping is free from 50 euros."),
    "How long is the warranty of lamps?": (("warranty", "returns"), "Lamps have a warranty of three years."),
}
BROKEN = "How do I change my delivery address?"
EMPTY = "Do you sell gift cards?"
BAD = {
    BROKEN: (
        ("harbour", "bread"),
        "You can change the delivery address under Settings until the parcel has left our warehouse.",
    ),
    EMPTY: ((), "Yes, gift cards of 25, 50 and 100 euros are available in every shop."),
}
EVERYTHING = {**GOOD, **BAD}
PROJECT = "shop"
BAD_ROOTS = "parent_id is None and annotations['ragmeter.verdict'].label == 'bad'"


class Retriever(BaseRetriever):
    """Finds what it is told to find."""

    def _get_relevant_documents(self, query, *, run_manager):
        found, _ = EVERYTHING[query]
        return [Document(id=name, page_content=LIBRARY[name]) for name in found]


class Model(BaseChatModel):
    """Answers what it is told to answer."""

    @property
    def _llm_type(self):
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        said = next(a for q, (_, a) in EVERYTHING.items() if q in messages[-1].content)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said))])


@dataclass
class Shop:
    """What Phoenix has of the requests."""

    node: str
    traces: dict[str, str]
    spans: list


@pytest.fixture(scope="module")
def shop(phoenix):
    """Ask everything, as docs/backends.md says: Phoenix by name, one handler, no reference, no judge."""
    with pytest.MonkeyPatch.context() as set_up:
        set_up.setenv("PHOENIX_COLLECTOR_ENDPOINT", phoenix.url)
        set_up.setenv("PHOENIX_PROJECT", PROJECT)
        set_up.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
        meter = RagMeter(exporters="phoenix")
    chain = (
        {
            "context": Retriever() | (lambda found: "\n\n".join(document.page_content for document in found)),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("{context}\n\n{question}")
        | Model()
        | StrOutputParser()
    ).with_config(run_name="shop assistant")
    handler = RagMeterCallbackHandler(meter)
    for question in EVERYTHING:
        assert chain.invoke(question, config={"callbacks": [handler]})
    assert meter.flush(30)
    assert meter.stats().export_errors == {}

    def arrived():
        page = phoenix.get(f"/v1/projects/{PROJECT}/spans", limit=100)
        found = page["data"] if page else []
        return found if len(found) == 2 * len(EVERYTHING) else None

    found = wait_until(arrived, 60)
    traces = {
        span["attributes"]["input.value"]: span["context"]["trace_id"]
        for span in found
        if span["span_kind"] == "CHAIN"
    }

    def judged():
        pages = [
            phoenix.get(
                f"/v1/projects/{PROJECT}/span_annotations", span_ids=span["context"]["span_id"], limit=100
            )
            for span in found
        ]
        return all(page and page["data"] for page in pages)

    wait_until(judged, 60)
    assert meter.flush(30)  # as with any later request: the project is there now
    yield Shop(phoenix.node_id(PROJECT), traces, found)
    meter.shutdown(60)


def test_root_spans_show_question_and_answer(shop):
    """With content capture on, the list reads as a list of conversations."""
    roots = [span["attributes"] for span in shop.spans if span["parent_id"] is None]
    assert {(one["input.value"], one["output.value"]) for one in roots} == {
        (question, answer) for question, (_, answer) in EVERYTHING.items()
    }


def test_the_list_is_sorted_by_the_verdict(phoenix, shop):
    """As a click on the column's head asks for it: a score is needed for that."""
    query = """query ($id: ID!) { node(id: $id) { ... on Project { spans(first: 5, filterCondition: "parent_id is None",
      sort: {evalResultKey: {name: "ragmeter.verdict", attr: score}, dir: asc})
      { edges { node { input { value } } } } } } }"""
    asked = {"query": query, "variables": {"id": shop.node}}
    answer = httpx.post(f"{phoenix.url}/graphql", json=asked, timeout=60).json()
    assert "errors" not in answer, answer
    rows = [one["node"]["input"]["value"] for one in answer["data"]["node"]["spans"]["edges"]]
    assert set(rows[:2]) == set(BAD)
    assert set(rows[2:]) == set(GOOD)


def test_the_bad_requests_and_the_reason_are_three_clicks_away(phoenix, shop, browser, keep_picture):
    """The filter that the page names, then: the request, its verdict, what was retrieved."""
    page = browser.open(f"{phoenix.url}/projects/{shop.node}/spans", width=1900, height=620)
    page.wait_for("shop assistant", "parent_id is None")
    page.fill(".cm-content", BAD_ROOTS)
    page.wait_for(r"Total Traces\s+2\b", r"ragmeter.verdict\s+Unfavorable score:\s+μ\s0\.00")
    wait_until(lambda: not any(question in page.text for question in GOOD), 60)
    page.wait_for("delivery address", "gift cards")
    keep_picture(page, "phoenix-bad-requests")

    # Phoenix links a row by its span's name, which all have: the page of this one, as a click opens it.
    page = browser.open(f"{phoenix.url}/projects/{shop.node}/traces/{shop.traces[BROKEN]}", height=800)
    page.wait_for("View annotation details", "Output")
    page.click("View annotation details")
    page.wait_for(
        r"of the answer's words are in the chunks; support [\d.]+; the best chunk has relevance 0.00",
        r"Unfavorable score:\s+0.00\s+bad",  # in red
    )
    keep_picture(page, "phoenix-why-bad")

    page.click("retrieval")
    text = page.wait_for("The harbour freezes in winter", r"Document Annotations")
    documents = text[text.index("The harbour freezes in winter") :]
    assert documents.index("lexical_context_relevance") < documents.index("A sourdough starter")
    keep_picture(page, "phoenix-documents")


def test_an_empty_retrieval_is_said_in_words(phoenix, shop):
    """As a label: a mean of the abnormal ones alone would read as if all were so."""
    [span] = [
        span["context"]["span_id"]
        for span in shop.spans
        if span["span_kind"] == "RETRIEVER" and span["context"]["trace_id"] == shop.traces[EMPTY]
    ]
    page = phoenix.get(f"/v1/projects/{PROJECT}/span_annotations", span_ids=span, limit=100)
    said = {one["name"]: one["result"] for one in page["data"]}
    assert said["empty_retrieval"]["label"] == "abnormal"
    assert said["empty_retrieval"]["score"] is None
