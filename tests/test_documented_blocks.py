"""Every Python block of the README and the documentation runs, and every ``ragmeter`` command is one that there is.

The blocks of a page run one after the other as their reader would run them, beside the application that
`documented_application` stands in for, all pages in one process. Keys are stubs, addresses lead nowhere,
and packages that nothing of ours needs are stood in for. What does not run is named in `NOT_RUN`, with the reason.
"""

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

for needed in ("langchain_core", "llama_index.core", "prometheus_client", "pyarrow", "fastapi", "typer"):
    pytest.importorskip(needed)

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("[!.]*/README.md")), *sorted(ROOT.glob("docs/*.md"))]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)

NOT_RUN: dict[str, str] = {}
"""The first line of a block that does not run, and why. Who adds one says why nothing else will do."""

RUN = """
import importlib, json, os, socket, sys, traceback
from unittest import mock

given, stubs = json.load(sys.stdin)
for module, names in stubs.items():
    try:
        importlib.import_module(module)
        continue
    except ImportError:
        pass
    parts = module.split(".")
    for n in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:n]), mock.MagicMock())
    for name in names:
        setattr(sys.modules[module], name, mock.MagicMock())

# A documented port may be taken, and nothing is to be reached: any port, and this machine only.
import prometheus_client
start = prometheus_client.start_http_server
prometheus_client.start_http_server = lambda port, **options: start(0, **options)
resolve = socket.getaddrinfo
def nearby(host, *rest, **more):
    if host not in ("127.0.0.1", "localhost", "::1", None):
        raise socket.gaierror(f"{host}: nothing is reached from here")
    return resolve(host, *rest, **more)
socket.getaddrinfo = nearby

import documented_application
from opentelemetry import sdk, trace

trace.set_tracer_provider(sdk.trace.TracerProvider())  # as vendors' packages do, which are stubs here
failed = {}
for page, blocks in given.items():
    space = {"__name__": "documented", **documented_application.names()}
    for line, code in blocks:
        try:
            exec(compile("\\n" * (line - 1) + code, page, "exec"), space)
        except BaseException:
            failed[f"{page}:{line}"] = traceback.format_exc(limit=-3)
sys.stderr.flush()
print("\\n" + json.dumps(failed), flush=True)
os._exit(0)  # nothing of what the pages started is waited for
"""


def _blocks(kind):
    """Return each page's blocks of a kind, with the line on which each begins."""
    found = {}
    for path in PAGES:
        page = path.read_text("utf-8")
        for block in BLOCK.finditer(page):
            if block[2] == kind:
                line = page.count("\n", 0, block.start(3)) + 1
                name = path.relative_to(ROOT).as_posix()
                found.setdefault(name, []).append((line, textwrap.dedent(block[3])))
    return found


def test_the_application_has_what_the_blocks_may_use():
    """Declared and there are the same names, so that no block leans on more than readers are told of."""
    declared = set(importlib.import_module("documented_names").__annotations__)

    assert declared == set(importlib.import_module("documented_application").names())


def _failures(blocks, folder):
    """Run each page's blocks in a process of their own; return what each that failed raised."""
    from test_documented_code import STUBS

    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("RAGMETER_", "OTEL_", "OPENAI_"))
    }
    stubs = {
        "PYTHONPATH": str(ROOT / "tests"),
        "OPENAI_API_KEY": "sk-none",
        "LANGFUSE_PUBLIC_KEY": "pk-lf-none",
        "LANGFUSE_SECRET_KEY": "sk-lf-none",
        "CHAT_WEBHOOK": "http://127.0.0.1:9/hook",
    }
    (folder / "golden.jsonl").write_text('{"question": "Where?", "answer": "There."}\n', "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps([blocks, STUBS]),
        cwd=folder,
        env={**kept, **stubs},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(300)
def test_every_python_block_runs(tmp_path):
    """In the order of its page; all but those of `NOT_RUN`, none of which is missing from the pages.

    A block that fails is among them, to be told: so that nothing passes because nothing runs.
    """
    blocks = _blocks("python")
    first = {code.splitlines()[0] for found in blocks.values() for _, code in found}
    assert set(NOT_RUN) <= first, "NOT_RUN names a block that is not there"
    given = {
        page: [one for one in found if one[1].splitlines()[0] not in NOT_RUN] for page, found in blocks.items()
    }
    failed = _failures({**given, "none.md": [(7, "question.upper()\nchain.attach()\n")]}, tmp_path)

    assert "line 8" in failed.pop("none.md:7", "")
    assert not failed, "\n".join(f"{where}\n{why}" for where, why in failed.items())
    assert sum(map(len, given.values())) >= 50


def _commands():
    """Return every ``ragmeter`` command of the shell blocks: where it stands, and its arguments."""
    for kind in ("bash", ""):
        for page, found in _blocks(kind).items():
            for line, code in found:
                for command in code.replace("\\\n", " ").splitlines():
                    for part in re.split(r"\s*(?:\|\||&&|\|)\s*", command):
                        try:
                            words = shlex.split(part, comments=True)
                        except ValueError:
                            continue
                        while words and re.match(r"[A-Z_]+=", words[0]):
                            words.pop(0)
                        told = len(words) > 1 and words[1].endswith(":")  # what it prints
                        if words and words[0].rpartition("/")[2] == "ragmeter" and not told:
                            yield f"{page}:{line}", words[1:]


COMMANDS = list(_commands())


def test_there_are_commands_to_check():
    assert len(COMMANDS) >= 25
    assert {words[0] for _, words in COMMANDS} >= {"demo", "evaluate", "serve", "worker", "spans"}


@pytest.mark.parametrize(
    ("where", "words"), COMMANDS, ids=[f"{where} {shlex.join(words)}" for where, words in COMMANDS]
)
def test_every_documented_command_is_understood(where, words, tmp_path, monkeypatch):
    """Command, options and values are parsed by the command line itself; files that it names are there."""
    import typer

    from ragmeter.cli.app import app

    monkeypatch.chdir(tmp_path)
    for word in words:
        if "." in word and not word.startswith(("-", "http", "/")) and ":" not in word and "=" not in word:
            Path(word).touch()
    command, context, words = typer.main.get_command(app), None, list(words)
    while hasattr(command, "get_command") and words:
        context = context or command.context_class(command, info_name="ragmeter")
        named = command.get_command(context, words[0])
        assert named is not None, f"{where}: no command {words[0]!r}"
        command = named
        words.pop(0)
        if hasattr(command, "get_command"):
            context = command.context_class(command, parent=context, info_name=command.name)
    command.make_context(command.name, words, parent=context)

    assert command.callback is not None, where
