"""Calls the functions that `cli.program` names, before the first line of an unchanged program.

Python imports a module of this name when it starts. If the program's environment has a `sitecustomize` too,
that one is imported first. Nothing else of ragmeter is imported unless it is named.
"""

import os
import sys
from importlib import import_module


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
            try:
                begun = import_module(module)
            except ModuleNotFoundError as error:
                _leave_out(module.partition(".")[0], error)
            else:
                getattr(begun, function)()


def _leave_out(package: str, error: ModuleNotFoundError) -> None:
    """Go on in a process of an environment without the package; only the program itself says so."""
    if error.name != package:
        raise error
    if os.environ.get("_RAGMETER_PROGRAM") == str(os.getpid()) and sys.stderr is not None:
        sys.stderr.write(f"{package} is not installed for {sys.executable}: nothing of this program is seen\n")


_begin()  # Python prints an exception and continues
