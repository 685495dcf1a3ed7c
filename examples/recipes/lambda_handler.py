"""A function of AWS Lambda, or of anything else that is frozen between two requests.

Once the answer is given nothing more may get to run, so the scores are waited for before, for two seconds at
most. A judge that needs more is better asked elsewhere.
"""

from typing import Any

from shop import build_chain

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

meter = RagMeter.from_env()  # outside the handler: made once per container
chain = build_chain().with_config(callbacks=[RagMeterCallbackHandler(meter)], run_name="help_desk")


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer one request."""
    del context
    try:
        return {"statusCode": 200, "body": chain.invoke(event["question"])}
    finally:
        meter.flush(timeout_s=2)
