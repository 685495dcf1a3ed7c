"""A chat in Streamlit.

    streamlit run streamlit_app.py

Needs streamlit. A script runs anew at every click, so the meter is a cached resource: one for the process.
"""

import streamlit
from langchain_core.runnables import Runnable
from shop import build_chain

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler


@streamlit.cache_resource
def help_desk() -> Runnable[str, str]:
    """Return the chain, with a meter attached, made once."""
    handler = RagMeterCallbackHandler(RagMeter.from_env())
    return build_chain().with_config(callbacks=[handler], run_name="help_desk")


if question := streamlit.chat_input("Ask the shop"):
    streamlit.chat_message("user").write(question)
    streamlit.chat_message("assistant").write_stream(help_desk().stream(question))
