"""Your own LangChain chain, and one line of ragmeter: no key, no network.

Needs the extra `[langchain]` and numpy: LangChain's in-memory store computes with numpy.

python examples/langchain_quickstart.py
"""

from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from ragmeter import RagMeter, reference
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.memory import InMemoryExporter

# Your chain, as it is.
store = InMemoryVectorStore(DeterministicFakeEmbedding(size=64))
store.add_texts(
    [
        "The lighthouse keeper trims the lamp at dusk.",
        "The ferry leaves the island at seven in the morning.",
        "On Sundays there is no ferry.",
    ]
)
prompt = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
model = FakeListChatModel(responses=["The ferry leaves at seven in the morning."])
retriever = store.as_retriever(search_kwargs={"k": 3})
chain = (
    {
        "context": retriever | (lambda docs: "\n".join(doc.page_content for doc in docs)),
        "question": RunnablePassthrough(),
    }
    | prompt
    | model
    | StrOutputParser()
)

# ragmeter: a meter, and one callback. Without `exporters` the scores go to OpenTelemetry.
memory = InMemoryExporter()
meter = RagMeter(exporters=[memory])

with reference(
    answer="At seven in the morning.", contexts=["The ferry leaves the island at seven in the morning."]
):
    answer = chain.invoke("When does the ferry leave?", config={"callbacks": [RagMeterCallbackHandler(meter)]})

meter.flush(timeout_s=10)
print(f"answer: {answer}")
for result in memory.results:
    for name, score in result.scores.items():
        print(f"{name:28} {score.status if score.value is None else f'{score.value:.3f}'}")
meter.shutdown(timeout_s=10)
