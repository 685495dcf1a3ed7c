"""Agreement of the scores without a model with people's labels.

Reads human-labelled public data (MTRAG, RAGChecker's meta-evaluation, XQuAD; not part of this repository)
from the folder given as argument or by RAGMETER_BENCH_DATA, runs ragmeter's own metrics over it and
prints correlations beside those of published LLM judges on the same rows.  The data sets: MTRAG human
subset (Katsis et al. 2025, Apache-2.0), RAGChecker meta-evaluation (Ru et al. 2024, Apache-2.0), XQuAD
(Artetxe et al. 2020, CC BY-SA 4.0).  Run: ``python benchmarks/human_agreement.py DATA_FOLDER``.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import live_agreement
import verdict_agreement
from agreement import auroc, interval, pearson, spearman
from labelled_data import data_folder, read_json

from ragmeter.metrics import AnswerOverlap, LexicalGroundedness, RagSample, Reference, content_tokens, tokens
from ragmeter.metrics.protocol import compute_metric

BOOTSTRAPS = 2000


def read(folder: Path, *parts: str) -> Any:
    path = folder.joinpath(*parts)
    if not path.exists():
        print(f"skipped: {'/'.join(parts)} is not in the data folder")
        return None
    return read_json(folder, *parts)


def multiset_f1(answer: list[str], reference: list[str]) -> float:
    shared = (Counter(answer) & Counter(reference)).total()
    return 2 * shared / (len(answer) + len(reference)) if shared else 0.0


def value(metric: Any, sample: RagSample, name: str) -> float:
    scores = {score.name: score for score in compute_metric(metric, sample)}
    # Rows that a metric calls undefined count as 0 here, so that every score has the same rows.
    return scores[name].value or 0.0


def line(name: str, x: list[float], y: list[float], scale: float = 1.0) -> None:
    digits = 3 if scale == 1 else 1
    print(f"    {name:56} {pearson(x, y) * scale:7.{digits}f} {spearman(x, y) * scale:7.{digits}f}")


def mtrag(folder: Path) -> None:
    data = read(folder, "mtrag_human", "reference_subset_with_human_evaluations.json.gz")
    if data is None:
        return
    documents = {d["document_id"]: d["text"] for d in data["documents"]}
    tasks = {task["task_id"]: task for task in data["tasks"]}
    rows: list[dict[str, Any]] = []
    for evaluation in data["evaluations"]:
        task, notes = tasks[evaluation["task_id"]], evaluation["annotations"]
        sample = RagSample(
            question=task["input"][-1]["text"],
            contexts=[documents[c["document_id"]] for c in task["contexts"]],
            answer=evaluation["model_response"],
            reference=Reference(answer=task["targets"][0]["text"]),
        )
        rows.append(
            {
                "task": evaluation["task_id"],
                "model": evaluation["model_id"],
                "has documents": bool(task["contexts"]),
                "lexical_groundedness": value(LexicalGroundedness(), sample, "lexical_groundedness"),
                "token_f1": value(AnswerOverlap(), sample, "token_f1"),
                "rouge_l": value(AnswerOverlap(), sample, "rouge_l"),
                "content F1": multiset_f1(
                    content_tokens(sample.answer or ""), content_tokens(task["targets"][0]["text"])
                ),
                **{name: automatic(notes[name]) for name in ("rl_f", "Bert-KPrec", "rb_llm")},
                **{name: human(notes[name]) for name in ("faithfulness", "completeness")},
            }
        )

    print("\nMTRAG, human faithfulness (mean of 3 raters, 1 to 4)" + " " * 14 + "Pearson Spearman")
    subsets = {
        "all": rows,
        "models only": [row for row in rows if row["model"] != "reference"],
        "with a document": [row for row in rows if row["has documents"]],
    }
    for subset, chosen in subsets.items():
        print(f"  {subset}, n = {len(chosen)}")
        wanted = [row["faithfulness"] for row in chosen]
        for name, field in (
            ("lexical_groundedness (no model)", "lexical_groundedness"),
            ("published: RAGAS faithfulness, an LLM judge (rl_f)", "rl_f"),
            ("published: Bert-K-Precision, a neural model", "Bert-KPrec"),
        ):
            line(name, [row[field] for row in chosen], wanted)
    uncertainty(rows)
    print("\nMTRAG, human completeness (mean of 3 raters)" + " " * 22 + "Pearson Spearman")
    for subset in ("all", "models only"):
        chosen = subsets[subset]
        print(f"  {subset}, n = {len(chosen)}")
        wanted = [row["completeness"] for row in chosen]
        for name, field in (
            ("answer_overlap token_f1", "token_f1"),
            ("answer_overlap rouge_l", "rouge_l"),
            ("F1 of content tokens", "content F1"),
            ("published: LLM judge after RADBench (rb_llm)", "rb_llm"),
        ):
            line(name, [row[field] for row in chosen], wanted)


def human(ratings: dict[str, Any]) -> float:
    return sum(float(rating["value"]) for rating in ratings.values()) / len(ratings)


def automatic(note: dict[str, Any]) -> float:
    [source] = note.values()
    return float(source["value"])


def uncertainty(rows: list[dict[str, Any]]) -> None:
    """Print intervals by resampling the tasks, whose three responses belong together."""

    def own(some: list[dict[str, Any]]) -> float:
        return correlation(some, "lexical_groundedness")

    def lead(some: list[dict[str, Any]]) -> float:
        return own(some) - correlation(some, "rl_f")

    tasks = len({row["task"] for row in rows})
    print(f"  95 % intervals over {tasks} tasks, {BOOTSTRAPS} resamples:")
    for name, measure in (("Spearman of lexical_groundedness", own), ("its lead over the RAGAS judge", lead)):
        low, high = interval(rows, lambda row: row["task"], measure, BOOTSTRAPS)
        print(f"    {name:39} {low:+.3f} to {high:+.3f}")


def correlation(rows: list[dict[str, Any]], field: str) -> float:
    return spearman([row[field] for row in rows], [row["faithfulness"] for row in rows])


def ragchecker(folder: Path) -> None:
    records = read(folder, "ragchecker_meta_eval", "human_labeled_data.json.gz")
    published = read(folder, "ragchecker_meta_eval", "baseline_ragchecker.json.gz")
    if records is None or published is None:
        return
    judged = {record["instance_id"]: record for record in published}
    print(f"\nRAGChecker, preference between two answers, n = {len(records)} (× 100)        Pearson Spearman")
    for label in ("correctness_label", "completeness_label", "overall_label"):
        wanted = [float(record[label]) for record in records]
        print(f"  {label.removesuffix('_label')}")
        for name in ("token_f1", "rouge_l"):
            line(f"answer_overlap {name}", [preference(r, name) for r in records], wanted, 100)
        line("F1 of content tokens", [preference(r, "content") for r in records], wanted, 100)
        llm = [
            judged[r["instance_id"]]["model2"]["ragchecker"][label]
            - judged[r["instance_id"]]["model1"]["ragchecker"][label]
            for r in records
        ]
        line("published: RAGChecker, an LLM", llm, wanted, 100)
        line("one annotator against the other", wanted[0::2], wanted[1::2], 100)


def preference(record: dict[str, Any], name: str) -> float:
    """Return the score of the second answer less that of the first."""
    values = []
    for model in ("model1", "model2"):
        answer, reference = record[model]["response"], record["gt_answer"]
        if name == "content":
            values.append(multiset_f1(content_tokens(answer), content_tokens(reference)))
        else:
            sample = RagSample(question=None, answer=answer, reference=Reference(answer=reference))
            values.append(value(AnswerOverlap(), sample, name))
    return values[1] - values[0]


def xquad(folder: Path) -> None:
    """Print how well shared tokens distinguish a question's own paragraph from its article's others."""
    print("\nXQuAD, AUROC of token coverage: a question's paragraph against others of its article")
    for language in ("en", "ru", "zh"):
        data = read(folder, "xquad", f"xquad.{language}.json.gz")
        if data is None:
            continue
        generator = random.Random(0)
        pairs: list[tuple[str, str, bool]] = []
        for article in data["data"]:
            paragraphs = article["paragraphs"]
            for index, paragraph in enumerate(paragraphs):
                for qa in paragraph["qas"][:3]:
                    text = f"{qa['question']} {qa['answers'][0]['text']}"
                    pairs.append((text, paragraph["context"], True))
                    others = [n for n in range(len(paragraphs)) if n != index]
                    sampled = generator.sample(others, min(2, len(others)))
                    pairs += [(text, paragraphs[other]["context"], False) for other in sampled]
        found = []
        for cut in (str.split, tokens, content_tokens):
            scored: list[tuple[bool, float]] = []
            for text, paragraph, own in pairs[:1800]:
                words, known = cut(text), set(cut(paragraph))
                share = sum(word in known for word in words) / len(words) if words else 0.0
                scored.append((own, share))
            found.append(auroc(scored))
        print(
            f"    {language}: white space {found[0]:.3f}, tokens {found[1]:.3f}, content tokens {found[2]:.3f}"
        )


def main() -> None:
    folder = data_folder()
    if folder is None:
        return
    mtrag(folder)
    ragchecker(folder)
    xquad(folder)
    live_agreement.tables(folder)
    print("\nThe verdict, as verdict_agreement.py prints it")
    verdict_agreement.mtrag(folder)
    verdict_agreement.xquad(folder)


if __name__ == "__main__":
    main()
