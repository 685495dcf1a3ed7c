"""What a message says to install is installed by the words it uses, from wherever ragmeter came."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.service
SKIPPED = shutil.ignore_patterns(".git", ".venv*", "build", "*.egg-info", "__pycache__", "tests")


@pytest.mark.parametrize("form", ["checkout", "editable", "wheel", "wheel that is gone"])
def test_the_command_that_a_message_names_mends_it(form, tmp_path):
    source, place = tmp_path / "my checkout", tmp_path / "venv"
    shutil.copytree(ROOT, source, ignore=SKIPPED)
    venv.create(place, with_pip=True)
    bin_of = place / ("Scripts" if os.name == "nt" else "bin")
    environment = {**os.environ, "PATH": f"{bin_of}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, shell=True, env=environment, cwd=tmp_path, check=False,
            capture_output=True, text=True,
        )  # fmt: skip

    wheels = tmp_path / "wheels"
    install = {
        "checkout": f"pip install -q '{source}'",
        "editable": f"pip install -q -e '{source}'",
        "wheel": f"pip wheel -q --no-deps -w '{wheels}' '{source}' && pip install -q '{wheels}'/*.whl",
    }[form.removesuffix(" that is gone")]
    done = run(install)
    assert done.returncode == 0, done.stderr
    if form.endswith("gone"):
        shutil.rmtree(wheels)

    lacking = run("ragmeter --version")
    assert lacking.returncode == 2
    assert "Traceback" not in lacking.stderr
    said, _, command = lacking.stderr.strip().partition(": ")
    assert said == "ragmeter's command line needs the package 'typer'"

    mended = run(f"{command} --quiet")
    assert mended.returncode == 0, (command, mended.stderr)
    assert run("ragmeter --version").stdout.startswith("ragmeter "), sys.version
