"""The output of `ragmeter demo`: a report for a person, or JSON for a program.

Reads a `DemoOutcome`; computes nothing that is not about layout.  Called by `app`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ragmeter.cli._console import Console
from ragmeter.cli._score_table import VERDICT_STYLES, legend, new_table, score_cell, summary_table
from ragmeter.metrics import VerdictRules

from .corpus import load_chunks
from .run import DemoOutcome, DemoQuestion, worst_request

_COLUMNS: tuple[tuple[str, str], ...] = (
    ("relev", "lexical_context_relevance"),
    ("ground", "lexical_groundedness"),
    ("prec", "precision"),
    ("rec", "recall"),
    ("AP", "average_precision"),
    ("tokF1", "token_f1"),
)
"""Headings of the table of questions, and the scores in it: first those that need no reference."""
VERDICT_WIDTH = len("suspect")

MAX_VERDICTS = 10
WHY_WIDTH = 26
MAX_FAILURES = 5
MIN_QUESTION_WIDTH = 18
MAX_QUESTION_WIDTH = 60
EVIDENCE_WIDTH = 72
"""Columns below which the worst request's texts are below their headings instead of beside them."""

_KINDS: Mapping[str, tuple[str, str]] = {
    "direct": ("", ""),
    "other_words": ("≠ ", "asked in other words than the article uses"),
    "cross_language": ("⇄ ", "asked in another language than the article's"),
    "not_in_corpus": ("∅ ", "not answered by any article"),
}


def print_report(outcome: DemoOutcome, console: Console, *, everything: bool = False) -> None:
    """Print the request to look at first, and the verdicts; or `everything`."""
    languages = Counter(one.question.language for one in outcome.asked)
    counts = ", ".join(f"{count} {language}" for language, count in languages.items())
    console.print(
        Text.assemble(
            ("ragmeter demo", "bold"),
            f": {len(outcome.asked)} questions ({counts}) asked of {outcome.application.chunk_count} "
            f"chunks through {outcome.framework}, answers by {outcome.application.model}, in "
            f"{outcome.duration_s:.1f} s",
        )
    )
    console.print()
    if everything:
        _print_questions(outcome, console)
        _print_worst(outcome, console)
        console.print(summary_table(outcome.summaries, intervals=False, width=console.width))
        _print_telemetry(outcome, console)
        console.print(Text("The same on your own application", style="bold"))
        code = Syntax(
            outcome.application.snippet,
            "python",
            theme="ansi_light",
            background_color="default",
            word_wrap=True,
        )
        console.print(Padding(code, (0, 0, 1, 2)))
    else:
        _print_fault(outcome, console)
        _print_verdicts(outcome, console)
        _print_deliveries(outcome, console)
    failures = outcome.failures
    for failure in failures[:MAX_FAILURES]:
        console.print(Text.assemble(("failed: ", "bold red"), failure), soft_wrap=True)
    if len(failures) > MAX_FAILURES:
        console.print(Text(f"… and {len(failures) - MAX_FAILURES} more failures", style="red"))
    if not everything:
        for command, what in (
            ("ragmeter demo --all ", "every score, golden answers, what was emitted"),
            ("ragmeter demo --page", "the same in the browser"),
        ):
            console.print(Text.assemble((command, "bold"), f"  {what}"))


def _print_fault(outcome: DemoOutcome, console: Console) -> None:
    """Print the request to look at first, with the sentence at fault."""
    worst = worst_request(outcome.asked)
    if worst is None or worst.run is None or worst.verdict is None:
        return
    word = worst.verdict.word
    rows = [("asked", Text(worst.question.question))]
    rows += [
        ("retrieved", _shorten(f"{one.id}: {one.text}", max(20, console.width - 12)))
        for one in worst.run.sample.contexts or ()
    ]
    rows.append(("answered", Text(worst.answer or "")))
    reasons = "; ".join(map(": ".join, zip(worst.verdict.codes, worst.verdict.reasons, strict=True)))
    rows.append((word, Text(reasons, style=VERDICT_STYLES[word])))
    rows += [
        ("at fault", Text(f"{sentence}  ({share:.0%} of its words in the chunks)", style="red"))
        for sentence, share in _unsupported_sentences(worst)
    ]
    console.print(_text_grid(rows))
    console.print("No reference, no judge, no rating: the verdict comes from the texts alone.\n")


