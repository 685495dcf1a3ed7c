"""Counters of services: quiet, empty, small, broken, and one with segments and changes.

A page for Prometheus to scrape, with `job` and `instance` as a Collector would give them. Counts grow with
time.
"""

import time

from loopback_server import LoopbackServer

from ragmeter.exporters import semconv


def labelled(**labels):
    return ",".join(f'{label}="{value}"' for label, value in labels.items())


def series(name):
    """Return the name of a counter in Prometheus."""
    return f"{name}_total".replace(".", "_")


class CountedServices(LoopbackServer):
    """Serves the counters. Use as a context manager."""

    def __init__(self):
        self.began = time.monotonic()
        super().__init__()

    def reply(self, _received):
        return 200, self.text().encode(), {"Content-Type": "text/plain; version=0.0.4"}

    def text(self):
        """Return the page to scrape."""
        elapsed = time.monotonic() - self.began
        lines = []
        for job in ("quiet", "empty", "small", "broken", "parts"):
            lines += getattr(self, f"_{job}")({"job": job, "instance": f"{job}-1"}, elapsed)
        return "\n".join([*lines, ""])

    def _empty(self, where, _elapsed):
        yield f"{series(semconv.CAPTURED.name)}{{{labelled(**where)}}} 0"

    def _quiet(self, where, _elapsed):
        yield from self._requests(where, 40, "ok")
        yield from self._means(where, 40, 40)

    def _small(self, where, elapsed):
        # One every seven seconds: two or three in the shortest window.
        yield from self._requests(where, elapsed // 7, "ok")
        yield from self._means(where, elapsed // 7, elapsed // 7)

    def _broken(self, where, elapsed):
        yield from self._requests(where, int(5 * elapsed), "metric_error")
        yield from self._means(where, int(5 * elapsed), 0)

    def _parts(self, where, elapsed):
        asked = int(10 * elapsed)
        yield from self._requests(where, asked, "ok")
        yield from self._means(where, asked, asked)
        for segment, share in (("language:en", 2), ("language:zh", 1)):
            inside = {**where, "ragmeter_segment": segment}
            yield from self._means(inside, asked * share // 3, asked * share // 3)
        changed = labelled(
            **where,
            gen_ai_workflow_name="counted",
            gen_ai_evaluation_name="token_f1",
            ragmeter_segment="language:zh",
            ragmeter_change_kind="fell",
        )
        evidence = str(semconv.CHANGE_EVIDENCE.name).replace(".", "_")
        yield f"{evidence}{{{changed}}} {1.5 if elapsed > 5 else 0.2}"
        if elapsed > 5:
            yield f"{series(semconv.CHANGE_ALARMS.name)}{{{changed}}} 1"

    def _requests(self, where, count, status):
        named = {**where, "gen_ai_workflow_name": "counted"}
        score = {**named, "gen_ai_evaluation_name": "token_f1", "ragmeter_status": status}
        verdict = {**named, "ragmeter_verdict": "good"}
        yield f"{series(semconv.CAPTURED.name)}{{{labelled(**where)}}} {count}"
        yield f"{series(semconv.REQUESTS.name)}{{{labelled(**verdict)}}} {count}"
        yield f"{series(semconv.VERDICTS.name)}{{{labelled(**verdict)}}} {count}"
        yield f"{series(semconv.RESULTS.name)}{{{labelled(**score)}}} {count}"

    def _means(self, where, asked, measured):
        named = labelled(
            **where,
            gen_ai_workflow_name="counted",
            gen_ai_evaluation_name="token_f1",
            ragmeter_evaluation_direction="higher",
        )
        sums = {"n": asked, "wb": asked, "kd": measured, "x": measured * 0.6, "xx": measured * 0.5}
        for name, value in sums.items():
            yield f"{series(semconv.QUALITY_SUMS[name].name)}{{{named}}} {value}"
