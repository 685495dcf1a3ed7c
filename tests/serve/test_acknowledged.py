"""A 200 means that the request is found later, or that the operator is told which are not: the default start, and a spool alone.

The other columns of the table are in ``tests/services/test_acknowledged.py``.
"""

import pytest
from acknowledged import FAULTS, Setup, SpoolAlone, begins, holds, set_up


@pytest.mark.parametrize("tried", [holds, begins])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", [Setup, SpoolAlone], ids=["default", "spool"])
def test_acknowledged_is_found_or_the_operator_is_told(kind, fault, tried, tmp_path):
    with set_up(kind, tmp_path) as setup:
        tried(setup, fault)
