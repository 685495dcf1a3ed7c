"""Begins what `cli.program` asked for, before the first line of a program that is run unchanged.

Python imports a module of this name from the path when it starts.  A module of that name which the program's
environment has itself is imported first, as without us.  Nothing of ours is imported unless it was asked for.
"""

import os
import sys
from importlib import import_module

__all__: list[str] = []


def _begin() -> None:
    here = os.path.realpath(os.path.dirname(__file__))  # noqa: PTH120 -- pathlib is not loaded for this
    sys.path[:] = [place for place in sys.path if os.path.realpath(place) != here]
    ours = sys.modules.pop(__name__)
    try:
        import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules[__name__] = ours
    finally:
        for target in filter(None, os.environ.get("RAGMETER_STARTUP", "").split(",")):
            module, _, function = target.partition(":")
            getattr(import_module(module), function)()


_begin()  # whatever it raises, Python prints and goes on
