"""Rules of the house that no linter checks."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("core", "cli", "serve", "fleet", "testing", "adapters", "metrics", "exporters")
SOURCES = sorted(
    path
    for room in (*ROOMS, "examples", "benchmarks")
    for path in (ROOT / room).rglob("*.py")
    if "__pycache__" not in path.parts
)
INSTALLED = [path for path in SOURCES if path.relative_to(ROOT).parts[0] in ROOMS]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_file_is_much_longer_than_500_lines():
    assert not [_name(p) for p in SOURCES if len(p.read_text(encoding="utf-8").splitlines()) > 600]


def test_every_module_begins_by_saying_what_it_is_for():
    assert not [_name(p) for p in SOURCES if not p.read_text("utf-8").lstrip().startswith('"""')]


def test_no_catch_all_modules():
    vague = {"utils", "util", "helpers", "helper", "common", "base", "misc", "manager", "shared"}

    assert not [_name(path) for path in SOURCES if path.stem.strip("_") in vague]


def test_only_files_that_others_import_from_list_names():
    """The underscore says what is private: `__all__` is for front doors, and for names that a file passes on."""
    passes_on = set(
        "_ending.py _metrics.py change.py dates.py errors.py estimate.py lazy_exports.py reader.py requests.py sums.py tokens.py".split()
    )
    found = [
        _name(path)
        for path in INSTALLED
        if path.name not in ("__init__.py", "tables.py", *passes_on)
        and (path.relative_to(ROOT).parts[0] != "exporters" or "/_" in _name(path))
        and re.search(r"^__all__ =", path.read_text("utf-8"), re.MULTILINE)
    ]

    assert found == []


MAY_CATCH_EXCEPTION = {"core/_runtime/guard.py", "exporters/_foreign.py", "metrics/protocol.py"}


def _is_broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(
        kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException"))
        for kind in kinds
    )


def test_exceptions_are_contained_in_one_place():
    """Broad handlers that do not raise again stand only where containing is the job."""
    found = {
        _name(path)
        for path in INSTALLED
        if not _name(path).startswith("cli/")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ExceptHandler)
        and _is_broad(node)
        and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
    }

    assert found <= MAY_CATCH_EXCEPTION


def test_forks_are_followed_in_one_place():
    """Only metrics/_process/fork.py registers with `os`: what registers there is never forgotten again."""
    found = [_name(p) for p in INSTALLED if "register_at_fork" in p.read_text("utf-8")]

    assert found == ["metrics/_process/fork.py"]


def test_rooms_are_imported_by_their_installed_names():
    wrong = re.compile(
        r"^\s*(from|import)\s+(core|cli|serve|fleet|testing|adapters|metrics|exporters)\b", re.MULTILINE
    )

    assert not [_name(p) for p in SOURCES if wrong.search(p.read_text(encoding="utf-8"))]


def test_the_library_needs_the_opentelemetry_api_only():
    """The SDK belongs to the application; only the command line and the server set one up."""
    sdk = re.compile(r"^\s*(from|import)\s+opentelemetry\.(sdk|exporter)\b", re.MULTILINE)
    found = [
        _name(path)
        for path in INSTALLED
        if not _name(path).startswith(("cli/", "serve/")) and sdk.search(path.read_text("utf-8"))
    ]

    # A provider of our own for a backend by name, where the process has none.
    found.remove("exporters/otel/_providers.py")
    # Types of theirs, for type checkers: at run time these two need no SDK.
    assert found == ["adapters/opentelemetry/_handler.py", "adapters/opentelemetry/_stripping.py"]
    for name in found:
        text = (ROOT / name).read_text("utf-8")
        assert len(sdk.findall(text)) == len(
            re.findall(r"if TYPE_CHECKING:\n    from opentelemetry\.sdk", text)
        )


