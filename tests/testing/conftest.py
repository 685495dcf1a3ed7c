"""What these tests decide about quality is about made-up rows: nobody is told of it at the end of the run."""

import pytest

from ragmeter.testing._session import session


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call():
    heard, session.listener = session.listener, None
    try:
        return (yield)
    finally:
        session.listener = heard
