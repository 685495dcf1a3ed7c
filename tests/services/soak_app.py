"""An application of the soak: steady requests, each recorded before it is sent and when it is safe.

A request's trace id is its name: the application, and its number there.
"""

import itertools
import json
import os
import signal
import sys

from opentelemetry import trace

from ragmeter import RagMeter, RagSample
from ragmeter.fleet.publisher import FleetPublisher

SHIFT = 32
"""Bits of a trace id for the number of the request; the application's are above them."""
POISON = "POISON"
"""A question that ends the worker process that measures it."""


class Noting(FleetPublisher):
    """Records what the broker or the disk has confirmed."""

    def __init__(self, *queue, noted, **options):
        super().__init__(*queue, **options)
        self._noted = noted

    def export(self, batch):
        super().export(batch)
        written(self._noted, [one.run.trace_id for one in batch])


def written(file, numbers):
    """Append lines with one call, so that a process that is killed leaves whole ones."""
    os.write(file, "".join(f"{number:032x}\n" for number in numbers).encode())


def main(application, folder, poison_every):
    """Send requests until stopped, then shut the meter down and print its counters."""
    ending = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
    how = os.O_APPEND | os.O_CREAT | os.O_WRONLY
    asked = os.open(f"{folder}/asked-{application}", how)
    safe = os.open(f"{folder}/safe-{application}", how)
    publisher = Noting(os.environ["QUEUE_URL"], noted=safe, spool=f"{folder}/spool")
    meter = RagMeter(metrics=[], exporters=[publisher])
    for number in itertools.count(1):
        if ending:
            break
        trace_id = application << SHIFT | number
        context = trace.SpanContext(trace_id, number, True, trace.TraceFlags(1))
        question = POISON if number % poison_every == 0 else "Which tower is it?"
        written(asked, [trace_id])
        with trace.use_span(trace.NonRecordingSpan(context)):
            meter.submit(RagSample(question=question, answer=f"The tower of Pisa, {number}."))
        signal.sigtimedwait([], 0.03)
    meter.shutdown(60)
    stats = meter.stats()
    sys.stdout.write(
        json.dumps({"captured": stats.captured, "exported": stats.exported, "dropped": stats.dropped})
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