def test_named_tuples_have_no_other_base():
    """Python 3.10 refuses one that is generic, too, where it is defined: nothing of its module is there then."""
    several = re.compile(r"^ *class \w+\((NamedTuple, |.*, NamedTuple\b)", re.MULTILINE)
    assert [_name(path) for path in INSTALLED if several.search(path.read_text("utf-8"))] == []


def test_emitted_names_are_spelled_in_one_place():
    """Attribute, event and instrument names stand in exporters/semconv.py."""
    spelled = re.compile(r"""["'](gen_ai\.|openinference\.|ragmeter\.(score|label|status|judge)\.)""")
    found = [
        _name(path)
        for path in (ROOT / "exporters").rglob("*.py")
        if path.name != "semconv.py" and spelled.search(path.read_text("utf-8"))
    ]

    assert found == []


def test_what_to_install_is_said_in_one_place():
    """`install_command` in metrics/errors.py knows the distribution's name; messages call it."""
    spelled = re.compile(r"ragmeter(-otel)?\[\{?[a-z]|pip install.*ragmeter")
    found = [_name(path) for path in INSTALLED if spelled.search(path.read_text(encoding="utf-8"))]

    assert found == []


def test_an_absent_package_is_one_message():
    """A chained traceback hides the line that mends it."""
    chained = re.compile(r"raise MissingDependencyError\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\) from (?!None)")
    assert [_name(path) for path in INSTALLED if chained.search(path.read_text("utf-8"))] == []


PACKAGES = (
    "pip install 'celery<6,>=5.5' 'opentelemetry-exporter-otlp-proto-grpc<2,>=1.37' "
    "'opentelemetry-exporter-otlp-proto-http<2,>=1.37' 'opentelemetry-sdk<2,>=1.37' 'rich>=13.7' 'typer>=0.19'"
)
"""Where nothing is left of what was installed: what the extras are made of, extras of ours among them."""


