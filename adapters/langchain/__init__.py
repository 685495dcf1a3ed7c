"""LangChain and LangGraph: `RagMeterCallbackHandler` offers each request that retrieved to a meter.

Needs langchain-core only. Only the handler is public.
"""

from ragmeter.metrics import MissingDependencyError

try:
    from ._handler import RagMeterCallbackHandler
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("langchain_core"):  # an old one lacks modules
        raise
    raise MissingDependencyError("langchain-core", "langchain", "the LangChain adapter") from None

__all__ = ["RagMeterCallbackHandler"]
