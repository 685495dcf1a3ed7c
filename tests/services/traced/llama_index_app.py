"""The shop's assistant in LlamaIndex, traced by OpenInference."""

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from tracing import InProcess, answer_to, found, provider, run

from ragmeter.adapters.llama_index import RagMeterHandler


class Shelf(BaseRetriever):
    """Finds what the shop says that it finds."""

    def _retrieve(self, query_bundle):
        return [
            NodeWithScore(node=TextNode(id_=name, text=text), score=1 / (1 + place))
            for place, (name, text) in enumerate(found(query_bundle.query_str))
        ]


class Scripted(CustomLLM):
    """Says what the shop says that it says."""

    @property
    def metadata(self):
        return LLMMetadata(model_name="scripted")

    @llm_completion_callback()
    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text=answer_to(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt, formatted=False, **kwargs):
        raise NotImplementedError


LlamaIndexInstrumentor().instrument(tracer_provider=provider)
engine = RetrieverQueryEngine.from_args(Shelf(), llm=Scripted())
inside = InProcess()
with RagMeterHandler(inside.meter):
    run(lambda question: str(engine.query(question)), inside.scores)
