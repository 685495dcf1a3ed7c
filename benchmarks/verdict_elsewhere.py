"""Reliability of the verdict on sets that had no part in its thresholds, by people's labels.

Runs the free metrics and the rules, as shipped, over sets with people's labels that were not used to choose
thresholds, from folders that the reader downloads (`labelled_folders`), and prints the tables of
``docs/verdict.md``: the word, the ranking beside simple baselines, the named sentence, the facts, and the
verdicts on people's own right answers; also where all of it is chance. Run: ``python
benchmarks/verdict_elsewhere.py FOLDER [FOLDER ...]``.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import agreement
from labelled_data import Bm25
from labelled_folders import LabelledAnswer, labelled_answers, right_answers
from rapidfuzz.distance import LCSseq

from ragmeter.metrics import RagSample, evaluate, tokens
from ragmeter.metrics.registry import known_metrics
from ragmeter.metrics.results import SampleScores

METRICS = (
    "lexical_groundedness",
    "lexical_context_relevance",
    "refusal",
    "retrieval_health",
    "support",
    "fact_conflict",
)
WORDS = ("good", "suspect", "bad")
BOOTSTRAPS = 500
SEVERE = 0.30
"""Share of an answer, marked by people, from which it counts as mostly invented."""
PUBLISHED = """\
published on RAGTruth's QA test (F1 of answers): GPT-4-turbo prompted .456, Luna .513, LettuceDetect-large .702, RAG-HAT .748
  (LettuceDetect, arXiv 2502.17125, table 2; RAGTruth, Niu et al., ACL 2024)
published with FaithBench (AUROC of its own scores): HHEM-2.1-English .622, HHEM-2.1 .590, GPT-4o .547"""
_NAMED = re.compile(r"weakest: sentence-(\d+)")
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True)
class Measured:
    """An answer with its measurements; every ranking is *higher is better*."""

    row: LabelledAnswer
    word: str
    codes: tuple[str, ...]
    ranks: dict[str, float]
    sentences: tuple[tuple[bool, float, bool], ...]
    """For each sentence: whether people marked it, how little is unsupported, whether it is the named one."""
    conflicts: int | None


def measure(rows: Sequence[LabelledAnswer]) -> list[Measured]:
    """Score rows of one set."""
    metrics = [name for name in METRICS if name in known_metrics()]
    samples = [RagSample(question=r.question, contexts=r.contexts, answer=r.answer) for r in rows]
    search = Bm25([" ".join(row.contexts) for row in rows])
    return [
        _measured(row, scores, search) for row, scores in zip(rows, evaluate(samples, metrics), strict=True)
    ]


def _measured(row: LabelledAnswer, scores: SampleScores, search: Bm25) -> Measured:
    ranks = {
        name: score.value if score.direction == "higher" else -score.value
        for name, score in scores.items()
        if score.value is not None
    }
    source, said = " ".join(row.contexts), row.answer
    ranks["ROUGE-L P"] = rouge_precision(said, source)
    ranks["5-grams"] = gram_share(said, source)
    ranks["BM25"] = search.share(said, source)
    verdict = scores.verdict
    judged = scores.get("support") or scores["lexical_groundedness"]
    named = _NAMED.search(judged.summary or "")
    sentences = []
    at = 0
    for number, item in enumerate(judged.items, start=1):
        start, end = place_of(item.text or "", said, at)
        at = max(at, end)
        marked = any(low < end and high > start for low, high in row.spans)
        known = item.value is not None
        sentences.append((marked, item.value if known else math.inf, bool(named and int(named[1]) == number)))
    conflict = scores.get("fact_conflict")
    return Measured(
        row=row,
        word="none" if verdict is None else verdict.word,
        codes=() if verdict is None else verdict.codes,
        ranks=ranks,
        sentences=tuple(sentences),
        conflicts=None if conflict is None or conflict.value is None else len(conflict.items),
    )


def rouge_precision(answer: str, source: str) -> float:
    """Return the longest common subsequence of tokens, by the answer's tokens."""
    words = tokens(answer)
    return LCSseq.similarity(words, tokens(source)) / len(words) if words else 0.0


