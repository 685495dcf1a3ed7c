"""Reliability of the verdict without a reference and without a judge, by people's labels.

Runs ragmeter's own free metrics and rules over human-labelled public data, from the folder given as argument
or by RAGMETER_BENCH_DATA, and prints the tables of ``docs/verdict.md``: people's labels of the answers that
were called good, suspect and bad, code by code; verdicts on good answers with their passages swapped for
wrong ones; and, in three languages, answers with and without their paragraph. Run: ``python
benchmarks/verdict_agreement.py DATA_FOLDER``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import agreement
from labelled_data import LANGUAGES, RatedAnswer, built_requests, data_folder, rated_answers, swapped_contexts

from ragmeter.metrics import RagSample, Score, Verdict, VerdictRules, evaluate

METRICS = (
    "lexical_groundedness",
    "lexical_context_relevance",
    "support",
    "fact_conflict",
    "refusal",
    "retrieval_health",
)
WORDS = ("good", "suspect", "bad")
BOOTSTRAPS = 1000
REFUSALS = {"en": "The documents do not say.", "ru": "В документах это не указано.", "zh": "文档中没有提到。"}
RULES = VerdictRules()

Judged = list[tuple[RatedAnswer, Verdict | None]]


def verdict(question: str, contexts: Sequence[str], answer: str, judged: float | None = None) -> Verdict | None:
    """Return the verdict by the free scores and, if given, a judge's faithfulness."""
    sample = RagSample(question=question, contexts=contexts, answer=answer)
    [scores] = evaluate([sample], METRICS)
    if judged is None:
        return scores.verdict
    faithfulness = Score(name="faithfulness", value=judged, status="ok", method="llm", definition="published")
    return RULES.verdict({**scores, "faithfulness": faithfulness})


def word(found: Verdict | None) -> str:
    return "none" if found is None else found.word


def share(rows: Judged, wanted: Callable[[RatedAnswer, Verdict | None], bool]) -> float:
    return sum(wanted(*row) for row in rows) / len(rows) if rows else math.nan


def interval(rows: Judged, measure: Callable[[Judged], float]) -> str:
    """Return the 95 % interval, by resampling tasks: their three answers belong together."""
    low, high = agreement.interval(rows, lambda row: row[0].task, measure, BOOTSTRAPS)
    return f"[{low:3.0%}, {high:4.0%}]"


def table(rows: Judged, title: str) -> None:
    bad = sum(answer.is_bad for answer, _ in rows)
    print(f"\n{title}: {len(rows)} answers, {bad} of them ({bad / len(rows):.0%}) rated bad by people")
    print("  verdict      n  share   rated bad by people   of all rated bad   mean faithfulness")
    for one in WORDS:

        def called(some: Judged, one: str = one) -> Judged:
            return [row for row in some if word(row[1]) == one]

        def rated_bad(some: Judged) -> float:
            return share(called(some), lambda rated, _: rated.is_bad)

        def of_all(some: Judged, one: str = one) -> float:
            return share([r for r in some if r[0].is_bad], lambda _, found: word(found) == one)

        chosen = called(rows)
        faithful = math.fsum(answer.faithfulness for answer, _ in chosen) / max(1, len(chosen))
        print(
            f"  {one:8} {len(chosen):5} {len(chosen) / len(rows):6.0%}   {rated_bad(rows):6.0%} "
            f"{interval(rows, rated_bad)}   {of_all(rows):6.0%} {interval(rows, of_all)}   {faithful:8.1f}"
        )


def by_first_code(rows: Judged) -> None:
    print("\n  strongest code, how often, rated bad by people")
    codes = Counter(found.codes[0] for _, found in rows if found is not None and found.codes)
    for code, count in codes.most_common():
        bad = sum(a.is_bad for a, found in rows if found is not None and found.codes[:1] == (code,))
        print(f"    {code:26} {count:4} {bad:4}  {bad / count:4.0%}")


def mtrag(folder: Path) -> None:
    answers, documents = rated_answers(folder)
    rows = [(a, verdict(a.question, a.contexts, a.answer)) for a in answers]
    models = [row for row in rows if row[0].model != "reference"]
    table(rows, "MTRAG, free scores")
    by_first_code(rows)
    table(models, "MTRAG, free scores, answers of models only")
    for collection in sorted({answer.collection for answer in answers}):
        some = [row for row in rows if row[0].collection == collection]
        said = ", ".join(
            f"{one} {share([r for r in some if word(r[1]) == one], lambda a, _: a.is_bad):.0%}" for one in WORDS
        )
        print(f"  {collection}: rated bad of {said}")
    judged = [(a, verdict(a.question, a.contexts, a.answer, a.judged)) for a in answers]
    table(judged, "MTRAG, with the published judge's faithfulness")
    swapped(models, documents, answers)


def swapped(models: Judged, documents: Sequence[str], answers: Sequence[RatedAnswer]) -> None:
    """Judge answers that people found good with the nearest wrong passages instead of their own."""
    wrong = swapped_contexts(answers, documents)
    good = [(a, f) for a, f in models if not a.is_bad and a.task in wrong and not refuses(a.answer)]
    own = Counter(word(found) for _, found in good)
    other = Counter(word(verdict(a.question, wrong[a.task], a.answer)) for a, _ in good)
    print(f"\nMTRAG, {len(good)} answers of models that people found good and that refuse nothing")
    for title, found in (("own passages", own), ("wrong passages", other)):
        print(f"    {title:15} " + ", ".join(f"{one} {found[one] / len(good):.0%}" for one in WORDS))


def refuses(answer: str) -> bool:
    [scores] = evaluate([RagSample(question=None, answer=answer)], ["refusal"])
    return scores["refusal"].value != 0.0


def percent(found: Iterable[bool]) -> str:
    listed = list(found)
    return f"{sum(listed) / len(listed):4.0%}"


def xquad(folder: Path) -> None:
    print("\nXQuAD: the answer is a sentence of the right paragraph, which is among three or is not")
    print("  not good, the paragraph being:        a refusal is refused_with_context:")
    print("      absent  present                   absent  present")
    for language in LANGUAGES:
        requests = built_requests(folder, language)
        rows = [(r.present, verdict(r.question, r.contexts, r.answer)) for r in requests]
        refused = [(r.present, verdict(r.question, r.contexts, REFUSALS[language])) for r in requests]
        suspected = [
            percent(word(found) != "good" for there, found in rows if there == present)
            for present in (False, True)
        ]
        told = [
            percent(
                found is not None and found.codes[:1] == ("refused_with_context",)
                for there, found in refused
                if there == present
            )
            for present in (False, True)
        ]
        print(f"  {language}  {suspected[0]}    {suspected[1]}                     {told[0]}    {told[1]}")


def main() -> None:
    folder = data_folder()
    if folder is None:
        return
    print(f"rules: {RULES}")
    mtrag(folder)
    xquad(folder)


if __name__ == "__main__":
    main()
