"""A chat in Chainlit.

    chainlit run chainlit_app.py

Needs chainlit. The thumbs of its data layer can go to `meter.feedback(run_id, "thumbs_up", 1.0)`.
"""

import chainlit
from shop import build_chain

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

meter = RagMeter.from_env()
chain = build_chain().with_config(callbacks=[RagMeterCallbackHandler(meter)], run_name="help_desk")


@chainlit.on_message
async def answer(message: chainlit.Message) -> None:
    """Stream the answer; the conversation's id makes its requests one session."""
    reply = chainlit.Message(content="")
    config = {"metadata": {"session_id": chainlit.context.session.thread_id}}
    async for part in chain.astream(message.content, config):
        await reply.stream_token(part)
    await reply.send()
