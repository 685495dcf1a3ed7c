"""The commands of ``ragmeter`` and their options. Each command's work lives in a module of its own.

This is the composition root: the only part of ragmeter that may import adapters,
frameworks and the OpenTelemetry SDK.  Modules are imported when their command runs, so
that ``ragmeter --help`` is quick and needs no framework.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragmeter.exporters._otlp import Protocol
from ragmeter.metrics import ConfigurationError

from . import people, serving
from ._console import Console, say
from ._docstring_options import options_from_docstring
from ._ending import EXIT_FAILED, exit_with_line, print_json, print_line
from ._interrupt import resumable
from ._options import RetrievalSpanOption, RetrievalToolOption, Signal, ToolSeparatorOption, retrieval_rules
from .golden.commands import golden
from .queue.commands import queue
from .run.command import run

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import Judge

EXIT_OF = {"pass": 0, "fail": EXIT_FAILED, "inconclusive": 4, "blocked": 5}
"""By what `evaluate` decided."""
KEY_VARIABLE = "OPENAI_API_KEY"
"""The default variable of a judge's key."""

app = typer.Typer(
    name="ragmeter",
    help="Scores for live RAG requests, as OpenTelemetry.",
    epilog="All options and file formats: docs/command-line.md in the repository.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked_for: bool) -> None:
    if asked_for:
        from ragmeter import __version__

        typer.echo(f"ragmeter {__version__}")
        raise typer.Exit


@app.callback()
def ragmeter(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Scores for live RAG requests, as OpenTelemetry."""
    del version


@app.command()
@options_from_docstring
def demo(
    framework: Literal["langchain", "llama-index"] = "langchain",
    otlp: str | None = None,
    protocol: Protocol | None = None,
    signal: list[Signal] | None = None,
    offline: bool = False,
    judge_model: str | None = None,
    as_json: bool = False,
    everything: bool = False,
    page: bool = False,
) -> None:
    """Score a real RAG application on this machine: no key, no server, a few seconds.

    Indexes articles in English, Russian and Chinese behind a real retriever, asks questions through a
    real chain, and shows an invented answer with the sentence at fault, and the verdicts.
    With OPENAI_API_KEY or OPENAI_BASE_URL set, that endpoint writes the answers (model:
    RAGMETER_DEMO_MODEL).

    Args:
        framework: Which framework runs the application.
        otlp (URL): Send everything to this OTLP endpoint, e.g. http://localhost:4318.
        protocol: Protocol of that endpoint. (default: grpc on port 4317)
        signal: Send only this signal. Repeatable. (default: all three)
        offline: Answer locally even if OPENAI_API_KEY is set.
        judge_model (MODEL): Run the judged metrics too, with this model.
        as_json (--json): Print results as JSON and nothing else.
        everything (--all): Also show each request's scores and emitted telemetry.
        page: Then show the requests on the page of ragmeter serve.
    """
    with exit_with_line():
        from .demo._report import outcome_as_json, print_report
        from .demo.run import run_demo

        outcome = run_demo(
            framework,
            otlp=otlp,
            protocol=protocol,
            signals=[one.value for one in signal or Signal],
            offline=offline,
            judge_model=judge_model,
        )
    if as_json:
        print_json(outcome_as_json(outcome))
    else:
        print_report(outcome, Console(), everything=everything)
    if page:
        with exit_with_line():
            from .demo._page import server_with
            from .serve import run_server

            run_server(server_with(outcome), say)
    if outcome.failures:
        raise typer.Exit(EXIT_FAILED)


@app.command()
@options_from_docstring
def evaluate(
    data: Annotated[list[Path] | None, typer.Argument()] = None,
    metrics: str | None = None,
    judge_model: str | None = None,
    judge_base_url: str | None = None,
    judge_key_variable: str = KEY_VARIABLE,
    judge_cache: Path | None = None,
    judge_shared: bool = False,
    no_judge_check: bool = False,
    fused: bool = False,
    out: Path | None = None,
    shard: str | None = None,
    merge: bool = False,
    with_text: bool = False,
    engine: str | None = None,
    processes: Annotated[int | None, typer.Option(min=1)] = None,
    html: Path | None = None,
    summary_markdown: Path | None = None,
    columns: list[str] | None = None,
    segments: str | None = None,
    gaps: bool = False,
    compare: Path | None = None,
    concurrency: Annotated[int, typer.Option(min=1)] = 16,
    limit: Annotated[int | None, typer.Option(min=1)] = None,
    fail_under: list[str] | None = None,
    baseline: Path | None = None,
    tolerance: Annotated[float, typer.Option(min=0.0, max=1.0)] = 0.03,
    as_json: bool = False,
) -> None:
    """Score a data set offline, with the metrics that score live requests.

    Accepts ragmeter's, ragas' and continuous-eval's column names. With --out, a run that was
    interrupted continues where it stopped. Exit code 1: some rows could not be read, or some scores
    could not be measured. With --fail-under or --baseline the code is the decision: 0 pass, 1 fail,
    4 inconclusive, 5 blocked.

    Args:
        data (DATA...): Data set: .jsonl, .csv, .json, also with .gz, or .parquet; - is standard input.
        metrics: live, golden, all, names, or my_metrics.py:short_answer, separated by commas.
            (default: golden for rows with a reference, live for the others)
        judge_model (MODEL): Model that judges, e.g. gpt-4o-mini.
        judge_base_url (URL): Its OpenAI-compatible endpoint. (default: OPENAI_BASE_URL)
        judge_key_variable (--judge-key-env NAME): Variable that holds its key.
        judge_cache: SQLite file that remembers the judge's answers between runs.
        judge_shared: Wait for room in the budget of RAGMETER_JUDGE_SHARED_URL, and use its cache.
        no_judge_check: Do not try the judge before the first row.
        fused: Judge precision, recall and relevancy in one call.
        out: Write scores to this folder, as Parquet, or to this .jsonl file, and resume from it.
        shard (I/N): Score one of N pieces, I from 0, e.g. 0/4. Needs --out DIR.
        merge: Report the results of all shards of --out DIR; score nothing.
        with_text: Also write questions and explanations to --out DIR.
        engine (ray): Score in processes of Ray, on this machine or a cluster's. Needs --out DIR.
        processes: With --engine: number of processes. (default: one per core)
        html: Write a page with histograms and the worst samples.
        summary_markdown: Add the summary to this file as Markdown, e.g. $GITHUB_STEP_SUMMARY.
        columns (OURS=COLUMN): Column of the data set for a field, e.g. contexts=docs. Repeatable.
        segments (a,b): Also show and decide by these segments: language, retriever, columns.
        gaps: Show topics whose questions have worse results than the others.
        compare (DATA): Another retriever's results for the same questions: is it worse?
        concurrency: Most concurrent calls to the judge.
        limit: Score only the first rows.
        fail_under (NAME=VALUE): Fail when the whole 95 % interval of this mean is worse, e.g. recall=0.8.
            Repeatable.
        baseline: The --out of an earlier run: fail when means are worse.
        tolerance: How much worse they may be.
        as_json (--json): Print the summary as JSON and nothing else.
    """
    with exit_with_line(), ExitStack() as stack:
        from ragmeter.metrics._files.columns import columns_of
        from ragmeter.quality.decision import Criteria, limit_of

        from ._metric_files import metrics_named
        from ._output_paths import check_output_paths
        from .evaluate._data import check_data, files_of, readable
        from .evaluate._evaluation import EvaluateOptions
        from .evaluate._first_look import notes_on
        from .evaluate._html_report import check_page, write_page
        from .evaluate._markdown import write_markdown
        from .evaluate._report import evaluation_as_json, print_bad_rows, print_evaluation
        from .evaluate.run import read_baseline, run_evaluation

        # Before anything is opened, and long before a judge is paid.
        data = files_of(data or ())
        check_data(data, merge=merge)
        written = out if out is not None and (out.suffix or out.is_file()) and not out.is_dir() else None
        for path in filter(None, (*data, baseline, compare)):
            check_output_paths(
                path, out=written, html=html, summary_markdown=summary_markdown, judge_cache=judge_cache
            )
        check_page(html)
        if engine is not None and judge_model is not None and judge_key_variable != KEY_VARIABLE:
            raise ConfigurationError(
                f"--engine: its processes take the judge's key from {KEY_VARIABLE}; leave --judge-key-env out"
            )
        named = columns_of(columns)
        going_on = f"the same command continues from {out}" if out else "--out keeps scores"
        stack.enter_context(resumable(going_on))
        files = stack.enter_context(readable(data or ()))
        for note in notes_on(files, named):
            say(note, "yellow")
        options = EvaluateOptions(
            data=files,
            columns=named,
            metrics=metrics_named(metrics),
            judge=_judge(
                judge_model, judge_base_url, judge_key_variable, judge_cache, concurrency, shared=judge_shared
            ),
            judge_key=None if no_judge_check else judge_key_variable,
            out=out,
            fused=fused,
            concurrency=concurrency,
            limit=limit,
            engine=engine,
            processes=processes,
            shard=shard,
            merge=merge,
            with_text=with_text,
            page=html is not None,
            segments=[name.strip() for name in (segments or "").split(",") if name.strip()],
            gaps=gaps,
            compare=compare,
            asked=Criteria(
                limits=[limit_of(text) for text in fail_under or ()],
                baseline=None if baseline is None else read_baseline(baseline),
                tolerance=tolerance,
            ),
        )
        evaluation = run_evaluation(options)
        print_bad_rows(evaluation, Console(stderr=True))
        # The summary comes first: a page that cannot be written must not lose what was paid for.
        if as_json:
            print_json(evaluation_as_json(evaluation))
        else:
            print_evaluation(evaluation, Console())
        if html is not None:
            write_page(evaluation, html)
        if summary_markdown is not None:
            write_markdown(evaluation, summary_markdown)
    if evaluation.decision is not None:
        raise typer.Exit(EXIT_OF[evaluation.decision.outcome])
    if not evaluation.complete:
        raise typer.Exit(EXIT_FAILED)


def _judge(
    model: str | None,
    base_url: str | None,
    key_variable: str,
    cache: Path | None,
    concurrency: int,
    *,
    shared: bool,
) -> Judge | None:
    if model is None:
        if base_url is not None or cache is not None or shared:
            raise ConfigurationError("--judge-base-url, --judge-cache and --judge-shared need --judge-model")
        return None
    from ragmeter.metrics.judge import JudgeBudget, JudgeCache, OpenAIJudge

    budget: JudgeBudget | None = None
    kept: JudgeCache | Path | str | bool = True if cache is None else cache
    if shared:
        from ragmeter.settings.config import read_settings
        from ragmeter.settings.from_settings import budget_and_cache

        settings = read_settings()
        if settings.judge_shared_url is None:
            raise ConfigurationError("--judge-shared needs RAGMETER_JUDGE_SHARED_URL, a Redis")
        budget, others = budget_and_cache(settings, waits=True)
        kept = others if cache is None else cache
    return OpenAIJudge(
        model=model,
        base_url=base_url,
        api_key=os.environ.get(key_variable),
        concurrency=concurrency,
        budget=budget,
        cache=kept,
    )


@app.command()
@options_from_docstring
def metrics(
    name: Annotated[str | None, typer.Argument(show_default=False)] = None, as_json: bool = False
) -> None:
    """List every metric: its scores, what it needs, how it works, what it costs. With NAME, explain one.

    The page of one metric has its formula, range and source, an example that is scored now, and the
    thresholds of the verdict.

    Args:
        name: A metric, or one of its scores: explain it.
        as_json (--json): Print it as JSON.
    """
    with exit_with_line():
        if name is not None:
            from ._metric_page import metric_page, print_metric_page

            page = metric_page(name)
            if as_json:
                print_json(page.as_json())
            else:
                print_metric_page(page, Console())
            return
        from .metrics import list_metrics, print_metrics

        if as_json:
            print_json([one._asdict() for one in list_metrics()])
        else:
            print_metrics(Console())


@app.command()
@options_from_docstring
def spans(  # noqa: D417 -- `_options` describes three of them
    files: list[Path],
    score: bool = False,
    explain: bool = False,
    retrieval_tool: RetrievalToolOption = None,
    retrieval_span: RetrievalSpanOption = None,
    tool_separator: ToolSeparatorOption = None,
) -> None:
    """Print each request that recorded spans hold, one JSON object a line, and why it cannot be scored.

    Exit code 1: something could not be read; the rest is printed.

    Args:
        files (FILE...): Recorded OTLP: .pb, .json, .jsonl. Several files are one recording, in order.
        score: Add every score that needs no judge.
        explain: Add for each service and instrumentation what was received and scored, and why not the rest.
    """
    with exit_with_line():
        from .spans import as_row, read_recording

        rules = retrieval_rules(retrieval_tool, retrieval_span, tool_separator)
        recording = read_recording(files, rules)
        for found in recording.requests:
            print_line(as_row(found, score=score, explain=explain))
        sys.stdout.flush()
        for bad in recording.bad:
            say(f"ragmeter: {bad}", "red")
        if recording.invalid:
            say(f"ragmeter: {recording.invalid} spans without an id", "red")
        for account in recording.accounts.table():
            if explain:
                print_line(asdict(account))
            for said in account.shortfalls():
                say(f"ragmeter: {said}", "yellow")
    if recording.bad or recording.invalid:
        raise typer.Exit(EXIT_FAILED)


@app.command()
@options_from_docstring
def dashboards(
    out: Annotated[Path, typer.Option()], force: bool = False, objective: list[str] | None = None
) -> None:
    """Write a Grafana dashboard, Prometheus rules, and a compose file that starts a whole stack.

    Args:
        out (DIR): Directory to write to.
        force: Overwrite files you have edited.
        objective (TEXT): Alert when it is missed, e.g. 'shop_qa:faithfulness>=0.8 for 95%'; <= where lower is
            better. Repeatable. Give the application the same text.
    """
    with exit_with_line():
        from .dashboards.run import print_written, write_dashboards

        written = write_dashboards(out, force=force, objectives=objective or ())
        print_written(written, out, Console(stderr=True))


@app.command(context_settings={"allow_interspersed_args": False})
@options_from_docstring
def doctor(
    program: Annotated[list[str] | None, typer.Argument(show_default=False)] = None,
    otlp: str | None = None,
    no_judge: bool = False,
    chunks: Path | None = None,
    as_json: bool = False,
) -> None:
    """Check what is installed, configured and reachable, and send a scored test request through it.

    Run it with the application's environment variables. Every line says what works, and how to fix
    what does not. Exit code 1: something must be fixed.

    With a program, that program is examined instead: it keeps its output and exit code, and the report goes to
    standard error when it ends. RAGMETER_DOCTOR=1 examines any process that imports ragmeter.

    Args:
        program ([APP.py | module:function | COMMAND] [ARGS]...): Run this unchanged, and report at its end
            what happened to its requests.
        otlp (URL): Try this OTLP endpoint, not the environment's.
        no_judge: Do not call the configured judge and embedder.
        chunks: The present index, id and text: check the golden labels against it.
        as_json (--json): Print findings as JSON and nothing else.
    """
    if program:
        with exit_with_line():
            from ._examination import VARIABLE
            from .program import become_program, program_command

            if otlp is not None or no_judge or chunks is not None or as_json:
                raise ConfigurationError(
                    "--otlp, --no-judge, --chunks and --json are for the environment; what a program "
                    "sends, and where, is examined in the program"
                )
            command = program_command(program[0], program[1:])
            begun = "ragmeter.cli._examination:begin"
            become_program(command, begun, {VARIABLE: str(os.getpid())})
    with exit_with_line():
        from .doctor import examine, worst
        from .doctor._report import print_findings

        examination = examine(otlp, chunks, judge=not no_judge)
        if as_json:
            findings = list(examination)
            print_json({"state": worst(findings), "findings": [asdict(one) for one in findings]})
        else:
            findings = print_findings(examination, Console())
    if worst(findings) == "failed":
        raise typer.Exit(EXIT_FAILED)


@options_from_docstring
def worker(
    queue: str | None = None,
    processes: Annotated[int | None, typer.Option(min=1, max=256)] = None,
    once: bool = False,
    require_export: bool = False,
) -> None:
    """Score requests that applications publish (RAGMETER_SCORING=queue), until SIGTERM.

    Metrics, judge and exporters are set by the same variables as in an application that scores its own
    requests: RAGMETER_METRICS, RAGMETER_JUDGE_MODEL, RAGMETER_JSONL, OTEL_EXPORTER_OTLP_ENDPOINT.

    Args:
        queue (URL): Where applications publish: spool:///DIR, or a broker's address. Default:
            RAGMETER_QUEUE_URL, which keeps a password out of the list of processes.
        processes: Number of scoring processes. (default: one per core)
        once: Score the waiting requests, and exit.
        require_export: Requeue requests whose scores cannot be sent, instead of counting them as lost.
    """
    with exit_with_line():
        from .worker import run as run_worker

        done = run_worker(queue, processes=processes, once=once, require_export=require_export, say=say)
    if not done:
        raise typer.Exit(EXIT_FAILED)


@options_from_docstring
def mcp(url: str = "http://127.0.0.1:4318", token_file: Path | None = None, texts: bool = False) -> None:
    """Serve tools for assistants over the Model Context Protocol, on standard input and output.

    It reads the API of a running `ragmeter serve`, and only reads. Needs the extra mcp.

    Args:
        url (URL): The address of `ragmeter serve`.
        token_file (FILE): The token for viewers. (default: RAGMETER_SERVE_VIEW_TOKEN, else
            RAGMETER_SERVE_TOKEN)
        texts: Include questions, answers and chunks: the assistant sends them to its model.
    """
    with exit_with_line():
        from .mcp import ServerApi, token_of, tools

        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"--url is {url!r}; write http://HOST:PORT")
        tools(ServerApi(url, token_of(token_file), texts=texts)).run(transport="stdio")


for command in (serving.serve, worker, people.label, people.agreement, mcp):
    app.command()(command)
app.command(context_settings={"allow_interspersed_args": False})(run)
app.add_typer(golden, name="golden")
app.add_typer(queue, name="queue")
app.add_typer(serving.store, name="store")
