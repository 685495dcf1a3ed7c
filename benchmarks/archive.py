"""Resources of `ragmeter evaluate` on an archive: memory and rows a second, for a Parquet folder and a file.

``python benchmarks/archive.py``. Requests of five chunks, 6 KB of new text each, the free metrics; one
process a run, in turn. Memory is the peak resident size of the process. The folder's is also measured at two
lengths of short rows, with one cheap metric: it must not grow with them.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import Row, Settings, child_environment, median, run, spread

NAME = "archive"
WORDS = (
    "lock canal ship metres water gate lake bridge river tower stone city train year long high built opened "
    "bread tea paper island bear market school teacher winter summer harbour engine"
).split()

CODE = """
import json, sys, time
from pathlib import Path
from ragmeter.cli.evaluate.run import EvaluateOptions, run_evaluation

began = time.perf_counter()
found = run_evaluation(
    EvaluateOptions(data=Path(sys.argv[1]), out=Path(sys.argv[2]), metrics=sys.argv[3:])
)
took = time.perf_counter() - began
peak = next(
    int(line.split()[1]) / 1024
    for line in Path("/proc/self/status").read_text().splitlines()
    if line.startswith("VmHWM")
)
print(json.dumps({"rows": found.rows, "s": took, "mb": peak}))
"""


def rows_of(count: int, *, short: bool) -> Iterator[dict[str, object]]:
    """Yield rows of new texts, the same in every run."""
    chance = random.Random(11)

    def text(sentences: int) -> str:
        return " ".join(" ".join(chance.choices(WORDS, k=15)).capitalize() + "." for _ in range(sentences))

    for number in range(count):
        if short:
            said = f"Bridge {number} is {number} metres long."
            yield {"question": f"How long is bridge {number}?", "contexts": [said], "answer": said}
        else:
            yield {
                "question": f"{text(1)} {number}",
                "contexts": [text(13) for _ in range(5)],
                "answer": text(2),
            }


def written(folder: Path, count: int, *, short: bool = False) -> Path:
    """Write a data set."""
    path = folder / f"{'short' if short else 'long'}-{count}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for row in rows_of(count, short=short):
            file.write(json.dumps(row) + "\n")
    return path


def evaluated(data: Path, out: Path, *metrics: str) -> dict[str, float]:
    """Run `ragmeter evaluate` in a separate process; return rows, seconds and megabytes."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(data), str(out), *metrics],
        check=True,
        capture_output=True,
        text=True,
        env=child_environment(),
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def benchmark(settings: Settings) -> list[Row]:
    repeats, count, few, many = (1, 60, 100, 400) if settings.quick else (3, 12_000, 12_000, 1_000_000)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = written(folder, count)
        there, here, again = [], [], []
        for turn in range(repeats):
            there.append(evaluated(data, folder / f"parts-{turn}"))
            here.append(evaluated(data, folder / f"scores-{turn}.jsonl"))
            again.append(evaluated(data, folder / f"parts-{turn}"))
        for what, unit, of in (
            (f"{count} rows scored", "rows/s", lambda one: one["rows"] / one["s"]),
            (f"{count} rows scored, memory", "MB", lambda one: one["mb"]),
        ):
            ours, file = [of(one) for one in there], median([of(one) for one in here])
            rows.append(
                Row(NAME, what, unit, median(ours), file, "into a file of JSON lines",
                    median(ours) / file, spread=spread(ours))
            )  # fmt: skip
        finished = [one["s"] / one["rows"] * 12_000 for one in again]
        rows.append(
            Row(NAME, "a finished run again, per 12000 rows", "s", median(finished), ratio=median(finished),
                target="≤ 1", met=None if settings.quick else median(finished) <= 1, spread=spread(finished))
        )  # fmt: skip
        sizes = {
            length: evaluated(
                written(folder, length, short=True), folder / f"short-{length}", "retrieval_health"
            )["mb"]
            for length in (few, many)
        }
        limit = 200 + 16 * many / 1e6
        rows.append(
            Row(NAME, f"memory at {many} rows", "MB", sizes[many], sizes[few], f"at {few} rows",
                sizes[many] / sizes[few], target=f"≤ {limit:.0f} MB",
                met=None if settings.quick else sizes[many] <= limit)
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    run(benchmark)