def _text_grid(rows: Sequence[tuple[str | Text, ...]]) -> Table:
    """Return rows of a heading and texts, of which the last one is wrapped."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    for _ in rows[0][2:]:
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def _unsupported_sentences(asked: DemoQuestion) -> list[tuple[str, float]]:
    """Return the answer's sentences with the least support in the chunks, with their share of found words."""
    score = asked.scores.get("lexical_groundedness")
    below = VerdictRules().unsupported_below
    return [
        (item.text, item.value)
        for item in (score.items if score is not None else ())
        if item.text and item.value is not None and item.value < below
    ]


def _print_verdicts(outcome: DemoOutcome, console: Console) -> None:
    table = new_table("Verdicts")
    narrow = console.width < EVIDENCE_WIDTH
    table.add_column("verdict", no_wrap=True, width=VERDICT_WIDTH)
    room = console.width - VERDICT_WIDTH - 8  # columns of edges and dividers
    asked = room if narrow else min(MAX_QUESTION_WIDTH, room - WHY_WIDTH)
    table.add_column("question", overflow="ellipsis", no_wrap=True, width=asked)
    if not narrow:
        table.add_column("why", overflow="ellipsis", no_wrap=True, width=WHY_WIDTH)
    judged = sorted(
        (one for one in outcome.asked if one.verdict is None or one.verdict.word != "good"),
        key=lambda one: ("bad", "suspect").index(one.verdict.word) if one.verdict else 2,
    )
    for one in judged[:MAX_VERDICTS]:
        why = one.error or ", ".join(one.verdict.codes if one.verdict else ())
        cells = [_verdict_cell(one), Text(one.question.question), Text(why, style="dim")]
        table.add_row(*cells[: len(table.columns)])
    good = len(outcome.asked) - len(judged)
    more = len(judged) - MAX_VERDICTS
    if more > 0:
        table.add_row(Text("…", style="dim"), Text(f"{more} more", style="dim"))
    if good:
        cell = Text("good", style=VERDICT_STYLES["good"])
        table.add_row(cell, Text(f"{good} of {len(outcome.asked)} questions"))
    console.print(table)


def _print_questions(outcome: DemoOutcome, console: Console) -> None:
    columns = [
        (heading, name) for heading, name in _COLUMNS if any(name in one.scores for one in outcome.asked)
    ]
    while columns and _room(console, columns) < MIN_QUESTION_WIDTH:
        columns.pop()  # a narrow terminal has room for the first few
    usual = {one.name: one for one in outcome.summaries}
    rows = [[score_cell(one.scores.get(name), usual.get(name)) for _, name in columns] for one in outcome.asked]
    colours = console.color_system is not None
    caption = _caption(outcome, columns, legend(chain.from_iterable(rows), colours=colours))
    table = new_table("Scores per question", caption=caption)
    table.padding = (0, 0, 0, 0)
    width = min(MAX_QUESTION_WIDTH, max(MIN_QUESTION_WIDTH, _room(console, columns)))
    table.add_column("#", justify="right", style="dim", width=2)
    table.add_column("question", overflow="ellipsis", no_wrap=True, max_width=width)
    table.add_column("verdict", no_wrap=True, width=VERDICT_WIDTH)
    for heading, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True, width=_width(heading))
    for number, (one, cells) in enumerate(zip(outcome.asked, rows, strict=True), start=1):
        failed = Text("err", style="red")
        table.add_row(
            str(number),
            Text(_KINDS[one.question.kind][0] + one.question.question),
            _verdict_cell(one) if one.error is None else failed,
            *(cells if one.error is None else [failed] * len(cells)),
        )
    console.print(table)
    console.print()


def _room(console: Console, columns: Sequence[tuple[str, str]]) -> int:
    """Return the number of the terminal's columns that remain for the question."""
    taken = 2 + VERDICT_WIDTH + 1 + sum(_width(heading) + 1 for heading, _ in columns)
    return console.width - taken - 3  # two edges and one more divider


