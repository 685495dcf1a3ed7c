"""Isolation of these tests: quality decisions on their made-up rows are not reported at the end of the run."""

import pytest

from ragmeter.testing._session import session


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call():
    heard, session.listener = session.listener, None
    try:
        return (yield)
    finally:
        session.listener = heard
