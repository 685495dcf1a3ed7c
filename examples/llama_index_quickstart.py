"""Your own LlamaIndex query engine, and one line of ragmeter: no key, no network.

python examples/llama_index_quickstart.py
"""

from typing import Any

from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import TextNode

from ragmeter import RagMeter, reference
from ragmeter.adapters.llama_index import RagMeterHandler
from ragmeter.exporters.memory import InMemoryExporter


class Ferryman(CustomLLM):
    """Stands for your model."""

    @property
    def metadata(self) -> LLMMetadata:
        """Size of the context window."""
        return LLMMetadata(context_window=4096)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Give the only answer it knows."""
        return CompletionResponse(text="The ferry leaves at seven in the morning.")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        """Give it in one piece."""
        return iter([self.complete(prompt)])


# Your engine, as it is.
texts = [
    "The lighthouse keeper trims the lamp at dusk.",
    "The ferry leaves the island at seven in the morning.",
    "On Sundays there is no ferry.",
]
index = VectorStoreIndex([TextNode(text=text) for text in texts], embed_model=MockEmbedding(embed_dim=8))
engine = index.as_query_engine(llm=Ferryman(), similarity_top_k=3)

# ragmeter: a meter, and one line. Without `exporters` the scores go to OpenTelemetry.
memory = InMemoryExporter()
meter = RagMeter(exporters=[memory])
handler = RagMeterHandler(meter).attach()

with reference(
    answer="At seven in the morning.", contexts=["The ferry leaves the island at seven in the morning."]
):
    answer = engine.query("When does the ferry leave?")

meter.flush(timeout_s=10)
print(f"answer: {answer}")
for result in memory.results:
    for name, score in result.scores.items():
        print(f"{name:28} {score.status if score.value is None else f'{score.value:.3f}'}")
handler.detach()
meter.shutdown(timeout_s=10)
