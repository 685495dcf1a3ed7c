"""A chain behind HTTP with `invoke`, `batch` and `stream`, as LangServe has them.

    uvicorn batch_service:app

Each input of a batch is a request of its own, with its own scores. Needs fastapi and uvicorn.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from shop import build_chain

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

meter = RagMeter.from_env()
chain = build_chain().with_config(callbacks=[RagMeterCallbackHandler(meter)], run_name="help_desk")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Wait for the last scores when the service ends."""
    yield
    await asyncio.to_thread(meter.flush, 10)


app = FastAPI(lifespan=lifespan)


class One(BaseModel):
    """One question."""

    input: str
    user: str | None = None


class Many(BaseModel):
    """Several questions."""

    inputs: list[str]


@app.post("/invoke")
async def invoke(one: One) -> dict[str, str]:
    """Answer one question; the user's id travels with the request."""
    return {"output": await chain.ainvoke(one.input, {"metadata": {"user_id": one.user}})}


@app.post("/batch")
async def batch(many: Many) -> dict[str, list[str]]:
    """Answer several questions side by side."""
    return {"output": await chain.abatch(many.inputs)}


@app.post("/stream")
async def stream(one: One) -> StreamingResponse:
    """Answer one question as it is written."""
    return StreamingResponse(chain.astream(one.input), media_type="text/plain")
