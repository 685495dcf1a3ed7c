"""`ConsoleExporter`: one readable line per request, wherever it is written, and nothing of the user's."""

import io
import os
import re
import subprocess
import sys
import textwrap
import unicodedata

import pytest

from ragmeter import ConfigurationError, RagMeter
from ragmeter.exporters.console import ConsoleExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.protocol import RunsLostError
from ragmeter.metrics.verdict import VERDICT_CODES, VerdictRules, scores_behind

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("NO_COLOR", "TERM", "COLUMNS", CAPTURE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def run(make):
    """Make a run with its verdict."""

    def made(*scores, late=False, sample=None, **changes):
        scored = make.scored_run(tuple(scores), late=late, sample=sample, **changes)
        verdict = VerdictRules().verdict(scored.scores, scored.sample.status)
        return scored.__class__(run=scored.run, scores=scored.scores, late=late, verdict=verdict)

    return made


@pytest.fixture
def bad(run, make):
    """An answer that is not in the chunks, which were on topic."""
    return run(
        make.score("context_count", 2.0, range=(0.0, None), direction="none"),
        make.score("lexical_context_relevance", 0.83),
        make.score("lexical_groundedness", 0.14, target="answer"),
        make.score("refusal", 0.0, target="answer"),
    )


def written(*runs, stream=None, **options):
    stream = io.StringIO() if stream is None else stream
    ConsoleExporter(stream, **options).export(runs)
    return stream.getvalue()


def test_a_line_says_when_what_of_which_workflow_and_why(bad):
    """Time, verdict, name, the scores that decided, the reason, and the trace to look for."""
    line = written(bad)

    assert re.fullmatch(
        r"\d\d:\d\d:\d\d  bad      support_bot  lexical_groundedness 0\.14  "
        r"lexical_context_relevance 0\.83  unsupported_answer: 14 % of the answer's words are in the "
        r"chunks  trace 0{30}a1\n",
        line,
    )


def test_from_a_line_to_the_trace_that_the_exporter_beside_it_writes(bad, sdk):
    """The whole id, which backends look for, or a link; also where no span was there before."""
    lines = io.StringIO()
    otel = OpenTelemetryExporter(**sdk.providers)
    pages = "http://127.0.0.1:4318/trace/{trace_id}"
    exporters = [otel, ConsoleExporter(lines, spans=otel), ConsoleExporter(lines, spans=otel, trace_url=pages)]
    with RagMeter(exporters=exporters) as meter:
        meter.submit(bad.sample)
        assert meter.flush(60)
    [trace_id] = {f"{span.context.trace_id:032x}" for span in sdk.all_spans()}

    assert sorted(line.rsplit("  ", 1)[1] for line in lines.getvalue().splitlines()) == [
        pages.format(trace_id=trace_id),
        f"trace {trace_id}",
    ]
    with pytest.raises(ConfigurationError, match="where the id stands"):
        ConsoleExporter(trace_url="http://127.0.0.1:4318/trace/")


def test_no_text_of_the_request_is_written_unless_asked_for(bad, make, monkeypatch):
    assert "-TEXT" not in written(bad)
    assert make.content["question"] in written(bad, capture_content=True)
    monkeypatch.setenv(CAPTURE, "true")
    assert make.content["question"] in written(bad)
    assert "-TEXT" not in written(bad, capture_content=False)


def test_scores_that_come_later_are_a_line_of_their_own(run, make, bad):
    """It says what was added, what the verdict is now, and belongs to the same trace."""
    late = run(
        make.score("faithfulness", 0.2, target="answer", method="llm"),
        make.score("context_sufficiency", 0.5, method="llm"),
        late=True,
    )
    first, second = written(bad, late).splitlines()

    assert "  later    support_bot  faithfulness 0.20  context_sufficiency 0.50  now bad" in second
    assert "unsupported_answer: " in second
    assert first.split()[-2:] == second.split()[-2:]


FAILING = {"status": "judge_error", "method": "llm", "error_type": "AuthenticationError"}


@pytest.mark.parametrize(
    ("scores", "changes", "says"),
    [
        (tuple((f"s{n}", 0.5, {}) for n in range(11)), {"late": True}, "s7 0.50  and 3 more"),
        # A wrong key shows itself on the first line.
        ((("lexical_groundedness", 0.9, {"target": "answer"}),
          ("faithfulness", None, {"target": "answer", **FAILING}), ("context_sufficiency", None, FAILING)),
         {}, r"  good     .*  2 scores judge_error \(AuthenticationError\)"),
        # Unknown is no verdict, and never 0.
        ((("lexical_groundedness", None, {"status": "missing_input", "missing": "answer"}),),
         {"sample": {"answer": None}}, "  unknown  support_bot  missing answer  "),
        ((), {"sample": {"status": "error"}, "error_type": "TimeoutError"},
         r"unknown  support_bot  status error \(TimeoutError\)"),
        ((), {"parent": None, "run_id": "0199aaaa-0000-7000-8000-00001234abcd"}, "run 1234abcd\n$"),
    ],
    ids=["many late scores", "a failing judge", "a missing answer", "a failed request", "no trace"],
)  # fmt: skip
def test_a_line_says(run, make, scores, changes, says):
    line = written(run(*(make.score(name, value, **more) for name, value, more in scores), **changes))

    assert re.search(says, line)


@pytest.mark.parametrize(
    ("stream", "environment", "options", "coloured"),
    [
        (Terminal, {}, {}, True),
        (io.StringIO, {}, {}, False),
        (Terminal, {"NO_COLOR": "1"}, {}, False),
        (Terminal, {"NO_COLOR": ""}, {}, True),
        (Terminal, {"TERM": "dumb"}, {}, False),
        (Terminal, {}, {"color": False}, False),
        (io.StringIO, {"NO_COLOR": "1"}, {"color": True}, True),
    ],
)
def test_colours_only_on_a_terminal_that_wants_them(bad, monkeypatch, stream, environment, options, coloured):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    text = written(bad, stream=stream(), **options)

    assert ("\x1b[31mbad\x1b[0m" in text) is coloured
    assert ("\x1b" in text) is coloured


@pytest.mark.parametrize("columns", [20, 24, 40, 60, 80, 100])
@pytest.mark.parametrize("name", ["support_bot", "客户支持" * 9, "x" * 300])
def test_a_narrow_terminal_gets_rows_that_fit(bad, run, monkeypatch, columns, name):
    """Nothing is lost, nothing is wider than the terminal; only the first row begins at the left."""
    monkeypatch.setenv("COLUMNS", str(columns))
    scored = run(*bad.scores.values(), sample={"name": name})
    rows = written(scored, stream=Terminal(), color=False).splitlines()
    one_line = written(scored)

    for row in rows:
        wide = sum(unicodedata.east_asian_width(char) in "WF" for char in row)
        assert len(row) + wide < columns
    assert all(row.startswith("  ") for row in rows[1:])
    assert "".join("".join(rows).split()) == "".join(one_line.split())


def test_a_wide_terminal_and_a_file_get_one_line(bad, monkeypatch):
    assert written(bad).count("\n") == 1
    monkeypatch.setenv("COLUMNS", "300")
    assert written(bad, stream=Terminal()).count("\n") == 1


@pytest.mark.parametrize("width", ["", "0", "5", "wide"])
def test_a_nonsensical_width_is_none(bad, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)

    assert written(bad, stream=Terminal()).count("\n") == 1


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "cp1251", "latin-1"])
def test_any_console_takes_any_name(run, encoding):
    """Chinese on an ASCII console, half of a surrogate pair anywhere."""
    file = io.BytesIO()
    stream = io.TextIOWrapper(file, encoding=encoding)
    ConsoleExporter(stream, capture_content=True).export(
        [run(sample={"name": "北京 \ud83d qa", "question": "Где Байкал? \udc80"})]
    )
    stream.flush()
    line = file.getvalue().decode(encoding)

    assert line.count("\n") == 1
    assert " qa" in line
    assert ("北京" in line) is (encoding == "utf-8")
    assert ("Байкал" in line) is (encoding in ("utf-8", "cp1251"))


