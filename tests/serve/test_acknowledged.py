"""A 200 means that the request is found later, or that the operator is told which are not: the default start, and a spool alone.

The other columns of the table are in ``tests/services/test_acknowledged.py``.
"""

from itertools import product

import pytest
from acknowledged import FAULTS, Setup, SpoolAlone, begins, holds, set_up

SHORT = {
    (Setup, holds): ("killed", "disk full", "refused for good"),
    (Setup, begins): ("store read-only",),
    (SpoolAlone, holds): ("refused for a while",),
    (SpoolAlone, begins): ("disk full",),
}
"""Each way to start with some faults, most of them once; the whole table is slow."""


@pytest.mark.parametrize(
    ("kind", "tried", "fault"),
    [
        pytest.param(
            *cell,
            fault,
            id=f"{cell[0].__name__}-{cell[1].__name__}-{fault}",
            marks=() if fault in SHORT[cell] else pytest.mark.slow,
        )
        for cell, fault in product(SHORT, FAULTS)
    ],
)
def test_acknowledged_is_found_or_the_operator_is_told(kind, fault, tried, tmp_path, warm):
    def popen(command, *, stdout, stderr, env):
        return warm.start(
            "from ragmeter.cli.main import run; run()", *command[3:], cwd=tmp_path, env=env, stderr=stderr.name
        )

    with set_up(kind, tmp_path, popen=popen) as setup:
        tried(setup, fault)
