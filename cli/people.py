"""The commands for people's labels and their options: ``ragmeter label`` and ``ragmeter agreement``.

`app` adds them to the others; each one's work lives in a folder of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ragmeter.exporters.change_words import Language

from ._console import Console, say
from ._docstring_options import options_from_docstring
from ._ending import EXIT_FAILED, exit_with_line, print_json
from ._interrupt import resumable


@options_from_docstring
def label(
    results: Path,
    score: str = "faithfulness",
    out: Path = Path("labels.jsonl"),
    data: Path | None = None,
    count: Annotated[int, typer.Option(min=1)] = 50,
    worst: bool = False,
    rater: str | None = None,
    scale: Literal["1-5", "yes-no"] = "1-5",
    language: Language | None = None,
) -> None:
    """Label requests yourself, so that estimates rest on people, not on the judge alone.

    Requests are drawn at random; each label stores the probability. The same command continues where
    you stopped, and everyone who labels a file sees the same requests. Keys: 1
    to 5, or y and n; s cannot say, b back, m more text, q quit. Through a pipe: one key a line.

    Args:
        results (RESULTS): A file of JsonlExporter with content, a data set, or an --out file with --data.
        score (NAME): The score to label.
        out: Append labels to this file, and resume from it.
        data: The data set, where RESULTS came from `ragmeter evaluate --out`.
        count: Number of requests to draw.
        worst: Show the worst instead: to find faults; not for estimates.
        rater (NAME): Your name as a rater. (default: your account)
        scale: Possible labels.
        language: Language of the screen. (default: the terminal's)
    """
    with exit_with_line():
        from .label.run import LabelOptions, run_labelling

        options = LabelOptions(
            results=results,
            out=out,
            score=score,
            data=data,
            count=count,
            worst=worst,
            rater=rater,
            scale=scale,
            language=language,
        )
        with resumable(f"labels are kept in {out}, and the same command goes on there"):
            run_labelling(options, Console())


@options_from_docstring
def agreement(
    labels: Path,
    results: Annotated[Path | None, typer.Argument(show_default=False)] = None,
    score: str | None = None,
    good: Annotated[float, typer.Option(min=0.0, max=1.0)] = 0.75,
    judge_good: Annotated[float | None, typer.Option(min=0.0, max=1.0)] = None,
    width: Annotated[float, typer.Option(min=0.001, max=1.0)] = 0.1,
    as_json: bool = False,
) -> None:
    """Compare the judge with people and people with each other; compute how many labels are needed.

    With RESULTS, the labels correct the judge's mean towards people's ratings. Exit code 1: some
    lines are not labels; the others are used.

    Args:
        labels (LABELS): The file of `ragmeter label`.
        results ([RESULTS]): The requests with their scores.
        score (NAME): Only this score. (default: all)
        good: Rating from which people call a request good.
        judge_good: Score from which the judge does. (default: as --good)
        width: Wanted width of the people's interval.
        as_json (--json): Print everything as JSON and nothing else.
    """
    with exit_with_line():
        from .agreement._report import agreements_as_json, print_agreements
        from .agreement.run import compare

        found = compare(labels, results, score=score, good=good, judge_good=judge_good, width=width)
        if as_json:
            print_json(agreements_as_json(found, labels, results))
        else:
            print_agreements(found, width, Console())
        for bad in found.bad:
            say(f"{labels}:{bad.line}: {bad.reason}", "red")
    if found.bad:
        raise typer.Exit(EXIT_FAILED)
