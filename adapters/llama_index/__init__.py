"""LlamaIndex: `RagMeterHandler` offers each request that retrieved to a meter.

Needs llama-index-core only. Only the handler and the argument of its hooks are public.
"""

from ._handler import LlamaIndexRequest, RagMeterHandler

__all__ = ["LlamaIndexRequest", "RagMeterHandler"]
