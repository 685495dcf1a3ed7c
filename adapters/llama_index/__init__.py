"""LlamaIndex: `RagMeterHandler` offers each request that retrieved to a meter.

Needs llama-index-core only. Only the handler and the argument of its hooks are public.
"""

from ragmeter.metrics import MissingDependencyError

try:
    from ._answers import LlamaIndexRequest
    from ._handler import RagMeterHandler
except ModuleNotFoundError as error:
    if not (error.name or "").startswith(("llama_index", "wrapt")):
        raise
    package = "wrapt" if error.name == "wrapt" else "llama-index-core"
    raise MissingDependencyError(package, "llama-index", "the LlamaIndex adapter") from None

__all__ = ["LlamaIndexRequest", "RagMeterHandler"]
