"""A 200 means that the request is found later, or that the operator is told which are not: the default start, and a spool alone.

The other columns of the table are in ``tests/services/test_acknowledged.py``.
"""

import pytest
from acknowledged import FAULTS, Setup, SpoolAlone, holds, read_only, set_up, traces_in
from served import until


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", [Setup, SpoolAlone], ids=["default", "spool"])
def test_acknowledged_is_found_or_the_operator_is_told(kind, fault, tmp_path):
    with set_up(kind, tmp_path) as setup:
        holds(setup, fault)


def test_a_store_that_may_not_be_written_at_the_start_is_said(tmp_path):
    """A file that was opened stays writable, so a store in one is read-only from the start or not at all."""
    with set_up(Setup, tmp_path) as setup:
        setup.start()
        before = setup.send(range(1, 4))
        until(lambda: setup.found() == before)
        setup.stop()
        with read_only(setup.disk / "ragmeter" / "serve.db"):
            setup.start()
            assert setup.health()["durable"] is False
            assert "cannot be used (attempt to write a readonly database)" in setup.said()
            meanwhile = setup.send(range(11, 14))
            assert len(meanwhile) == 3
            setup.stop()
        assert meanwhile <= set().union(*map(traces_in, setup.endpoint.bodies))
        setup.start()
        assert setup.health()["durable"] is True
        after = setup.send(range(21, 24))
        until(lambda: setup.found() == before | after)


def test_a_start_without_room_ends_with_the_reason(tmp_path):
    """Else it would acknowledge, after a kill on a full disk, what goes with it."""
    with set_up(Setup, tmp_path) as setup:
        setup.start()
        acknowledged = setup.send(range(1, 4))
        with setup.full():
            setup.server.process.kill()
            setup.stop()
            with pytest.raises(AssertionError, match=r"serve.db cannot be used \(.*full\)"):
                setup.start()
        setup.start()
        until(lambda: setup.found() == acknowledged)
