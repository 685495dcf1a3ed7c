"""A FastAPI application with a RAG chain and a meter, served by gunicorn in tests.

Nothing is scored before the server ends, as if it were busy: all scoring is left until then.
"""

import asyncio
import os
import threading
from contextlib import asynccontextmanager

from fastapi import FastAPI
from rag_chain import rag_chain

from ragmeter import Limits, RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.metrics import RagSample, metric

ending = threading.Event()


@metric
def late(sample: RagSample) -> float:
    """Return whether the server ended before this was computed."""
    return float(ending.wait(60))


# Built before the workers fork, as `gunicorn --preload` does.
meter = RagMeter(
    ["retrieval_health", late],
    exporters=[JsonlExporter(os.environ["SCORES"], include_content=True)],
    limits=Limits(shutdown_timeout_s=20),
)
meter.submit.__doc__  # noqa: B018 -- touch it: the meter is alive in the parent
handler = RagMeterCallbackHandler(meter)
chain = rag_chain()


@asynccontextmanager
async def lifespan(app: FastAPI):
    yield
    ending.set()
    # As in docs/production.md: uvicorn ends its process by the signal it received.
    await asyncio.to_thread(meter.flush, 20)


app = FastAPI(lifespan=lifespan)


@app.get("/ask/{number}")
def ask(number: int) -> dict[str, object]:
    answer = chain.invoke(f"question {number}", config={"callbacks": [handler]})
    return {"answer": answer, "worker": os.getpid()}


@app.get("/ask-async/{number}")
async def ask_async(number: int) -> dict[str, object]:
    answer = await chain.ainvoke(f"question {number}", config={"callbacks": [handler]})
    return {"answer": answer, "worker": os.getpid()}
