"""LlamaIndex: `RagMeterHandler` offers each request that retrieved to a meter.

Needs llama-index-core only. Only the handler and the argument of its hooks are public.
"""

from ._answers import LlamaIndexRequest
from ._handler import RagMeterHandler

__all__ = ["LlamaIndexRequest", "RagMeterHandler"]
