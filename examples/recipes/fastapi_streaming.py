"""A FastAPI service that streams a LangChain chain's answers.

    uvicorn fastapi_streaming:app

Needs fastapi and uvicorn. Settings by RAGMETER_*: RAGMETER_CONSOLE=1 shows a line per request.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from shop import build_chain

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

meter = RagMeter.from_env()
chain = build_chain().with_config(callbacks=[RagMeterCallbackHandler(meter)], run_name="help_desk")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Wait for the last scores when the service ends: uvicorn runs no exit handler."""
    yield
    await asyncio.to_thread(meter.flush, 10)


app = FastAPI(lifespan=lifespan)


@app.get("/ask")
async def ask(question: str) -> StreamingResponse:
    """Stream the answer. A reader who goes away leaves a request of status `partial`."""
    return StreamingResponse(chain.astream(question), media_type="text/plain")
