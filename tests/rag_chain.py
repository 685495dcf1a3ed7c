"""A small real LangChain chain for tests that look at the whole path."""

from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

QUESTION = "Where does the secret-question river rise?"
ANSWER = "The secret-answer river rises in the north."
DOCUMENTS = [
    Document("The secret-context river rises in the far north.", id="d1", metadata={"page": 1}),
    Document("Bread needs time.", id="d2"),
]


class ListRetriever(BaseRetriever):
    """Returns the documents it was given."""

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