def _caption(outcome: DemoOutcome, columns: Sequence[tuple[str, str]], cells_mean: str) -> str:
    """Return the meaning of the headings, cells and marks in the table."""
    headings = ", ".join(f"{heading} = {name}" for heading, name in columns)
    known = sum(one.question.referenced for one in outcome.asked)
    kinds = {one.question.kind for one in outcome.asked}
    marks = "; ".join(f"{mark}{words}" for kind, (mark, words) in _KINDS.items() if words and kind in kinds)
    return (
        f"{headings}.\n{known} of {len(outcome.asked)} questions have a reference, as few have in "
        f"life; the verdict needs none.\n{cells_mean}.\n{marks}."
    )


def _verdict_cell(one: DemoQuestion) -> Text:
    if one.verdict is None:
        return Text("–", style="dim")
    return Text(one.verdict.word, style=VERDICT_STYLES[one.verdict.word])


def _width(heading: str) -> int:
    return max(len(heading), 4)


def missed_sentences(asked: DemoQuestion) -> list[str]:
    """Return the golden sentences that were not retrieved, from the evidence of ``recall``."""
    recall = asked.scores.get("recall")
    if recall is None:
        return []
    return [item.text for item in recall.items if item.verdict is False and item.text]


def _print_worst(outcome: DemoOutcome, console: Console) -> None:
    worst = worst_request(outcome.asked)
    if worst is None or worst.run is None:
        return
    number = list(outcome.asked).index(worst) + 1
    console.print(Text.assemble(("Worst request: ", "bold"), f"#{number} {worst.question.question}"))
    if worst.verdict is not None:
        said = f"{worst.verdict.word}: " + "; ".join(worst.verdict.reasons)
        console.print_indented(said.removesuffix(": "))
    names = ("lexical_context_relevance", "lexical_groundedness", "recall", "token_f1")
    measured = [worst.scores[name] for name in names if name in worst.scores]
    facts = [f"{one.name} {one.value:.2f}" for one in measured if one.value is not None]
    console.print_indented(", ".join(facts), "dim")
    if words := _KINDS[worst.question.kind][1]:
        console.print_indented(f"It is {words}.")
    homes = {text: home for home in load_chunks() for text in worst.question.contexts if text in home.text}
    rows: list[tuple[str, str, Text]] = []
    for text in missed_sentences(worst):
        home = homes.get(text)
        rows.append(("not retrieved", home.id if home else "", Text(text, style="red")))
    for rank, context in enumerate(worst.run.sample.contexts or (), start=1):
        rows.append((f"retrieved {rank}", context.id or "", _shorten(context.text)))
    rows.append(("answered", "", Text(worst.answer or "")))
    if worst.question.referenced:
        rows.append(("should say", "", Text(worst.question.answer, style="green")))
    if console.width >= EVIDENCE_WIDTH:
        console.print(Padding(_text_grid(rows), (0, 0, 1, 2)))
        return
    for what, where, shown in rows:
        console.print_indented(f"{what} {where}".strip(), "dim")
        console.print_indented(shown, by=4)
    console.print()


def _shorten(text: str, limit: int = 110) -> Text:
    return Text(text if len(text) <= limit else text[: limit - 1].rstrip() + "…")


def _print_telemetry(outcome: DemoOutcome, console: Console) -> None:
    collected = outcome.collected
    spans = Counter(_operation(span) for span in collected.spans)
    points = collected.points_by_metric
    console.print(Text("Emitted through OpenTelemetry", style="bold"))
    for line in (
        f"{len(collected.spans)} spans: " + ", ".join(f"{count} {name}" for name, count in spans.items()),
        f"{len(collected.events)} events gen_ai.evaluation.result, one per score and verdict",
        f"{len(points)} metrics with {sum(points.values())} series: " + ", ".join(points),
    ):
        console.print_indented(line)
    worst = worst_request(outcome.asked)
    tree = _trace_tree(collected.spans, worst) if worst is not None else None
    if tree is not None:
        console.print_indented("The worst request's trace, as your backend shows it:")
        console.print_indented(tree, by=4)
    _print_deliveries(outcome, console)
    if not outcome.deliveries:
        hint = "ragmeter demo --otlp http://localhost:4318 sends all of it to your own backend."
        console.print_indented(hint, "dim")
    console.print()


