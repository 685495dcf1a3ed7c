"""The shop's assistant in LangChain, traced by OpenLLMetry."""

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from opentelemetry.instrumentation.langchain import LangchainInstrumentor
from tracing import answer_to, found, provider, run


class Shelf(BaseRetriever):
    """Finds the shop's documents for a question."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(id=name, page_content=text) for name, text in found(query)]


class Scripted(BaseChatModel):
    """Replies with the shop's answer."""

    @property
    def _llm_type(self):
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        message = AIMessage(answer_to(messages[-1].content))
        return ChatResult(generations=[ChatGeneration(message=message)])


def joined(documents):
    return "\n\n".join(document.page_content for document in documents)


LangchainInstrumentor().instrument(tracer_provider=provider)

chain = (
    {"context": Shelf() | joined, "question": RunnablePassthrough()}
    | ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
    | Scripted()
    | StrOutputParser()
).with_config(run_name="shop assistant")
run(chain.invoke)