def gram_share(answer: str, source: str) -> float:
    """Return the share of the answer's distinct runs of five characters that the source has."""
    said, there = (
        {text[at : at + 5] for at in range(len(text) - 4)}
        for text in (_SPACES.sub(" ", one.lower()) for one in (answer, source))
    )
    return len(said & there) / len(said) if said else 0.0


def place_of(sentence: str, answer: str, start: int) -> tuple[int, int]:
    """Return the place of a sentence in its answer, whose layout it has lost."""
    words = map(re.escape, sentence.split())
    found = re.compile(r"[\s*_#>`|-]*".join(words)).search(answer, start)
    return found.span() if found else (start, start)


def fraction(rows: Sequence[Measured], wanted: Callable[[Measured], bool]) -> float:
    return sum(map(wanted, rows)) / len(rows) if rows else math.nan


def with_interval(rows: Sequence[Measured], measured: Callable[[list[Measured]], float]) -> str:
    """Return a measure with its 95 % interval, resampled by source, as text."""
    value = measured(list(rows))
    if math.isnan(value):
        return "–"
    low, high = agreement.interval(rows, lambda one: one.row.group, measured, BOOTSTRAPS)
    return f"{value:.3f} [{low:.2f}, {high:.2f}]"


def is_bad(one: Measured) -> bool:
    return one.row.bad is True


def called(rows: Sequence[Measured], word: str) -> list[Measured]:
    return [one for one in rows if one.word == word]


def words_table(title: str, rows: list[Measured], bad: Callable[[Measured], bool]) -> None:
    """Print the precision of each word."""

    def of(part: bool, word: str) -> float:
        return fraction([one for one in rows if bad(one) == part], lambda one: one.word == word)

    shares = "/".join(f"{fraction(rows, lambda o, w=w: o.word == w):.0%}" for w in WORDS)
    print(f"\n{title}: n {len(rows)}, bad by people {fraction(rows, bad):.1%}")
    print(f"  good/suspect/bad {shares}")
    print("  `bad` is right  ", with_interval(called(rows, "bad"), lambda r: fraction(r, bad)))
    print("  `good` is wrong ", with_interval(called(rows, "good"), lambda r: fraction(r, bad)))
    print("  of bad ones     ", ", ".join(f"{w} {of(True, w):.0%}" for w in reversed(WORDS)))
    print("  of right ones   ", ", ".join(f"{w} {of(False, w):.0%}" for w in reversed(WORDS)))
    flagged = [one for one in rows if one.word != "good"]
    precision = fraction(flagged, bad)
    recall = fraction([one for one in rows if bad(one)], lambda one: one.word != "good")
    if flagged and precision + recall:
        f1 = 2 * precision * recall / (precision + recall)
        print(f"  suspect or bad   P {precision:.2f} R {recall:.2f} F1 {f1:.2f}")


def ranking_table(rows: list[Measured]) -> None:
    """Print how well each number ranks, with and within models."""
    names = dict.fromkeys(name for one in rows for name in one.ranks)
    for name in names:
        if name in _NO_RANKING:
            continue
        known = [one for one in rows if name in one.ranks]

        def area(some: Sequence[Measured], name: str = name) -> float:
            return agreement.auroc((not is_bad(one), one.ranks[name]) for one in some)

        models = {one.row.model for one in known if one.row.model}
        within = [
            value
            for model in models
            if not math.isnan(value := area([one for one in known if one.row.model == model]))
        ]
        inside = f"  within one model {sum(within) / len(within):.3f}" if len(within) > 1 else ""
        print(f"  AUROC {name:24} {with_interval(known, area)}{inside}")


