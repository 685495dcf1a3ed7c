"""The API answers as ``/api/openapi.json`` says it does, whatever it is asked: schemathesis, which makes the questions of the description."""

import os
import subprocess

import pytest
from acknowledged import Setup, set_up
from served import until

PROGRAM = os.environ.get("RAGMETER_TEST_SCHEMATHESIS")


@pytest.mark.skipif(not PROGRAM, reason="RAGMETER_TEST_SCHEMATHESIS names no schemathesis; see .ci/services")
def test_answers_are_those_that_the_description_promises(tmp_path):
    """But one: that ``since`` lies before ``until`` cannot be said there, so a valid question may be refused."""
    with set_up(Setup, tmp_path) as setup:
        setup.start()
        sent = setup.send(range(1, 30))
        until(lambda: setup.found() >= sent)
        done = subprocess.run(
            [
                *(PROGRAM, "run", f"{setup.server.http}/api/openapi.json", "--no-color"),
                *("--max-examples", "20", "--generation-deterministic"),
                *("--exclude-checks", "positive_data_acceptance"),
            ],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
