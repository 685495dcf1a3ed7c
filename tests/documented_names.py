"""Names that fragments in the documentation use without defining: the reader's own application."""

from typing import Any
from uuid import UUID

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

chain: Any
engine: Any
retriever: Any
synthesizer: Any
question: str
rewritten: str
golden: list[str]
contexts: list[str]
documents: list[Any]
text: str
config: dict[str, Any]
run_id: UUID
public_key: str
secret_key: str
meter: RagMeter
handler: RagMeterCallbackHandler
provider: Any
