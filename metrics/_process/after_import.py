"""Call a function once a module was imported, by whatever part of the process.

`ragmeter.adapters` attaches to a framework this way: importing one that the application does not use would cost
it seconds and a hundred megabytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def after_import(module: str, function: Callable[[], object]) -> None:
    """Call a function after the first import of a module: at once, if the module is imported already.

    It is called in the importing thread, for one import once however often it was given, and must not raise.
    A module that a finder in front of this one finds is reported at the end of the next module's import.

    Args:
        module: The module's full name.
        function: Takes no arguments.
    """
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    functions = _finder.awaited.setdefault(module, [])
    if function not in functions:
        functions.append(function)
    if module in sys.modules:  # perhaps only since the last line, by another thread
        _finder.report(module)


def unnoticed_imports() -> list[str]:
    """Return the awaited modules that a finder in front has imported unnoticed so far.

    One that is lazy counts once its execution has begun.
    """
    return [name for name in tuple(_finder.awaited) if type(sys.modules.get(name)) is ModuleType]


class _Finder:
    """Finds awaited modules as the other finders do, with a loader that reports the end of their import."""

    def __init__(self) -> None:
        self.awaited: dict[str, list[Callable[[], object]]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that is awaited or comes after one; None: of others, or not found."""
        if fullname not in self.awaited and not self.imported():
            return None
        for finder in [one for one in sys.meta_path if one is not self and hasattr(one, "find_spec")]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None

    def imported(self) -> list[str]:
        """Return the awaited modules that are imported. A finder does not report them: the calls may import."""
        return [name for name in tuple(self.awaited) if _is_imported(name)]

    def report(self, module: str) -> None:
        """Call the functions that wait for a module."""
        for function in self.awaited.pop(module, ()):
            function()


class _Loader:
    """A module's own loader, until the module is executed."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        made: ModuleType | None = self._own.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, and call the functions that wait for it."""
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)
        for name in (module.__name__, *_finder.imported()):
            _finder.report(name)


def _is_imported(name: str) -> bool:
    module = sys.modules.get(name)
    if not isinstance(module, ModuleType):
        return False
    # Reading `module.__spec__` would execute a lazy module; whether that is at its end, it does not say.
    spec = ModuleType.__getattribute__(module, "__spec__")
    return not getattr(spec, "_initializing", False) and getattr(spec, "loader_state", None) is None


_finder = _Finder()
