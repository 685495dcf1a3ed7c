"""The shop's assistant in Haystack, traced by OpenInference."""

import os

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # is read when haystack is imported

from haystack import Document, Pipeline, component
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage
from openinference.instrumentation.haystack import HaystackInstrumentor
from tracing import answer_to, found, provider, run

TEMPLATE = "{% for document in documents %}{{ document.content }}\n\n{% endfor %}Question: {{ question }}"


@component
class ShelfRetriever:
    """Finds the shop's documents for a question."""

    @component.output_types(documents=list[Document])
    def run(self, query: str):
        return {"documents": [Document(id=name, content=text) for name, text in found(query)]}


def said(messages: list[ChatMessage]) -> str:
    """Return the shop's answer."""
    return answer_to(messages[-1].text)


HaystackInstrumentor().instrument(tracer_provider=provider)
pipeline = Pipeline()
pipeline.add_component("retriever", ShelfRetriever())
pipeline.add_component(
    "prompt",
    ChatPromptBuilder(template=[ChatMessage.from_user(TEMPLATE)], required_variables=["documents", "question"]),
)
pipeline.add_component("model", MockChatGenerator(response_fn=said))
pipeline.connect("retriever.documents", "prompt.documents")
pipeline.connect("prompt.prompt", "model.messages")


def ask(question):
    """Return the pipeline's answer."""
    given = {"retriever": {"query": question}, "prompt": {"question": question}}
    return pipeline.run(given)["model"]["replies"][0].text


run(ask)
