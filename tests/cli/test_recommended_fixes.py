"""What our messages tell a reader to do can be done: code runs, commands and options parse, variables are read.

Collected from the product's own strings, so that a new message is checked without a line here; blocks of the
guide run in `test_documented_blocks` and in `tests/services`, what to install in `test_install_commands`.
"""

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
import typer
from opentelemetry.sdk.trace import TracerProvider

import ragmeter
from ragmeter.adapters import uninstrument
from ragmeter.cli.app import app
from ragmeter.metrics.detector import InProcessSpanDetector
from ragmeter.settings.config import PREFIX, Settings

for needed in ("langchain_core", "llama_index.core", "openai", "prometheus_client"):
    pytest.importorskip(needed)

documented_application = importlib.import_module("documented_application")

ROOT = Path(__file__).parents[2]
FOLDERS = ("adapters", "cli", "core", "exporters", "fleet", "metrics", "serve", "testing")
GAP = "\0"
"""Stands where a message puts a value in."""
CALL = re.compile(r"\b([A-Z][a-z]\w*|instrument|uninstrument)\(")
COMMAND = re.compile(r"(?<![\w./-])ragmeter ((?:-{0,2}[A-Za-z][\w./-]*[ =]?)+)")
CODE = re.compile(r"`(?=\w)([^`\n]*[ (][^`\n]*)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
VARIABLE = re.compile(r"\bRAGMETER_[A-Z_]*[A-Z]\b")

PLACEHOLDERS = {"answer": "a", "contexts": ["c"], "model": "some-model", "question": "q", "sample_rate": 0.5}
"""What a reader writes for the ``...`` of an argument."""
NAMES = {
    "TracerProvider": TracerProvider,
    "detector": InProcessSpanDetector(lambda question, contexts, answer: []),
    "path": "scores.jsonl",
    "texts": ["t"],
    "url": "http://127.0.0.1:9",
}
"""What a reader has, beside the application of `documented_application`."""
NOT_RUN = {
    "opentelemetry-instrument python app.py": "OpenTelemetry's own; tests/test_end_to_end.py runs it",
    "dead replay N": "goes on from `ragmeter queue dead list`: tests/fleet runs it",
    "dead drop N": "likewise",
}
"""Code in a message that does not run here, and why."""
WHOLE = "serve/page/_connect.py"
"""Has what is to be copied whole, imports before calls: `tests/serve/page` runs it."""
OF_OTHERS = {
    "--force-reinstall": "pip's",
    "--ragmeter-inconclusive": "pytest's, from our plugin",
    "--ragmeter-write-baselines": "likewise",
    "--upgrade": "pip's",
}
"""Options and variables that are not the product's, and whose they are."""


def _strings(path):
    """Yield the texts of a module that are no docstrings, joined where they are put together."""
    tree = ast.parse(path.read_text("utf-8"))
    told = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }

    def text(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.JoinedStr):
            return "".join(text(one) or GAP for one in node.values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = text(node.left), text(node.right)
            return "".join(one or GAP for one in parts) if any(parts) else None
        return None

    def walk(node):
        if id(node) not in told:
            if (found := text(node)) is not None:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", found
            else:
                for child in ast.iter_child_nodes(node):
                    yield from walk(child)

    yield from walk(tree)


MODULES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
STRINGS = [found for path in MODULES for found in _strings(path)]
MESSAGES = [(where, text) for where, text in STRINGS if " " in text]


def _call(text, start):
    """Return the call that begins there, to its closing bracket; None: it has none."""
    depth = 0
    for end in range(start, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if text[end] == ")" and depth == 0:
            return text[start : end + 1]
    return None


def _public_names():
    """Return every name that a reader can import from a public module of ours."""
    found = {}
    rooms = (ragmeter, ragmeter.adapters, ragmeter.exporters, ragmeter.metrics)
    for module in (
        module for room in rooms for module in pkgutil.walk_packages(room.__path__, room.__name__ + ".")
    ):
        below = module.name.removeprefix("ragmeter.")
        if not re.search(r"(^|\.)_|^cli|^serve|^fleet|^testing", below):
            loaded = importlib.import_module(module.name)
            own = [name for name, one in vars(loaded).items() if getattr(one, "__module__", "") == module.name]
            names = getattr(loaded, "__all__", own)
            found |= {name: getattr(loaded, name) for name in names if hasattr(loaded, name)}
    return found | {name: getattr(ragmeter, name) for name in ragmeter.__all__}


def _is_dots(node):
    return isinstance(node, ast.Constant) and node.value is ...


class _Filled(ast.NodeTransformer):
    """Puts in what a reader puts in for ``...``."""

    def visit_List(self, node):
        return ast.List([], node.ctx) if any(map(_is_dots, node.elts)) else node

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute):
            node.args = [ast.Constant("Why?") if _is_dots(one) else one for one in node.args]
        elif any(map(_is_dots, node.args)):
            return node.func if node.func.id != "RagMeter" else ast.Call(node.func, [], [])
        for one in node.keywords:
            if _is_dots(one.value):
                one.value = ast.parse(repr(PLACEHOLDERS[one.arg]), mode="eval").body
        return node


def _code(text):
    """Return the lines of code that a message recommends."""
    filled = text.replace("(meter, {})", '(meter, retrieval_tools=["search"])')
    for found in CALL.finditer(filled):
        call = _call(filled, found.start())
        is_plain = call is not None and GAP not in call and "?" not in call
        if is_plain and (found[1].islower() or not filled[: found.start()].endswith(".")):
            yield call
    for found in CODE.finditer(filled):
        if "(" in found[1] and GAP not in found[1]:
            yield found[1]


RECOMMENDED = sorted(
    (code, where)
    for code, where in {(code, where) for where, text in MESSAGES for code in _code(text)}
    if not where.startswith(WHOLE)
)


@pytest.mark.parametrize(("code", "where"), RECOMMENDED, ids=[code[:60] for code, _ in RECOMMENDED])
def test_recommended_code_runs(code, where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    (tmp_path / "golden.jsonl").write_text('{"question": "q", "answer": "a"}\n')
    tree = ast.fix_missing_locations(_Filled().visit(ast.parse(code + (" pass" if code.endswith(":") else ""))))
    space = {**documented_application.names(), **_public_names(), **NAMES}
    try:
        exec(compile(tree, where, "exec"), space)
    finally:
        uninstrument()


def _commands():
    group = typer.main.get_command(app)
    yield "", group
    waiting = [("", group)]
    while waiting:
        above, found = waiting.pop()
        for name, command in getattr(found, "commands", {}).items():
            yield f"{above} {name}".strip(), command
            waiting.append((f"{above} {name}".strip(), command))


COMMANDS = dict(_commands())


def _options(command):
    return {option for one in command.params for option in one.opts} | {"--help"}


def test_recommended_commands_are_there_with_their_options():
    wrong, seen = [], 0
    for where, text in MESSAGES:
        for found in COMMAND.finditer(text):
            words, name = found[1].replace("=", " ").split(), ""
            while words and f"{name} {words[0]}".strip() in COMMANDS:
                name = f"{name} {words.pop(0)}".strip()
            if not name:
                if text[found.start() - 1 : found.start()] == "`":
                    wrong.append((where, found[0]))
                continue  # a sentence about us
            seen += 1
            lacking = {one for one in words if one.startswith("--")} - _options(COMMANDS[name])
            if lacking:
                wrong.append((where, found[0]))
        for found in CODE.finditer(text):
            is_command = found[1].startswith("ragmeter ") or "(" in found[1]
            if not is_command and where.startswith(("cli/", "core/", "fleet/")) and found[1] not in NOT_RUN:
                wrong.append((where, found[1]))
    assert wrong == []
    assert seen >= 50


def test_recommended_options_are_there():
    known = {option for command in COMMANDS.values() for option in _options(command)}
    named = {
        (option, where)
        for where, text in MESSAGES
        if where.startswith(("cli/", "testing/"))
        for option in OPTION.findall(text)
    }
    assert {one for one in named if one[0] not in known and one[0] not in OF_OTHERS} == set()
    assert len(named) >= 60


def test_recommended_variables_are_read():
    """Those of the settings, and those that stand in the product by themselves, where it reads them."""
    known = {PREFIX + field.upper() for field in Settings.model_fields}
    known |= {text for _, text in STRINGS if VARIABLE.fullmatch(text)}
    known |= {PREFIX + text for where, text in STRINGS if where.startswith("core/") and text.isupper()}
    pages = [
        (path.name, path.read_text("utf-8"))
        for path in sorted((*ROOT.glob("docs/*.md"), *ROOT.glob("docs/reference/*.md")))
    ]
    named = {
        (name, where)
        for where, text in MESSAGES + pages
        for name in VARIABLE.findall(text)
        if name not in OF_OTHERS
    }
    wrong = {
        one for one in named if one[0] not in known and not any(name.startswith(one[0] + "_") for name in known)
    }
    assert wrong == set()
    assert len({name for name, _ in named}) >= 50


def test_the_short_lists_name_what_is_there():
    texts = "\n".join(text for _, text in MESSAGES)
    texts += (ROOT / "docs/metrics.md").read_text("utf-8")
    assert [one for one in (*NOT_RUN, *OF_OTHERS) if one not in texts] == []
