"""`ConsoleExporter`: one readable line per request, for the first look and for development.

The verdict, the scores that decided it, and why, on standard error: standard output belongs to the program.
No backend, no SDK. Texts are included only on request, and output cannot move a terminal's cursor or start a
new line. It bypasses Python's buffers, in which a broken pipe would leave data that changes the exit status,
and keeps lines of several processes whole.
"""

from __future__ import annotations

import atexit
import io
import os
import sys
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TextIO

from ragmeter.metrics import ConfigurationError, Score
from ragmeter.metrics._display.printing import one_line
from ragmeter.metrics._process import fork
from ragmeter.metrics.verdict import scores_behind

from ._annotations import shown_scores
from ._format import ContentPolicy, missing_inputs
from ._span_targets import KnowsSpans, delivers, recorded_spans
from .protocol import RagRun, ScoredRun, UnbufferedExporter, WriteCount

__all__ = ["ConsoleExporter"]

MAX_SCORES = 4
"""Most scores on a line: those that decided the verdict."""
MAX_LATE_SCORES = 8
"""Most scores on a line of late scores."""
MAX_NAME_CHARS = 40
"""Most characters of a workflow's name; the rest is cut."""
MAX_QUESTION_CHARS = 80
"""Most characters of a question."""
ID_CHARS = 8
"""Digits of a run id to show; a trace id is shown whole, for searching in backends."""
NARROWEST = 20
"""Least plausible width of a terminal, in columns."""
SPANS_WAIT_S = 1.0
"""Seconds that a line waits for the spans of its request, written by another exporter."""
GAP = "  "
"""Separator of a line's parts, and indentation of further rows."""

_COLOURS = {"bad": "31", "suspect": "33", "good": "32"}
_COLUMN = max(map(len, _COLOURS))
_FAILED = ("judge_error", "timeout", "metric_error")


class ConsoleExporter(UnbufferedExporter):
    """Writes one line per request: time, verdict, workflow, the scores behind it, why, trace id.

    Late scores are a second line, ``later``, with the additions and the verdict if it has changed. Only on a
    terminal it is broken into rows and in colour; anywhere else it is one line of plain text.

    Args:
        stream: Where to write. None: the current standard error.
        color: Whether the verdict is coloured. None: on a terminal, unless ``NO_COLOR`` is set or
            ``TERM`` is ``dumb``.
        capture_content: Whether to write the question, too. None: by
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``, off by default.
        spans: The `OpenTelemetryExporter` that writes the request's spans; None: only traces of other
            instrumentations are known.
        trace_url: URL of a trace with ``{trace_id}`` in it: the link at the end of a line instead of the
            trace id.

    Raises:
        ConfigurationError: `stream` is not writable, an argument is not a boolean, or `trace_url` has no
            place for the id.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        color: bool | None = None,
        capture_content: bool | None = None,
        spans: KnowsSpans | None = None,
        trace_url: str | None = None,
    ) -> None:
        if stream is not None and not callable(getattr(stream, "write", None)):
            raise ConfigurationError(
                f"stream is {stream!r}; pass a text stream, e.g. sys.stdout, or nothing: standard error"
            )
        if color not in (None, True, False):
            raise ConfigurationError(f"color is {color!r}; it is True, False or None: on a terminal")
        if trace_url is not None and "{trace_id}" not in trace_url:
            raise ConfigurationError(
                f"trace_url is {trace_url!r}; write {{trace_id}} where the id stands, e.g. "
                "http://127.0.0.1:4318/trace/{trace_id}"
            )
        self._spans, self._wait_s = spans, SPANS_WAIT_S
        self._trace = trace_url or "trace {trace_id}"
        policy = ContentPolicy.resolve(capture_content)
        self._question = policy.on_spans or policy.on_events
        self._stream = stream
        self._color = color
        self._lock = fork.lock()
        self._broken = False

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Write one line per run.

        Raises:
            RunsLostError: Some could not be written.
            OSError: The stream cannot be written to: a broken pipe, a full disk.
            ValueError: It is closed.
        """
        with WriteCount(batch) as written, self._lock:
            stream = sys.stderr if self._stream is None else self._stream
            if stream is None:
                raise ValueError("this process has no standard error")
            asks = getattr(stream, "isatty", None)
            terminal = asks is not None and asks() is True
            wants = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
            color = wants if self._color is None else self._color
            width = _columns(stream) if terminal else None
            for scored in batch:
                with written.alone():
                    words = [*_words(scored, question=self._question), self._where(scored.run)]
                    rows = _rows(words, width)
                    try:
                        _write(stream, _color_rows(rows, scored) if color else rows)
                    except OSError:
                        if self._stream is None and not self._broken:
                            self._broken = True
                            atexit.register(_empty_standard_error)
                        raise
                    written.add()

    def _where(self, run: RagRun) -> str:
        """Return the link or id of the request's trace, or its run id."""
        known = None
        if self._spans is not None and delivers(self._spans):
            known = self._spans.judged_spans(run, self._wait_s)
            self._wait_s = SPANS_WAIT_S if known else 0.0  # do not wait for an exporter that writes nothing
        found = known or recorded_spans(run)
        span = found.request or found.retrieval or run.parent
        if span is not None and span.is_valid:
            return self._trace.replace("{trace_id}", f"{span.trace_id:032x}")
        # Run ids often begin with the time, so show their end.
        return f"run {one_line(run.run_id, 1000)[-ID_CHARS:]}"