def _print_deliveries(outcome: DemoOutcome, console: Console) -> None:
    for delivery in outcome.deliveries:
        said = ("arrived", "green") if delivery.accepted else ("did not arrive", "red")
        line = f"{delivery.signal}: {delivery.items} {_ITEMS[delivery.signal]} sent to {delivery.endpoint} "
        why = "" if delivery.accepted else f": {delivery.detail}"
        console.print_indented(Text.assemble(line, said, why))
    arrived = [one.signal for one in outcome.deliveries if one.accepted]
    if 0 < len(arrived) < len(outcome.deliveries):
        only = " ".join(f"--signal {signal}" for signal in arrived)
        hint = f"The backend takes {' and '.join(arrived)}; the same without complaint: {only}"
        console.print_indented(hint, "dim")


_ITEMS = {"traces": "spans", "logs": "events", "metrics": "metric series"}


def _operation(span: ReadableSpan) -> str:
    attributes = span.attributes or {}
    return str(attributes.get("gen_ai.operation.name") or span.name)


def _trace_tree(spans: Sequence[ReadableSpan], worst: DemoQuestion) -> Tree | None:
    run = worst.run.run if worst.run is not None else None
    if run is None or run.trace_id is None:
        return None
    of_trace = [span for span in spans if span.context is not None and span.context.trace_id == run.trace_id]
    children: dict[int | None, list[ReadableSpan]] = {}
    for span in sorted(of_trace, key=lambda one: one.start_time or 0):
        children.setdefault(span.parent.span_id if span.parent else None, []).append(span)

    def grow(tree: Tree, span: ReadableSpan) -> None:
        branch = tree.add(_span_label(span))
        for child in children.get(span.context.span_id if span.context else None, []):
            grow(branch, child)

    root = Tree("", hide_root=True, guide_style="dim")
    for span in children.get(None, []):
        grow(root, span)
    return root if children else None


def _span_label(span: ReadableSpan) -> Text:
    took_ms = ((span.end_time or 0) - (span.start_time or 0)) / 1e6
    label = Text.assemble((span.name, "bold"), (f"  {took_ms:.1f} ms", "dim"))
    verdict = (span.attributes or {}).get("ragmeter.verdict")
    if verdict is not None:
        label.append(f"\nragmeter.verdict={verdict}", style=VERDICT_STYLES[str(verdict)])
    prefix = "ragmeter.score."
    scores = [
        f"{key}={value:.2f}"
        for key, value in (span.attributes or {}).items()
        if key.startswith(prefix) and isinstance(value, float)
    ]
    if scores:
        label.append("\n" + "\n".join(scores[:3]), style="cyan")
        if len(scores) > 3:
            label.append(f"\n… and {len(scores) - 3} more scores", style="dim")
    return label


def outcome_as_json(outcome: DemoOutcome) -> dict[str, Any]:
    """Return the whole outcome as JSON-ready fields; see docs/command-line.md for their meaning."""
    worst = worst_request(outcome.asked)
    return {
        "framework": outcome.framework,
        "model": outcome.application.model,
        "chunks": outcome.application.chunk_count,
        "duration_s": outcome.duration_s,
        "requests": [_asked_as_json(one) for one in outcome.asked],
        "worst": None
        if worst is None
        else {
            "question": worst.question.question,
            "verdict": _verdict_as_json(worst),
            "not_retrieved": missed_sentences(worst),
        },
        "summary": {one.name: one.as_json() for one in outcome.summaries},
        "telemetry": {
            "spans": dict(Counter(_operation(span) for span in outcome.collected.spans)),
            "events": len(outcome.collected.events),
            "metrics": dict(outcome.collected.points_by_metric),
        },
        "otlp": [asdict(one) for one in outcome.deliveries],
        "failures": outcome.failures,
    }


def _asked_as_json(asked: DemoQuestion) -> dict[str, Any]:
    sample = asked.run.sample if asked.run is not None else None
    return {
        "question": asked.question.question,
        "language": asked.question.language,
        "kind": asked.question.kind,
        "answer": asked.answer,
        "error": asked.error,
        "status": sample.status if sample is not None else None,
        "contexts": [
            {"id": context.id, "text": context.text, "score": context.score}
            for context in (sample.contexts or () if sample is not None else ())
        ],
        "reference": dict(asked.question.reference) if asked.question.referenced else None,
        "verdict": _verdict_as_json(asked),
        "scores": {
            name: score.model_dump(mode="json", exclude_defaults=True) for name, score in asked.scores.items()
        },
    }


def _verdict_as_json(asked: DemoQuestion) -> dict[str, Any] | None:
    return None if asked.verdict is None else asked.verdict.model_dump(mode="json")
