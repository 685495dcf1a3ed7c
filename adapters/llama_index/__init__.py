"""LlamaIndex: `RagMeterHandler` hands each request that retrieved to a meter.

Needs llama-index-core only.  Everything but the handler and what its hooks receive is private
to this package.
"""

from ._handler import LlamaIndexRequest, RagMeterHandler

__all__ = ["LlamaIndexRequest", "RagMeterHandler"]
