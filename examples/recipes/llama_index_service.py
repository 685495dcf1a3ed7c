"""A LlamaIndex workflow that retrieves and answers, behind HTTP.

    uvicorn llama_index_service:app

Needs llama-index-core (0.14 or newer), starlette and uvicorn. What a run of the workflow finds is one request.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from shop import find
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ragmeter import RagMeter
from ragmeter.adapters.llama_index import RagMeterHandler


class Notes(BaseRetriever):
    """Finds notes, as an index's retriever would."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = find(query_bundle.query_str)
        return [NodeWithScore(node=TextNode(text=text, id_=key)) for key, text in found]


class Found(Event):
    """What was found for a question."""

    question: str
    nodes: list[NodeWithScore]


class HelpDesk(Workflow):
    """Two steps: find, answer."""

    retriever = Notes()
    model = MockLLM()  # repeats its prompt

    @step
    async def look(self, event: StartEvent) -> Found:
        """Find notes."""
        nodes = await self.retriever.aretrieve(event.question)
        return Found(question=event.question, nodes=nodes)

    @step
    async def answer(self, event: Found) -> StopEvent:
        """Answer from them."""
        reply = await self.model.acomplete("\n".join(node.text for node in event.nodes))
        return StopEvent(result=reply.text)


meter = RagMeter.from_env()
handler = RagMeterHandler(meter)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """Watch LlamaIndex for as long as the service runs."""
    with handler:
        yield
    await asyncio.to_thread(meter.flush, 10)


async def ask(request: Request) -> PlainTextResponse:
    """Answer one question."""
    return PlainTextResponse(await HelpDesk().run(question=request.query_params["question"]))


app = Starlette(routes=[Route("/ask", ask)], lifespan=lifespan)
