"""A FastAPI application with a RAG chain and a meter, served by gunicorn in tests."""

import os

from fastapi import FastAPI
from rag_chain import rag_chain

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.jsonl import JsonlExporter

# Built before the workers fork, as `gunicorn --preload` does.
meter = RagMeter(
    exporters=[JsonlExporter(os.environ["SCORES"], include_content=True)], shutdown_timeout_s=20
)
meter.submit.__doc__  # noqa: B018 -- touch it: the meter is alive in the parent
handler = RagMeterCallbackHandler(meter)
chain = rag_chain()
app = FastAPI()


@app.get("/ask/{number}")
def ask(number: int) -> dict[str, object]:
    answer = chain.invoke(f"question {number}", config={"callbacks": [handler]})
    return {"answer": answer, "worker": os.getpid()}


@app.get("/ask-async/{number}")
async def ask_async(number: int) -> dict[str, object]:
    answer = await chain.ainvoke(f"question {number}", config={"callbacks": [handler]})
    return {"answer": answer, "worker": os.getpid()}
