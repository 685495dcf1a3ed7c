"""Memory that was freed is the system's again, and what nobody asked for is not loaded."""

import platform
import textwrap

import pytest
from python_process import run_python

from ragmeter.serve._release_memory import give_back_freed


def said(code):
    done = run_python("-c", textwrap.dedent(code), timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps and gives back")
def test_pages_below_what_still_lives_are_given_back():
    before, after = said(
        """
        from pathlib import Path
        from ragmeter.serve._release_memory import give_back_freed

        def resident():
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

        many = [bytes(2_000) for _ in range(20_000)]
        many[:-1] = []
        before = resident()
        assert give_back_freed()
        print(before, resident())
        """
    )

    assert int(before) - int(after) > 20e6


def test_elsewhere_nothing_happens():
    assert give_back_freed() in (True, False)


def test_clients_that_nothing_is_sent_with_are_not_loaded():
    """Some 20 MB: httpx sends spans and log records, requests sends metrics."""
    [loaded] = said(
        """
        import sys
        from ragmeter import RagMeter
        from ragmeter.serve import ServeOptions, Server
        from ragmeter.serve.store import StoreOptions

        server = Server(
            ServeOptions(http_port=0, grpc_port=0, store=StoreOptions()),
            meter=RagMeter(metrics=["retrieval_health"], exporters=[]),
        )
        server.start()
        server.stop(10)
        print(sorted({"httpx", "requests"} & set(sys.modules)))
        """
    )

    assert loaded == "[]"