_NO_RANKING = frozenset(
    "refusal context_count empty_retrieval duplicate_ratio repeated_context_ratio context_tokens "
    "retriever_top_score retriever_score_spread".split()
)


def evidence_table(rows: list[Measured]) -> None:
    """Print how often the named sentence is one that people marked."""
    marked = [one for one in rows if one.row.spans and any(s[0] for s in one.sentences)]
    if not marked:
        return
    hit = lambda some: fraction(some, lambda one: any(s[0] and s[2] for s in one.sentences))  # noqa: E731
    chance = sum(sum(s[0] for s in one.sentences) / len(one.sentences) for one in marked)
    print(f"  named sentence is a marked one {with_interval(marked, hit)}, n {len(marked)}, ", end="")
    print(f"by chance {chance / len(marked):.2f}")
    each = [(not s[0], s[1]) for one in rows for s in one.sentences]
    print(f"  AUROC of sentences {agreement.auroc(each):.3f}, n {len(each)}")


def facts_table(rows: list[Measured]) -> None:
    """Print the share of bad answers, with and without a fact that conflicts with the chunks."""
    known = [one for one in rows if one.conflicts is not None]
    if known and any(map(is_bad, known)):
        for title, some in (
            ("with", [one for one in known if one.conflicts]),
            ("without", [one for one in known if not one.conflicts]),
        ):
            print(f"  {title} a fact in conflict: bad {with_interval(some, lambda r: fraction(r, is_bad))}, n {len(some)}")  # fmt: skip


def right_table(rows: list[Measured]) -> None:
    """Print the verdicts on answers that people wrote as the right ones."""
    for kind in sorted({one.row.answerability or "answerable" for one in rows if one.row.answer}):
        some = [one for one in rows if (one.row.answerability or "answerable") == kind]
        for title, part in (
            ("", [o for o in some if o.row.contexts and not (is_bad(o) and not o.row.answerability)]),
            (", nothing retrieved", [one for one in some if not one.row.contexts]),
        ):
            if part:
                said = Counter(one.word for one in part)
                codes = Counter(one.codes[0] for one in part if one.codes)
                print(f"  people's answers, {kind.lower()}{title}: n {len(part)}, {dict(said)}, {dict(codes)}")
    right = right_answers(one.row for one in rows)
    alarms = [one for one in rows if one.row in right and one.conflicts is not None]
    if alarms:
        print(f"  false facts in conflict {fraction(alarms, lambda one: bool(one.conflicts)):.1%}, n {len(alarms)}")  # fmt: skip


def main() -> None:
    given = sys.argv[1:] or os.environ.get("RAGMETER_BENCH_LABELS", "").split(os.pathsep)
    folders = [Path(one) for one in given if one]
    if not folders:
        print("skipped: pass folders of labelled answers, or set RAGMETER_BENCH_LABELS")
        return
    for folder in folders:
        for name, answers in labelled_answers(folder).items():
            rows = measure(answers)
            if answers[0].kind == "retrieval":
                print(f"\n{name}: n {len(rows)}")
                right_table(rows)
                there = [one for one in rows if one.row.contexts]
                known = [one for one in there if "lexical_context_relevance" in one.ranks]
                area = lambda some: agreement.auroc(  # noqa: E731
                    (not is_bad(one), one.ranks["lexical_context_relevance"]) for one in some
                )
                print(f"  AUROC of relevance for an answer there {with_interval(known, area)}")
                continue
            words_table(name, rows, is_bad)
            if any(one.row.spans for one in rows):
                words_table(f"{name}, bad = more than {SEVERE:.0%} marked", rows, _severe)
            ranking_table(rows)
            evidence_table(rows)
            facts_table(rows)
    print(f"\n{PUBLISHED}")


def _severe(one: Measured) -> bool:
    marked = {place for low, high in one.row.spans for place in range(low, high)}
    return len(marked) > SEVERE * max(1, len(one.row.answer))


if __name__ == "__main__":
    main()
