"""Scores a data set into a folder, with Ray or without: a program that a test may kill.

``python ray_archive.py DATA OUT ENGINE LOG GO [MODEL] [POISON]``. Its judge writes a line into LOG for each
question, and answers once GO exists. Prints the run's result, as JSON.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from ragmeter.cli.evaluate.run import EvaluateOptions, run_evaluation
from ragmeter.metrics import Metric, Score
from ragmeter.metrics.judge import CountingJudge
from ragmeter.metrics.judge.protocol import JudgeCall


class Noted(CountingJudge):
    def __init__(self, model, log, go, poison):
        self.model, self.log, self.go, self.poison = model, log, go, poison

    async def ask(self, ask):
        raise NotImplementedError


class Paid(Metric):
    name = "paid"
    score_names = ("paid",)
    needs = ()
    method = "llm"
    target = "retrieval"
    definition = "1"

    async def measure(self, sample, judge):
        number = int(sample.question.split()[-1][:-1])
        descriptor = os.open(judge.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{number} {os.getpid()}\n".encode())
        os.close(descriptor)
        judge.report(JudgeCall(self.name, judge.model, 0.01, 10, 1))
        while not Path(judge.go).exists():
            await asyncio.sleep(0.02)
        if number == judge.poison:
            os._exit(1)
        return [
            Score(
                name="paid", value=number % 7 / 7, status="ok", method="llm", definition="1",
                judge_calls=1,
            )
        ]  # fmt: skip


def main():
    data, out, engine, log, go, *more = sys.argv[1:]
    poison = int(more[1]) if more[1:] else -1
    found = run_evaluation(
        EvaluateOptions(
            data=[Path(name) for name in data.split(",")],
            out=Path(out),
            engine=engine or None,
            processes=2 if engine else None,
            judge=Noted(more[0] if more else "one", log, go, poison),
            metrics=[Paid(), "lexical_groundedness", "retrieval_health"],
            page=True,
        )
    )
    sys.stdout.write(
        json.dumps(
            {
                "rows": found.rows,
                "resumed": found.resumed,
                "bad": found.bad_row_count,
                "calls": found.spent.calls,
                "means": {one.name: (one.count, one.mean, one.p50) for one in found.summaries},
                "verdicts": found.verdicts.as_json(),
            }
        )
    )


if __name__ == "__main__":
    main()
