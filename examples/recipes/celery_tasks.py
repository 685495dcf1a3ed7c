"""Questions answered in a Celery task.

    celery -A celery_tasks worker

Needs celery. A pool's processes end without an exit: the last scores are waited for in the signal before.
"""

import os
from typing import Any

from celery import Celery
from celery.signals import worker_process_shutdown
from shop import build_chain

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

app = Celery("help_desk", broker=os.environ.get("CELERY_BROKER_URL", "memory://"))
meter = RagMeter.from_env()  # made before the fork or after: both work
chain = build_chain().with_config(callbacks=[RagMeterCallbackHandler(meter)], run_name="help_desk")


@app.task
def answer(question: str) -> str:
    """Answer one question."""
    return chain.invoke(question)


@worker_process_shutdown.connect
def flush(**_: Any) -> None:
    """Wait for the last scores of this process."""
    meter.flush(timeout_s=2)
