"""Names of others begin no line of a log, and move no cursor of a terminal."""

import io
import logging
import re
from pathlib import Path

import pytest

from ragmeter.cli._console import Console
from ragmeter.metrics._display.printing import LOGGERS, one_line

ROOT = Path(__file__).resolve().parents[3]
EVIL = "scope\n2026-01-01 ragmeter: all is well\r\x1b[2J\x1b]0;gone\x07\u202e\u2028\x9b31m\ud800"


@pytest.mark.parametrize("given", [(EVIL,), ({"name": EVIL},), (ValueError(EVIL),), (Path(EVIL),)])
@pytest.mark.parametrize("name", LOGGERS)
def test_what_is_logged_is_one_line(caplog, name, given):
    words = "told by %(name)s: %%" if isinstance(given[0], dict) else "told by %s: %%"
    logging.getLogger(name).warning(words, *given)

    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert "all is well" in record.getMessage()


def test_numbers_and_plain_words_are_logged_as_they_are(caplog):
    logging.getLogger("ragmeter").warning("%d of %5.1f: %s", 3, 0.25, "as  it is")

    assert caplog.messages == ["3 of   0.2: as  it is"]


def test_a_terminal_shows_a_sign_in_place_of_what_cannot_be_seen():
    out = io.StringIO()
    console = Console(file=out, width=200, force_terminal=True, color_system=None)
    console.print(EVIL, markup=False, highlight=False)

    assert all(char.isprintable() or char == "\n" for char in out.getvalue())


def test_a_long_name_is_cut():
    assert len(one_line("x" * 10**6)) <= 2_000


def test_everything_of_ours_is_logged_to_loggers_that_do_so():
    for path in ROOT.rglob("*.py"):
        folder = path.relative_to(ROOT).parts[0]
        if folder in ("adapters", "cli", "core", "exporters", "fleet", "metrics", "serve", "testing"):
            for name in re.findall(r'getLogger\("(ragmeter[^"]*)"\)', path.read_text("utf-8")):
                assert name in (*LOGGERS, "ragmeter.explain"), path
            if folder == "cli" and path.name != "_console.py":
                assert "from rich.console import Console" not in path.read_text("utf-8"), path
