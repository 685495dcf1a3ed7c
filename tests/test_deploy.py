"""The files of examples/deploy say what ragmeter knows: every command, option and variable in them exists."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from ragmeter.cli.app import app
from ragmeter.settings.config import Settings

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "examples" / "deploy"
FILES = sorted(DEPLOY.glob("*.yaml"))
MANIFESTS = sorted(DEPLOY.glob("kubernetes-*.yaml"))


def containers():
    """Yield the image, the arguments and the port of probes of everything that is started."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    for service in compose["services"].values():
        yield service.get("image", "ragmeter"), service.get("command", [])
    for path in MANIFESTS:
        for manifest in yaml.safe_load_all(path.read_text("utf-8")):
            for one in manifest["spec"].get("template", {}).get("spec", {}).get("containers", []):
                yield one["image"], one.get("args", [])


def test_every_command_and_option_exists():
    commands = typer.main.get_command(app).commands
    seen = set()
    for image, arguments in containers():
        if "ragmeter" in image:
            command, *options = arguments
            known = {name for option in commands[command].params for name in option.opts}
            given = {one.partition("=")[0] for one in options if one.startswith("--")}
            assert given <= known, (command, given - known)
            seen.add(command)
    assert seen == {"serve", "worker"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_variable_exists(path):
    known = {f"RAGMETER_{name.upper()}" for name in Settings.model_fields}
    sources = [path for room in ("cli", "core", "fleet", "serve") for path in (ROOT / room).rglob("*.py")]
    for source in sources:
        known |= set(re.findall(r"\bRAGMETER_[A-Z_]+\b", source.read_text("utf-8")))
    assert set(re.findall(r"\bRAGMETER_[A-Z_]+\b", path.read_text("utf-8"))) <= known


def test_one_queue_on_disk_waits_for_all_servers_and_asks_them_calmly():
    """Servers' own queues would lock one file, and the balancing exporter has no intervals of its own."""
    config = yaml.safe_load((DEPLOY / "collector.yaml").read_text("utf-8"))
    balancer = config["exporters"]["load_balancing"]
    assert balancer["sending_queue"]["storage"] in config["service"]["extensions"]
    assert balancer["protocol"]["otlp"]["sending_queue"] == {"enabled": False}
    assert set(balancer["retry_on_failure"]) >= {
        "initial_interval", "max_interval", "multiplier", "randomization_factor",
    }  # fmt: skip


def test_the_image_has_every_extra_that_its_commands_need():
    extras = re.search(r"ragmeter-otel\[([a-z,]+)\]", (DEPLOY / "Dockerfile").read_text("utf-8"))[1]
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    for extra in extras.split(","):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE)
    everything = "".join(path.read_text("utf-8") for path in FILES)
    assert ("--kafka" in everything) == ("kafka" in extras)
    assert ("postgresql://" in everything) == ("postgresql" in extras)


def test_the_unit_is_understood_by_systemd_and_starts_what_there_is(tmp_path):
    """Its program is not installed here; everything else is as systemd reads it."""
    unit = (DEPLOY / "ragmeter.service").read_text("utf-8")
    program, command, *options = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1].split()
    known = typer.main.get_command(app).commands[command].params
    assert {one for one in options if one.startswith("--")} <= {
        name for option in known for name in option.opts
    }
    assert f"python3 -m venv {Path(program).parents[1]}" in unit
    (tmp_path / "ragmeter.service").write_text(unit.replace(f"={program} ", "=/bin/true "))
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd is not installed here")
    said = subprocess.run(
        [tool, "verify", tmp_path / "ragmeter.service"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (said.returncode, said.stdout + said.stderr) == (0, "")


def test_no_file_holds_a_secret():
    for path in FILES:
        for line in path.read_text("utf-8").splitlines():
            if re.search(r"password|token", line, re.IGNORECASE) and not line.startswith("#"):
                assert re.search(r"\$\{|key: token|name: |choose", line), line
