"""Results of the free scores that need no reference on labelled requests.

Part of ``human_agreement.py``, which calls it; alone: ``python benchmarks/live_agreement.py DATA_FOLDER``.
Prints the tables of ``docs/metrics.md``: how well groundedness finds answers that people rated unfaithful,
beside the judge stored with the data; which answers refuse; how well relevance distinguishes a retrieval with
the right chunk from one with the nearest wrong ones; and which of the shown chunks are called used.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from agreement import auroc, interval
from labelled_data import (
    BAD_RATING,
    LANGUAGES,
    RatedAnswer,
    built_requests,
    data_folder,
    rated_answers,
    read_json,
    swapped_contexts,
)

from ragmeter.metrics import (
    ComputedMetric,
    LexicalContextRelevance,
    LexicalContextUtilization,
    LexicalGroundedness,
    LexicalQueryCoverage,
    RagSample,
    Refusal,
)
from ragmeter.metrics.protocol import compute_metric

BOOTSTRAPS = 500
RETRIEVAL = (LexicalQueryCoverage(), LexicalContextRelevance())

Labelled = tuple[str, bool, float]
"""The group for resampling, the label, the score."""


def value(metric: ComputedMetric, question: str, contexts: Sequence[str], answer: str = "") -> float | None:
    sample = RagSample(question=question, contexts=contexts, answer=answer)
    return compute_metric(metric, sample)[0].value


def with_interval(rows: Sequence[Labelled]) -> str:
    """Return ``.924 [.91, .94]``: the AUROC and its 95 % interval."""

    def measure(some: Sequence[Labelled]) -> float:
        return auroc(row[1:] for row in some)

    low, high = interval(rows, lambda row: row[0], measure, BOOTSTRAPS)
    return f"{measure(rows):.3f} [{low:.2f}, {high:.2f}]"


def unfaithful(answers: Sequence[RatedAnswer]) -> None:
    print("\nMTRAG, AUROC of finding answers that people rated badly (higher is better)")
    grounded = [value(LexicalGroundedness(), one.question, one.contexts, one.answer) or 0.0 for one in answers]
    for label, fine in (
        (f"unfaithful (mean of 3 raters <= {BAD_RATING})", lambda one: one.faithfulness > BAD_RATING),
        ("bad in any of three ratings", lambda one: not one.is_bad),
    ):
        count = sum(not fine(one) for one in answers)
        print(f"  {label}: {count} of {len(answers)}")
        for name, scores in (
            ("lexical_groundedness (no model)", grounded),
            ("published: RAGAS faithfulness, an LLM judge", [one.judged for one in answers]),
        ):
            rows = [(one.task, fine(one), s) for one, s in zip(answers, scores, strict=True)]
            print(f"    {name:46} {with_interval(rows)}")


def refusals(folder: Path, answers: Sequence[RatedAnswer]) -> None:
    texts = {"MTRAG": [one.answer for one in answers]}
    path = ("ragchecker_meta_eval", "human_labeled_data.json.gz")
    if folder.joinpath(*path).exists():
        records = read_json(folder, *path)
        texts["RAGChecker"] = sorted(
            {record[model]["response"] for record in records for model in ("model1", "model2")}
        )
    print("\nrefusal: answers by label")
    for name, said in texts.items():
        labels = Counter(
            compute_metric(Refusal(), RagSample(question=None, answer=text))[0].label for text in said
        )
        print(f"    {name:12} n = {len(said)}: {dict(sorted(labels.items(), key=str))}")


def on_topic(folder: Path, answers: Sequence[RatedAnswer], documents: Sequence[str]) -> None:
    print(
        "\nAUROC: the right chunk is among those retrieved, or the nearest wrong ones by BM25 stand in its place"
    )
    asked: dict[str, dict[str, list[Labelled]]] = {metric.name: {} for metric in RETRIEVAL}

    def note(where: str, group: str, label: bool, question: str, texts: Sequence[str]) -> None:
        for metric in RETRIEVAL:
            score = value(metric, question, texts) or 0.0
            asked[metric.name].setdefault(where, []).append((group, label, score))

    absent: dict[str, list[float]] = {}
    for language in LANGUAGES:
        if not folder.joinpath("xquad", f"xquad.{language}.json.gz").exists():
            continue
        for one in built_requests(folder, language):
            note(f"XQuAD {language}", one.question, one.present, one.question, one.contexts)
            if not one.present:
                share = value(LexicalGroundedness(), one.question, one.contexts, one.answer)
                absent.setdefault(language, []).append(share or 0.0)
    wrong = swapped_contexts(answers, documents)
    for one in {one.task: one for one in answers}.values():
        if one.contexts:
            note("MTRAG last turn", one.task, True, one.question, one.contexts)
            note("MTRAG last turn", one.task, False, one.question, wrong[one.task])
    for name, places in asked.items():
        print(f"  {name}")
        for where, rows in places.items():
            false = [score < 0.3 for _, label, score in rows if label]
            caught = [score < 0.3 for _, label, score in rows if not label]
            print(
                f"    {where:16} {with_interval(rows)}   below .30: "
                f"right {sum(false) / len(false):.2f}, wrong {sum(caught) / len(caught):.2f}"
            )
    print("\nlexical_groundedness of the right sentence when its paragraph is absent (XQuAD)")
    for language, shares in absent.items():
        shares.sort()
        below = [sum(share < cut for share in shares) / len(shares) for cut in (0.5, 0.65)]
        print(
            f"    {language}: below .50 {below[0]:.2f}, below .65 {below[1]:.2f}, "
            f"median {shares[len(shares) // 2]:.2f}"
        )


def used(answers: Sequence[RatedAnswer], documents: Sequence[str]) -> None:
    """Print the results of mixing as many wrong chunks into MTRAG's contexts as there are right ones."""
    wrong = swapped_contexts(answers, documents)
    called: dict[bool, list[bool]] = {True: [], False: []}
    for one in answers:
        if not one.contexts or one.model == "reference":
            continue
        shown = [(text, True) for text in one.contexts]
        shown += [(text, False) for text in wrong[one.task]]
        random.Random(one.task).shuffle(shown)
        sample = RagSample(question=one.question, contexts=[text for text, _ in shown], answer=one.answer)
        (score,) = compute_metric(LexicalContextUtilization(), sample)
        if score.value is None:
            continue
        for (_, own), item in zip(shown, score.items, strict=False):
            called[own].append(bool(item.verdict))
    print("\nlexical_context_utilization on MTRAG with as many wrong chunks mixed in")
    for own, name in ((True, "the task's own chunks"), (False, "wrong chunks")):
        share = sum(called[own]) / len(called[own])
        print(f"    {name}: {share:.2f} of {len(called[own])} called used")


def tables(folder: Path) -> None:
    if not folder.joinpath("mtrag_human").exists():
        print("skipped: mtrag_human is not in the data folder")
        return
    answers, documents = rated_answers(folder)
    unfaithful(answers)
    refusals(folder, answers)
    on_topic(folder, answers, documents)
    used(answers, documents)


def main() -> None:
    folder = data_folder()
    if folder is not None:
        tables(folder)


if __name__ == "__main__":
    main()
