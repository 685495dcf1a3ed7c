"""``ragmeter evaluate --out DIR``: scores into a folder, and reports on its parts.

The report of a run, of a repeated run and of all shards together is computed in the same way: from lists of
rows and parts.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from ragmeter.cli._console import say
from ragmeter.cli._judge_question import ask_first
from ragmeter.cli._progress import judge_note, progress
from ragmeter.metrics import ConfigurationError, MissingDependencyError, RagSample
from ragmeter.metrics._files.rows import BadRow, count_rows
from ragmeter.metrics._files.samples import read_samples
from ragmeter.metrics.protocol import lacks_input
from ragmeter.quality.decision import check_limits
from ragmeter.quality.row_scores import RowScores
from ragmeter.scorer import Scorer

from ._archive import Archive, MeasurementPlan, ScoringPlan
from ._evaluation import EvaluateOptions, EvaluationReport
from ._folder_rows import add_rows_of
from ._parts import Folder, Shard, shard_of
from ._row_list import RowList
from ._sums import EvaluationSums
from ._worst_rows import WorstRows

# A process-wide setting, which the command line may change: other pools do not return free memory.
pa.set_memory_pool(pa.system_memory_pool())


def evaluate_into_folder(options: EvaluateOptions) -> EvaluationReport:
    """Score the data set into a folder, or report on a finished one.

    Raises:
        ConfigurationError: An option is invalid, or a file cannot be read or written.
        KeyboardInterrupt: The user stopped it; finished rows are in the folder.
    """
    path = options.folder
    if path is None:
        raise ConfigurationError("--merge and --shard need --out DIR")
    if not path.parent.is_dir():
        raise ConfigurationError(f"--out {str(path)!r}: there is no folder {str(path.parent)!r}")
    began = time.perf_counter()
    if options.merge:
        return _merge(options, path, began)
    if not options.files:
        raise ConfigurationError("name a data set; only --merge needs none")
    shard = Shard(0, 1) if options.shard is None else shard_of(options.shard)
    engine = _engine(options)
    total = sum(map(count_rows, options.files))
    scorer = _scorer(options)
    check_limits(options.asked.limits, scorer.metrics)
    asked = MeasurementPlan(
        measurements=scorer.measurements,
        spared={} if options.metrics else _spared_scores(scorer),
        judge_model=None if options.judge is None else options.judge.model,
    )
    with Folder(path, shard) as folder, scorer:
        first = None
        judges = any(metric.judged for metric in scorer.metrics)
        if options.judge is not None and options.judge_key is not None and judges:
            first = partial(ask_first, options.judge, options.judge_key)
        archive = Archive(options, scorer, asked, folder, shard, first)
        for damaged in archive.damaged:
            say(f"{damaged}: damaged, its rows are scored again; remove it", "yellow")
        with progress("scoring", min(total, options.limit or total)) as advance:

            def note() -> str:
                return judge_note(options.spent)

            if engine is None:
                asyncio.run(archive.run(advance, note))
            else:
                archive.run_with(partial(engine, scorer), advance, note)
        resumed = archive.resumed
        del archive  # free its memory: the list now has the rows
        listed = RowList({shard: folder.lists()[shard]}, options.segments)
        found = _report(options, folder, listed, began)
    return replace(found, resumed=resumed, duration_s=time.perf_counter() - began)


def _merge(options: EvaluateOptions, path: Path, began: float) -> EvaluationReport:
    if options.shard is not None or options.limit is not None:
        raise ConfigurationError("--merge is of all shards: leave --shard and --limit out")
    with Folder(path, None) as folder:
        lists = folder.lists()
        counts = {shard.of for shard in lists}
        if not lists:
            raise ConfigurationError(f"--out {str(path)!r}: no run has come to its end there yet")
        if len(counts) > 1:
            raise ConfigurationError(
                f"--out {str(path)!r} has lists of {' and of '.join(map(str, sorted(counts)))} shards; "
                "remove the rows-*.parquet of those that are not meant"
            )
        [of] = counts
        lacking = [str(Shard(number, of)) for number in range(of) if Shard(number, of) not in lists]
        if lacking:
            raise ConfigurationError(f"--merge: no run of shard {', '.join(lacking)} has come to its end")
        return _report(options, folder, RowList(lists, options.segments), began)


def _scorer(options: EvaluateOptions) -> Scorer:
    # At the judge's full speed, without the limits of live requests.
    processes = _processes(options) if options.engine else 1
    return Scorer(
        list(options.metrics) or None,
        options.judge,
        fused=options.fused,
        concurrency=max(1, options.concurrency // processes),
        deadline_s=None,
        max_text_chars=None,
    )


def _engine(options: EvaluateOptions) -> Callable[[Scorer, ScoringPlan], Iterator[pa.Table]] | None:
    """Return the engine that scores instead of this process."""
    if options.engine is None:
        if options.processes is not None:
            raise ConfigurationError("--processes needs --engine ray")
        return None
    if options.engine != "ray":
        raise ConfigurationError(f"--engine {options.engine!r} is not known; there is ray")
    if find_spec("ray") is None:
        raise MissingDependencyError("ray", "ray", "--engine ray")
    from ._with_ray import scored_by_ray  # noqa: PLC0415 -- only where it is asked for

    return partial(scored_by_ray, options, _processes(options))


def _processes(options: EvaluateOptions) -> int:
    return options.processes or os.cpu_count() or 1


def _spared_scores(scorer: Scorer) -> dict[str, list[str]]:
    """Return, by name, the scores that rows without a reference, or without stages, do not get."""
    nothing = RagSample(question=None)
    found = {
        name: [one for one in ("reference", "stages") if lacks_input(metric, nothing, (one,))]
        for metric in scorer.metrics
        for name in metric.score_names
    }
    return {name: inputs for name, inputs in found.items() if inputs}


def _report(options: EvaluateOptions, folder: Folder, listed: RowList, began: float) -> EvaluationReport:
    files = options.files or listed.files
    if not listed.rows and not listed.bad:
        names = ", ".join(listed.files)
        raise ConfigurationError(f"{names!r} has no rows: there is nothing to score")
    sums = EvaluationSums(options.segments, compares=options.asked.baseline is not None)
    add_rows_of(folder, listed, sums)
    if sums.rows < listed.rows:
        raise ConfigurationError(
            f"--out {str(folder.path)!r}: of {listed.rows - sums.rows} rows there are no scores: parts were "
            "removed or are damaged; run the same command again"
        )
    if options.page and options.files:
        _add_texts(options, sums.worst)
    asked = listed.asked
    return sums.report(
        options,
        files,
        began,
        order=[] if asked is None else [*asked.measurements],
        spent=options.spent,
        judge_model=None if asked is None else asked.judge_model,
    )


def scores_of_folder(path: Path) -> RowScores:
    """Return the scores of all shards of a folder that is a baseline."""
    sums = EvaluationSums(compares=True)
    with Folder(path, None) as folder:
        add_rows_of(folder, RowList(folder.lists()), sums)
    if not len(sums.row_scores):
        raise ConfigurationError(f"--baseline {str(path)!r} holds no scores")
    return sums.row_scores


def _add_texts(options: EvaluateOptions, worst: WorstRows) -> None:
    """Read the data set again, up to the last row to show."""
    wanted: dict[str, dict[int, str]] = {}
    for one in worst.all():
        wanted.setdefault(one.row.file, {})[one.row.line] = one.row.key
    for path in options.files:
        lines = wanted.get(path.name, {})
        for row in read_samples(path, options.columns) if lines else ():
            key = lines.pop(row.line, None)
            if key is not None and not isinstance(row, BadRow) and row.key == key:
                worst.put_texts(replace(row, file=path.name))
            if not lines:
                break