@pytest.mark.parametrize(
    ("told", "command"),
    [
        (
            {"url": f"file://{ROOT}/./%64ocs", "dir_info": {}},
            f"pip install 'ragmeter-otel[celery,x] @ file://{ROOT}/./%64ocs'",
        ),
        ({"url": f"file://{ROOT}/%64ocs", "dir_info": {"editable": True}}, f"-e '{ROOT}/docs[celery,x]'"),
        (
            {"url": f"file://{Path(__file__)}", "archive_info": {}},
            f"pip install 'ragmeter-otel[celery,x] @ file://{Path(__file__)}'",
        ),
        (
            {"url": "https://g/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "'ragmeter-otel[celery,x] @ git+https://g/r@abc'",
        ),
        ({}, PACKAGES),
        ({"url": "file:///gone.whl", "archive_info": {}}, PACKAGES),
        ({"url": "file:///gone", "dir_info": {"editable": True}}, PACKAGES),
    ],
)
def test_nobody_is_sent_to_an_index_that_has_not_our_package(monkeypatch, told, command):
    from ragmeter.metrics import errors

    monkeypatch.setattr(errors, "_origin", lambda: told)
    assert errors.install_command("celery", "x").endswith(command)


def test_json_lines_are_written_and_read_in_one_place():
    """`metrics/_files/json_lines.py`: what else parts text at U+2028, or fails at a lone surrogate, loses rows."""
    about_json = re.compile(r"^\s*(import json|from json)\b|json_lines", re.MULTILINE)
    others = re.compile(
        r"\.splitlines\(|\.readlines\(|json\.loads\(\w*line\)|map\(json\.loads"
        r"|json\.dumps\(.*\)(\.encode\(.*\))? \+ b?[\"']\\\\n"
    )
    found = [
        f"{_name(path)}: {hit[0]}"
        for path in INSTALLED
        if _name(path) != "metrics/_files/json_lines.py" and about_json.search(path.read_text("utf-8"))
        for hit in others.finditer(path.read_text("utf-8"))
    ]

    assert found == []


def test_every_step_of_the_check_is_a_commit_hook():
    import yaml

    steps = re.search(r"\|\| steps=\((.+)\)", (ROOT / ".ci/check").read_text(encoding="utf-8"))
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = config["repos"]

    assert steps is not None
    assert [hook["id"] for hook in repository["hooks"]] == steps[1].split()
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["entry"] == f"bash .ci/check .venv/bin {hook['id']}"


def test_nothing_is_left_unfinished():
    marks = re.compile(r"\b(TODO|FIXME|XXX)\b|NotImplementedError")

    assert not [_name(p) for p in INSTALLED if marks.search(p.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("room", ["adapters", "cli", "fleet", "metrics", "exporters", "serve", "testing"])
def test_every_room_says_how_to_add_to_it(room):
    readme = ROOT / room / "README.md"

    assert readme.exists()
    assert "how to add" in readme.read_text(encoding="utf-8").lower()


def _missing_of(name: str, kind: type, texts: dict[str, str]) -> list[str]:
    """Say in plain words what a metric of the table in metrics/registry.py still lacks."""
    cls, module = kind.__name__, kind.__module__.removeprefix("ragmeter.metrics.")
    missing = []
    if kind.name != name:
        missing.append(f"metrics/registry.py: the line is called {name!r}, the class's name {kind.name!r}")
    if not re.search(rf"\b{cls}\b", texts["metrics/__init__.py"].split("__all__ =")[0]):
        missing.append(f"metrics/__init__.py: under TYPE_CHECKING, `from .{module} import {cls}`")
    if f'"{cls}"' not in texts["metrics/__init__.py"].split("__all__ =")[1]:
        missing.append(f'metrics/__init__.py: "{cls}" in __all__')
    if f"`{name}`" not in texts["metrics/README.md"]:
        missing.append(f"metrics/README.md: a row for `{name}` in its table")
    if f"`{name}`" not in texts["docs/metrics.md"]:
        missing.append(f"docs/metrics.md: a section or row for `{name}`")
    if not re.search(rf"\b{cls}\b|\"{name}\"", texts["tests/metrics"]):
        missing.append(f"tests/metrics: a test of {cls}")
    return missing


def test_every_built_in_metric_is_named_where_people_look():
    """What follows a line in metrics/registry.py; the failure lists what to add, and where."""
    from ragmeter.metrics import registry

    pages = ("metrics/__init__.py", "metrics/README.md", "docs/metrics.md")
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in pages}
    texts["tests/metrics"] = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "tests/metrics").rglob("test_*.py")
    )
    missing = [line for name in registry._HOMES for line in _missing_of(name, registry._builtin(name), texts)]

    assert not missing, "\n" + "\n".join(missing)


def test_decisions_stand_by_topic_and_are_few():
    """At most 80, each in the index once: dates, what holds, why, what was rejected, no dead path."""
    folder = ROOT / "docs" / "decisions"
    files = sorted(path for path in folder.iterdir() if path.name != "README.md")
    index = (folder / "README.md").read_text(encoding="utf-8")

    assert len(files) <= 80
    assert sorted(re.findall(r"^- \[.+\]\((.+)\): .", index, re.MULTILINE)) == [p.name for p in files]
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert re.match(r"# .+\n\n\d{4}-\d\d-\d\d(, \d{4}-\d\d-\d\d)*\n\n", text), path.name
        parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert parts in (["What holds", "Why"], ["What holds", "Why", "Rejected"]), path.name
        named = re.findall(r"`((?:[\w-]+/)+[\w-]+\.\w+)`", text)
        assert not [one for one in named if not (ROOT / one).exists()], path.name


def test_every_page_of_the_guide_is_on_the_site():
    pages = ast.parse((ROOT / "docs" / "pages.py").read_text(encoding="utf-8"))
    (guide,) = [
        ast.literal_eval(node.value)
        for node in pages.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "GUIDE"
    ]

    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= set(guide)
