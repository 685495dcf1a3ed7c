"""The grid from which the verdict's thresholds of support were chosen.

Prints, for MTRAG and every set of labelled answers in the folders, the precision of *bad* and *good* at each
pair of thresholds, with that of the earlier rule (`lexical_groundedness` below .50 and .65). The objective is
one number: the mean over the sets of F½ of *bad* (being right counts twice as much as finding) and of the
balanced accuracy of *good*, with thresholds at which no rate on MTRAG, the one set that is live RAG rated as
a whole, is worse by more than .03 than before, .05 of how often *bad* is right. `VerdictRules` has the best
of these. Run: ``python benchmarks/verdict_thresholds.py DATA_FOLDER LABELS_FOLDER``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from labelled_data import rated_answers
from labelled_folders import labelled_answers

from ragmeter.metrics import RagSample, VerdictRules, evaluate
from ragmeter.metrics.verdict import known_values

METRICS = (
    "lexical_groundedness",
    "lexical_context_relevance",
    "refusal",
    "retrieval_health",
    "support",
    "fact_conflict",
)
ALLOWED = 0.03
ALLOWED_OF_BAD = 0.05
BEFORE = VerdictRules(unsupported_below=0.50, partly_unsupported_below=0.65)
BAD = [at / 100 for at in range(40, 53)]
SUSPECT = [at / 100 for at in range(54, 69, 2)]

Row = tuple[bool, Mapping[str, float]]


class Worth(NamedTuple):
    """Measures of the words on one set."""

    bad_right: float
    bad_found: float
    good_wrong: float
    right_good: float
    flagged: float
    """Share of the answers rated bad by people that are not good."""

    @property
    def of_bad(self) -> float:
        """F½."""
        below = 0.25 * self.bad_right + self.bad_found
        return 1.25 * self.bad_right * self.bad_found / below if below > 0 else 0.0

    @property
    def of_good(self) -> float:
        """Balanced accuracy."""
        return (self.flagged + self.right_good) / 2

    def is_kept(self, before: Worth) -> bool:
        """Return whether nothing is worse than before by more than is allowed."""
        gained = (
            self.bad_right - before.bad_right + ALLOWED_OF_BAD - ALLOWED,
            self.bad_found - before.bad_found,
            before.good_wrong - self.good_wrong,
            self.right_good - before.right_good,
        )
        return min(gained) >= -ALLOWED


def rows_of(answers: Sequence[tuple[bool, RagSample]]) -> list[Row]:
    measured = evaluate([sample for _, sample in answers], METRICS)
    return [(bad, known_values(s)) for (bad, _), s in zip(answers, measured, strict=True)]


def worth(rows: Sequence[Row], rules: VerdictRules) -> Worth:
    said = []
    for bad, values in rows:
        found = rules.of_values(values)
        said.append((bad, "none" if found is None else found.word))

    def share(some: list[bool]) -> float:
        return sum(some) / len(some) if some else math.nan

    bad_found = share([word == "bad" for bad, word in said if bad])
    return Worth(
        bad_right=share([bad for bad, word in said if word == "bad"]) if bad_found else 0.0,
        bad_found=bad_found,
        good_wrong=share([bad for bad, word in said if word == "good"]),
        right_good=share([word == "good" for bad, word in said if not bad]),
        flagged=share([word in ("bad", "suspect") for bad, word in said if bad]),
    )


def before(rows: Sequence[Row]) -> Worth:
    without = [
        (bad, {name: value for name, value in values.items() if name != "support"}) for bad, values in rows
    ]
    return worth(without, BEFORE)


def line(title: str, of: Mapping[str, Worth], objective: float, kept: bool) -> None:
    parts = [
        f"{name[:8]} {w.bad_right:.2f} @ {w.bad_found:.2f}, {w.good_wrong:.2f}, {w.right_good:.2f}"
        for name, w in of.items()
    ]
    print(f"{title:9} {objective:.3f} {'kept' if kept else '    '} | " + " | ".join(parts))


def main() -> None:
    if len(sys.argv) < 3:
        print("skipped: pass the folder of MTRAG and one of labelled answers")
        return
    answers, _ = rated_answers(Path(sys.argv[1]))
    sets = {
        "mtrag": rows_of(
            [(a.is_bad, RagSample(question=a.question, contexts=a.contexts, answer=a.answer)) for a in answers]
        )
    }
    for name, labelled in labelled_answers(Path(sys.argv[2])).items():
        if labelled[0].kind != "retrieval":
            sets[name] = rows_of(
                [
                    (bool(a.bad), RagSample(question=a.question, contexts=a.contexts, answer=a.answer))
                    for a in labelled
                ]
            )
    was = {name: before(rows) for name, rows in sets.items()}
    print("of each set: `bad` is right @ finds, `good` is wrong, right ones called good")

    def objective(of: Mapping[str, Worth]) -> float:
        return sum(w.of_bad + w.of_good for w in of.values()) / len(of) / 2

    line("before", was, objective(was), kept=True)
    found = []
    for low in BAD:
        for high in SUSPECT:
            rules = VerdictRules(unsupported_below=low, partly_unsupported_below=high)
            of = {name: worth(rows, rules) for name, rows in sets.items()}
            kept = of["mtrag"].is_kept(was["mtrag"])
            found.append((kept, objective(of), low, high, of))
    for kept, value, low, high, of in found:
        line(f"{low:.2f} {high:.2f}", of, value, kept)
    kept, value, low, high, of = max(found, key=lambda one: one[:2])
    print("\nbest of those that are kept")
    line(f"{low:.2f} {high:.2f}", of, value, kept)


if __name__ == "__main__":
    main()
