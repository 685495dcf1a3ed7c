"""The workflow of examples/ci: every command and option exists, and its steps run as they stand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from ragmeter.cli.app import app

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / "examples" / "ci" / "quality.yml"


def _steps():
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    return {step["name"]: step["run"] for step in workflow["jobs"]["quality"]["steps"] if "run" in step}


def test_the_install_step_names_extras_that_exist():
    extras = _steps()["Install"].split("[")[1].split("]")[0].split(",")
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert all(f"\n{extra} = [" in project for extra in extras)


def test_every_option_exists():
    commands = typer.main.get_command(app).commands
    known = {
        name
        for command in (commands["evaluate"], commands["golden"].commands["check"])
        for option in command.params
        for name in option.opts
    }
    used = {
        word.partition("=")[0]
        for run in _steps().values()
        if "ragmeter " in run
        for word in run.split()
        if word.startswith("--")
    }
    assert used
    assert used <= known


ROWS = [
    {
        "question": f"How tall is tower {n}?",
        "contexts": [f"Tower {n} is 21 m tall."],
        "answer": f"Tower {n} is 21 m tall.",
        "reference_contexts": [f"Tower {n} is 21 m tall."],
        "context_ids": [str(n)],
    }
    for n in range(120)  # so many that a change of 0.03 can be told
]
TEST = """
import json
from ragmeter.testing import assert_each

def test_it(ragmeter_meter, ragmeter_results):
    for line in open("answers.jsonl"):
        row = json.loads(line)
        truth = {"contexts": row["reference_contexts"]}
        with ragmeter_meter.request(row["question"], reference=truth) as request:
            request.retrieved(row["contexts"])
            request.answered(row["answer"])
    assert_each(ragmeter_results, "recall>=0.7")
"""


def test_the_steps_run_and_a_retriever_that_got_worse_fails_them(tmp_path):
    steps = {name: run for name, run in _steps().items() if name != "Install"}

    def write(name, rows):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def sh(run):
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", run],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip

    summary = tmp_path / "summary.md"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(summary),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p ragmeter.testing.plugin",
    }
    write("answers.jsonl", ROWS)
    (evaluates,) = [run for run in steps.values() if "ragmeter evaluate" in run]
    first = evaluates.replace("--baseline baseline-scores.jsonl", "")
    done = sh(first.replace("scores.jsonl", "baseline-scores.jsonl"))
    assert done.returncode == 0, done.stderr
    assert summary.read_text().startswith("## ragmeter evaluate: pass\n")
    summary.unlink()
    write("answers.jsonl", [row | {"contexts": ["Boats are blue."]} for row in ROWS])
    write(
        "golden.jsonl",
        [
            {"question": r["question"], "context_ids": r["context_ids"], "contexts": r["reference_contexts"]}
            for r in ROWS
        ],
    )
    write("chunks.jsonl", [{"id": r["context_ids"][0], "text": r["reference_contexts"][0]} for r in ROWS])
    (tmp_path / "test_app.py").write_text(TEST)
    codes = {name: sh(run).returncode for name, run in steps.items()}
    assert list(codes.values()) == [0, 1, 1], codes
    assert summary.read_text().startswith("## ragmeter evaluate: fail\n")
    assert (tmp_path / "quality.xml").exists()
    assert (tmp_path / "scores.jsonl").exists()
