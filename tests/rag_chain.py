"""A small real LangChain chain for tests of the whole path."""

from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

QUESTION = "Where does the secret-question river rise?"
ANSWER = "The secret-answer river rises in the north."
DOCUMENTS = [
    Document("The secret-context river rises in the far north.", id="d1", metadata={"page": 1}),
    Document("Bread needs time.", id="d2"),
]


class ListRetriever(BaseRetriever):
    """Returns its given documents."""

    documents: list[Any]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return list(self.documents)


def rag_chain(documents: list[Any] | None = None, answer: str = ANSWER) -> Runnable[Any, str]:
    """Return retriever | prompt | model | parser."""
    retriever = ListRetriever(documents=DOCUMENTS if documents is None else documents)
    prompt = ChatPromptTemplate.from_template("Context: {context}\nQuestion: {question}")
    model = FakeListChatModel(responses=[answer])
    inputs = {"context": retriever | _format, "question": RunnablePassthrough()}
    return (inputs | prompt | model | StrOutputParser()).with_config(run_name="river_chain")


def _format(documents: list[Document]) -> str:
    return "\n\n".join(str(document.page_content) for document in documents)


def ask(meter: RagMeter, count: int = 1, chain: Runnable[Any, str] | None = None) -> list[str]:
    """Return the chain's answers to the same question, one after the other, with the meter watching."""
    asked = rag_chain() if chain is None else chain
    handler = RagMeterCallbackHandler(meter)
    return [asked.invoke(QUESTION, config={"callbacks": [handler]}) for _ in range(count)]


def check(meter: RagMeter, answers: list[str]) -> Any:
    """Check that the answers are right and every request is accounted for; return the counts."""
    assert answers == [ANSWER] * len(answers)
    assert meter.flush(60)
    stats = meter.stats()
    assert stats.captured == len(answers)
    assert stats.in_flight == 0
    assert stats.captured == stats.exported + sum(stats.dropped.values())
    return stats
