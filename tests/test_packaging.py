"""What is installed, and what is not."""

import importlib
import importlib.util
import itertools
import re
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from python_process import run_python

ROOT = Path(__file__).resolve().parent.parent
ROOMS = {
    "core": "ragmeter",
    "cli": "ragmeter/cli",
    "adapters": "ragmeter/adapters",
    "fleet": "ragmeter/fleet",
    "testing": "ragmeter/testing",
    "exporters": "ragmeter/exporters",
    "metrics": "ragmeter/metrics",
    "serve": "ragmeter/serve",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Build the wheel from a clean copy, as a release does."""
    clean = tmp_path_factory.mktemp("clean")
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in tracked:
        source = ROOT / name
        if source.is_file():
            target = clean / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-Im", "pip", "wheel", "-q", "--no-deps", "-w", str(out), str(clean)], check=True
    )
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_every_module_and_nothing_else(wheel):
    """Every .py of the rooms ships under ragmeter/, and only that."""
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    expected = {
        f"{package}/{path.relative_to(ROOT / room).as_posix()}"
        for room, package in ROOMS.items()
        for path in (ROOT / room).rglob("*.py")
        if "__pycache__" not in path.parts
    }

    assert {name for name in names if name.endswith(".py")} == expected
    assert {name.split("/")[0] for name in names} == {"ragmeter"}
    assert "ragmeter/py.typed" in names
    assert not [name for name in names if name.endswith("README.md")]


def test_every_prompt_and_data_file_ships(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    prompts = {
        f"ragmeter/metrics/judged/prompts/{p.name}" for p in (ROOT / "metrics/judged/prompts").glob("*.md")
    }
    corpus = {
        f"ragmeter/cli/demo/corpus/{path.relative_to(ROOT / 'cli/demo/corpus').as_posix()}"
        for path in (ROOT / "cli/demo/corpus").rglob("*")
        if path.suffix in (".md", ".jsonl")
    }

    assert prompts <= names
    assert corpus <= names


@pytest.mark.parametrize("room", [*ROOMS, "tests", "examples", "benchmarks", "docs", "prompts"])
def test_no_room_is_importable_under_its_own_name(room):
    done = run_python("-Ic", f"import importlib.util as u; print(u.find_spec({room!r}))", cwd="/", check=True)

    assert done.stdout == "None\n"


def test_the_version_stands_once_and_heads_the_changelog():
    # A regular expression: tomllib came with Python 3.11.
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = re.search(r'^version = "(.+)"$', project, re.MULTILINE)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[?(\d+\.\d+\.\d+)", changelog, re.MULTILINE)

    assert newest is not None
    assert declared is not None
    assert version("ragmeter-otel") == declared.group(1) == newest.group(1)


def test_type_information_is_installed():
    spec = importlib.util.find_spec("ragmeter")

    assert spec is not None
    assert spec.submodule_search_locations is not None
    assert any(Path(place, "py.typed").exists() for place in spec.submodule_search_locations)


def test_every_dependency_whose_private_parts_are_used_has_an_upper_bound():
    """A major release elsewhere must not break an installation of ours."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = ("pydantic", "opentelemetry-", "rapidfuzz", "openai", "langchain-core", "llama-index-core")
    named = [*project["dependencies"]]
    for extra, requirements in project["optional-dependencies"].items():
        if extra != "test":
            named += requirements
    unbounded = [one for one in named if one.startswith(wanted) and "<" not in one]
    assert not unbounded


@pytest.mark.skipif(sys.version_info < (3, 11), reason="benchmarks need Python 3.11")
def test_what_receives_and_shows_adds_at_most_six_distributions(monkeypatch):
    """gRPC comes with `otlp`, the client of webhooks with `sinks`: what `serve` adds is Starlette, uvicorn and Jinja2."""
    import tomllib

    for wanted in ("starlette", "uvicorn", "jinja2", "grpcio", "typer", "httpx"):
        pytest.importorskip({"grpcio": "grpc"}.get(wanted, wanted))
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    footprint = importlib.import_module("footprint")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    def closure(extra):
        named = footprint.spelled_out([extra], project["optional-dependencies"])
        return set(footprint.installed([*project["dependencies"], *named]))

    without = closure("ragmeter-otel[cli,otlp,sinks]")
    added = closure("ragmeter-otel[serve]") - without
    assert {"grpcio", "httpx"} <= without
    assert {"starlette", "uvicorn", "jinja2"} <= added
    assert len(added) <= 6, sorted(added)


def test_what_is_said_to_be_supported_is_what_is_declared_and_tested():
    """docs/support.md, the extras' bounds, and the lanes that try the oldest and the newest."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = " ".join([*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())])
    rows = re.findall(
        r"^\| ([\w. -]+?)(?: \(.*?\)| API and SDK)? \| ([\d.]+) \| ([\d.x]+) \|",
        (ROOT / "docs" / "support.md").read_text("utf-8"),
        re.MULTILINE,
    )
    said = {name.lower().replace("opentelemetry", "opentelemetry-sdk"): low for name, low, _ in rows}

    low, high = rows[0][1:]
    assert project["requires-python"] == f">={low}"  # newer ones are not tried, and not refused
    assert f"Programming Language :: Python :: {high}" in project["classifiers"]
    assert set(said) == {
        "python",
        "langchain-core",
        "langgraph",
        "llama-index-core",
        "opentelemetry-sdk",
        "pydantic",
        "openai",
    }
    for name in said.keys() - {"python"}:
        assert f"{name}>={said[name]}" in named, name
    for framework in ("langchain", "llama-index"):
        oldest = f"tests/adapters/requirements-{framework}-oldest.txt"
        assert f"{framework}-core=={said[f'{framework}-core']}." in (ROOT / oldest).read_text("utf-8")


def test_the_citation_names_this_version():
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))

    assert cited["version"] == version("ragmeter-otel")
    assert {"cff-version", "message", "title", "authors", "license", "date-released"} <= set(cited)


def test_every_issue_form_asks_for_what_is_needed_to_help():
    yaml = pytest.importorskip("yaml")
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) == 4
    for path in forms:
        form = yaml.safe_load(path.read_text("utf-8"))
        if path.stem == "config":
            continue
        assert {"name", "description", "body"} <= set(form)
        ids = [part["id"] for part in form["body"]]
        assert len(ids) == len(set(ids))
        assert any(part.get("validations", {}).get("required") for part in form["body"])


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_the_first_installation_that_a_page_names_brings_what_its_commands_need(page):
    """`ragmeter run`, named next, shows the requests on the page: the extra `serve`, which brings `cli`."""
    text = (ROOT / page).read_text("utf-8")
    named = re.search(r'pip install "ragmeter-otel\[([\w,-]+)\] @', text)
    assert named is not None
    assert "ragmeter run" in text[named.end() :]
    assert {"langchain", "serve"} <= set(named[1].split(","))
