"""LangChain and LangGraph: `RagMeterCallbackHandler` offers each request that retrieved to a meter.

Needs langchain-core only. Only the handler is public.
"""

from ._handler import RagMeterCallbackHandler

__all__ = ["RagMeterCallbackHandler"]