def test_a_name_cannot_move_the_cursor_or_begin_a_line(run):
    """Neither can a question: what looks like a line of ours is one."""
    nasty = "\x1b[2Ja\r\nb\u2028c\x00\x07\u202ed\x9b31m"
    line = written(run(sample={"name": nasty, "question": nasty}), capture_content=True)

    assert line.count("\n") == 1
    assert line[:-1].isprintable()


def test_standard_error_is_asked_for_at_the_time_of_writing(bad, capsys):
    """So that notebooks, test runners and redirections see the lines; standard output is the program's."""
    ConsoleExporter().export([bad])
    out, err = capsys.readouterr()

    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("wrong", [{"stream": "stdout"}, {"color": "always"}])
def test_nonsense_is_refused_at_construction(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        ConsoleExporter(**wrong)


def test_what_cannot_be_written_is_told_to_the_meter(bad):
    """It counts it; nothing is swallowed unseen."""
    stream = io.StringIO()
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        ConsoleExporter(stream).export([bad])


def test_a_run_that_cannot_be_told_takes_no_other_along(bad, make):
    broken = make.scored_run()
    object.__setattr__(broken, "scores", None)
    stream = io.StringIO()
    with pytest.raises(RunsLostError) as raised:
        ConsoleExporter(stream).export([broken, bad])

    assert raised.value.lost == 1
    assert stream.getvalue().count("\n") == 1


def test_no_standard_error_at_all_is_told_to_the_meter(bad, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(ValueError, match="no standard error"):
        ConsoleExporter().export([bad])


APP = """
    from ragmeter import Limits, RagMeter

    meter = RagMeter(exporters="console", limits=Limits(shutdown_timeout_s=60))
    with meter.request("When was the bridge opened?", name="qa") as request:
        request.retrieved(["The bridge was opened in 1932."])
        request.answered("It was opened in 1932.")
"""


def application(tmp_path, code=APP, **options):
    app = tmp_path / "app.py"
    app.write_text(textwrap.dedent(code), encoding="utf-8")
    # Most applications run with buffers, whatever the tests do: what is left in them shows at the end.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, app], timeout=120, check=False, text=True, encoding="utf-8", env=env, **options
    )  # fmt: skip


def test_a_script_that_ends_at_once_shows_its_line(tmp_path):
    done = application(tmp_path, capture_output=True)

    assert done.returncode == 0
    assert done.stdout == ""
    assert re.search(r"^\d\d:\d\d:\d\d  good     qa  ", done.stderr, re.MULTILINE)


@pytest.mark.skipif(not hasattr(os, "pipe"), reason="needs a pipe")
def test_a_broken_pipe_changes_neither_the_program_nor_its_exit_status(tmp_path):
    """Python ends with status 120 when something of a broken pipe is left in its buffers."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = application(tmp_path, APP + "    print('the end')\n", stdout=subprocess.PIPE, stderr=writing)
    finally:
        os.close(writing)

    assert (done.returncode, done.stdout) == (0, "the end\n")


@pytest.mark.parametrize("closed", ["sys.stderr.close()", "os.close(2)", "sys.stderr = None"])
def test_a_closed_console_changes_nothing_either(tmp_path, closed):
    code = f"    import os, sys\n    {closed}\n" + APP + "    print('the end')\n"
    done = application(tmp_path, code, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    assert (done.returncode, done.stdout) == (0, "the end\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_lines_of_forked_children_stay_whole(tmp_path):
    """Each request is told by the process it ran in, once."""
    code = """
        import os, warnings
        from ragmeter import Limits, RagMeter

        # Since Python 3.12 every fork beside threads is warned of, on standard error.
        warnings.simplefilter("ignore", DeprecationWarning)
        meter = RagMeter(exporters="console", limits=Limits(shutdown_timeout_s=60))

        def ask(name):
            for _ in range(20):
                with meter.request("When was the bridge opened?", name=name) as request:
                    request.retrieved(["The bridge was opened in 1932."])
                    request.answered("It was opened in 1932.")

        ask("parent")
        children = []
        for number in range(3):
            child = os.fork()
            if not child:
                ask(f"child{number}")
                meter.shutdown(60)
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
    """
    done = application(tmp_path, code, capture_output=True)
    lines = done.stderr.splitlines()

    assert all(re.match(r"\d\d:\d\d:\d\d  good     \w+  .*  run \S+$", line) for line in lines)
    assert [sum(f"  {name}  " in line for line in lines) for name in ("parent", "child1")] == [20, 20]


def test_the_meter_takes_names_and_objects(bad):
    """By name what needs nothing; everything else is an object."""
    stream = io.StringIO()
    with RagMeter(exporters=[ConsoleExporter(stream)]) as meter:
        meter.submit(bad.sample)
        assert meter.flush(60)
    assert stream.getvalue().count("\n") == 1
    RagMeter(exporters=["otel", "console"]).shutdown()
    for wrong in ("jsonl", ["console", "screen"]):
        with pytest.raises(ConfigurationError, match="'otel', 'console'"):
            RagMeter(exporters=wrong)


def test_the_environment_adds_the_console(monkeypatch, capsys, bad):
    """To a meter from the environment and to one that was given no exporters."""
    monkeypatch.setenv("RAGMETER_CONSOLE", "1")
    for make_meter in (RagMeter.from_env, RagMeter):
        with make_meter() as meter:
            meter.submit(bad.sample)
            assert meter.flush(60)
        assert capsys.readouterr().err.count("  support_bot  ") == 1
    with RagMeter(exporters=[]) as meter:
        meter.submit(bad.sample)
        assert meter.flush(60)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("RAGMETER_CONSOLE", "perhaps")
    for make_meter in (RagMeter.from_env, RagMeter):
        with pytest.raises(ConfigurationError, match="RAGMETER_CONSOLE='perhaps'"):
            make_meter()


def test_scores_of_the_worker_process_are_shown_here(bad):
    stream = io.StringIO()
    with RagMeter(exporters=[ConsoleExporter(stream)], scoring="process") as meter:
        meter.submit(bad.sample)
        assert meter.flush(60)

    assert "  support_bot  " in stream.getvalue()


def test_every_verdict_names_the_scores_behind_it():
    """And each of them is one that the rules read."""
    from ragmeter.metrics.verdict import _READ, Verdict

    for code in VERDICT_CODES:
        behind = scores_behind(Verdict(word="suspect", codes=(code,), reasons=("why",)))
        assert set(behind) <= set(_READ)
        assert len(behind) == len(set(behind))
    assert scores_behind(None) == scores_behind(Verdict(word="good"))
