"""A look at what a forked child sees."""

import os
from collections.abc import Callable

__all__ = ["in_child"]


def in_child(look: "Callable[[], object]") -> str:
    """Fork, and return what `look` returns in the child, as text; empty if it raised."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, str(look()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    try:
        os.waitpid(pid, 0)
        return os.read(reading, 4096).decode()
    finally:
        os.close(reading)