def _words(scored: ScoredRun, *, question: bool) -> Iterator[str]:
    """Yield the parts of a request's line; a part may be broken at spaces."""
    run, verdict = scored.run, scored.verdict
    yield _clock(run.ended_ns)
    word = "later" if scored.late else "unknown" if verdict is None else verdict.word
    yield word.ljust(_COLUMN)
    yield one_line(run.name or f"({run.framework})", MAX_NAME_CHARS)
    if question and not scored.late and run.sample.question:
        yield f'"{one_line(run.sample.question, MAX_QUESTION_CHARS)}"'
    if scored.late:
        yield from _late_scores(scored)
    else:
        yield from _decisive(scored)
    yield from _why(scored)


def _decisive(scored: ScoredRun) -> Iterator[str]:
    """Yield the scores that decided the verdict."""
    behind = [scored.scores[name] for name in scores_behind(scored.verdict) if name in scored.scores]
    known = [score for score in behind if score.value is not None]
    if not known:
        known = [s for s in shown_scores(scored.scores.values()) if s.value is not None]
    yield from map(_score, known[:MAX_SCORES])


def _late_scores(scored: ScoredRun) -> Iterator[str]:
    known = [score for score in scored.scores.values() if score.value is not None]
    # Judgements before counts.
    shown = {score.name for score in shown_scores(known)}
    known.sort(key=lambda score: score.name not in shown and score.method != "human")
    yield from map(_score, known[:MAX_LATE_SCORES])
    if len(known) > MAX_LATE_SCORES:
        yield f"and {len(known) - MAX_LATE_SCORES} more"


def _score(score: Score) -> str:
    value = "-" if score.value is None else f"{score.value:.2f}"
    if score.value is not None and score.range != (0.0, 1.0):
        value = f"{score.value:.4g}"
    partly = " (partial)" if score.status == "partial" else ""
    return f"{one_line(score.name, MAX_NAME_CHARS)} {value}{partly}"


