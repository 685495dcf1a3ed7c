"""What Ray writes into is removed, also that of a process that was killed, and never that of one that lives."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from ragmeter.metrics import ConfigurationError

pytest.importorskip("fcntl")
_ray_data = pytest.importorskip("ragmeter.fleet._ray_data")

PROGRAM = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from ragmeter.fleet._ray_data import _Folder
folder = _Folder()
(folder.path / "spilled").write_text("texts")
print(folder.path, flush=True)
sys.stdin.read()
"""


def test_a_killed_runs_folder_is_removed_by_the_next_and_a_living_ones_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        left = Path(other.stdout.readline().strip())
        mine = _ray_data._Folder()
        assert left.exists(), "its process lives"
        mine.remove()
        other.send_signal(signal.SIGKILL)
        other.wait(60)
    assert left.exists()
    again = _ray_data._Folder()
    assert again.path.stat().st_mode & 0o777 == 0o700
    assert not left.exists()
    again.remove()
    assert not list(tmp_path.iterdir())


def test_a_ray_that_does_not_start_is_one_sentence(monkeypatch, tmp_path):
    """As it does on a machine without a processor to spare: it raises a bare `Exception`."""

    def init(**given):
        raise Exception("The node timed out during startup. This could happen because ...")

    fake = SimpleNamespace(init=init, shutdown=lambda: None)
    monkeypatch.setattr(_ray_data, "_ray", lambda: fake)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    others = {name: value for name, value in os.environ.items() if name != _ray_data.ADDRESS}
    monkeypatch.setattr(os, "environ", others)  # Ray's own settings are set there
    with (
        pytest.raises(ConfigurationError, match=r"Ray did not start \(The node timed out during st"),
        _ray_data.cluster(1),
    ):
        pass
    assert not list(tmp_path.iterdir())
