"""LangChain and LangGraph: `RagMeterCallbackHandler` hands each request that retrieved to a meter.

Needs langchain-core only.  Everything but the handler is private to this package.
"""

from ._handler import RagMeterCallbackHandler

__all__ = ["RagMeterCallbackHandler"]