def _why(scored: ScoredRun) -> Iterator[str]:
    """Yield the reasons of the verdict, or why there is none, and failed scores."""
    run, verdict = scored.run, scored.verdict
    if verdict is not None:
        if scored.late:
            yield f"now {verdict.word}"
        yield from map(": ".join, zip(verdict.codes, verdict.reasons, strict=True))
        if verdict.rate is not None:
            yield verdict.rate
    if not scored.late:
        if run.sample.status not in ("ok", "retrieval_only"):
            kind = f" ({one_line(run.error_type, MAX_NAME_CHARS)})" if run.error_type else ""
            yield f"status {run.sample.status}{kind}"
        elif verdict is None and missing_inputs(scored):
            yield f"missing {', '.join(missing_inputs(scored))}"
    failed: dict[str, int] = {}
    for score in scored.scores.values():
        if score.status in _FAILED:
            kind = f" ({one_line(score.error_type, MAX_NAME_CHARS)})" if score.error_type else ""
            failure = f"{score.status}{kind}"
            failed[failure] = failed.get(failure, 0) + 1
    for failure, count in failed.items():
        yield f"{count} score{'s' if count > 1 else ''} {failure}"


def _clock(ns: int) -> str:
    try:
        return time.strftime("%H:%M:%S", time.localtime(ns / 1e9))
    except (OSError, OverflowError, ValueError):
        return "--:--:--"


def _rows(parts: Sequence[str], width: int | None) -> list[str]:
    """Return the parts in one row, or in as many as a terminal of `width` columns needs."""
    line = GAP.join(parts)
    if width is None or _width(line) < width:
        return [line]
    rows = [GAP.join(parts[:2])]  # time and verdict, always whole
    for part in parts[2:]:
        longer = rows[-1] + GAP + part
        if _width(longer) < width:
            rows[-1] = longer
        else:
            rows += _own_rows(part, width)
    return rows


def _own_rows(part: str, width: int) -> list[str]:
    """Return a part in separate rows, broken at spaces."""
    rows = [""]
    for word in part.split(" "):
        for piece in _split_word(word, width - len(GAP) - 1):
            longer = f"{rows[-1]} {piece}" if rows[-1] else GAP + piece
            if _width(longer) < width:
                rows[-1] = longer
            else:
                rows.append(GAP + piece)
    return rows


def _split_word(word: str, width: int) -> Iterator[str]:
    """Yield a word in pieces of at most `width` columns."""
    piece, used = "", 0
    for char in word:
        wide = _width(char)
        if used + wide > width:
            yield piece
            piece, used = "", 0
        piece += char
        used += wide
    yield piece


def _width(text: str) -> int:
    """Return how many columns a text takes: Chinese characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _color_rows(rows: list[str], scored: ScoredRun) -> list[str]:
    if scored.verdict is None:
        return rows
    word = "later" if scored.late else scored.verdict.word
    coloured = f"\x1b[{_COLOURS[scored.verdict.word]}m{word}\x1b[0m"
    return [rows[0].replace(word, coloured, 1), *rows[1:]]


def _columns(stream: TextIO) -> int | None:
    """Return the width set by the user or reported by the terminal; None: unknown."""
    columns_set = os.environ.get("COLUMNS", "")
    if columns_set.isdecimal() and int(columns_set) >= NARROWEST:
        return int(columns_set)
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (AttributeError, OSError, ValueError):
        return None
    return columns if columns >= NARROWEST else None


def _write(stream: TextIO, rows: Sequence[str]) -> None:
    text = "\n".join(rows) + "\n"
    encoding = getattr(stream, "encoding", None) or "utf-8"
    data = text.encode(encoding, "backslashreplace")
    if type(stream) is io.TextIOWrapper and isinstance(stream.buffer, io.BufferedWriter):
        # Bypasses the buffers: see above.
        stream.flush()
        file = stream.fileno()
        while data:
            data = data[os.write(file, data) :]
        return
    stream.write(data.decode(encoding))
    flush = getattr(stream, "flush", None)
    if flush is not None:
        flush()


def _empty_standard_error() -> None:
    """Empty the unwritable buffers of standard error at the end of the process.

    The failure is logged, and without a handler `logging` writes to standard error, too. Data left in its
    buffers would make Python exit with status 120.
    """
    stream = sys.stderr
    if type(stream) is not io.TextIOWrapper:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            file = stream.fileno()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if nowhere != file:
                os.dup2(nowhere, file)
                os.close(nowhere)
            stream.flush()
