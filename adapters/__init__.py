"""Sources of requests: one package per framework, each converting its runs to `RagRun`s.

`instrument` attaches every installed framework for the whole process, without changing the application's
code; `uninstrument` detaches them. Importing this package imports no framework.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._process import fork
from ragmeter.metrics._process.after_import import after_import
from ragmeter.metrics.errors import install_command

if TYPE_CHECKING:
    from ragmeter import RagMeter

__all__ = ["instrument", "uninstrument"]

logger = logging.getLogger("ragmeter")


class Framework(NamedTuple):
    """A framework, and ragmeter's module for it."""

    name: str
    """Its name for people."""
    distribution: str
    """The distribution that installs it."""
    probe: str
    """The module that shows whether it is installed."""
    core: str
    """The module whose import has imported all that `adapter` needs of it: attaching right afterwards imports
    nothing that another thread may be importing."""
    adapter: str
    """ragmeter's module that attaches to it by ``attach_globally(handler)``, with a handler of its class
    ``HANDLER``, and ``detach_globally()``."""


FRAMEWORKS: Mapping[str, Framework] = {
    "langchain": Framework(
        "LangChain",
        "langchain-core",
        "langchain_core",
        "langchain_core.runnables.base",
        "ragmeter.adapters.langchain._handler",
    ),
    "llama_index": Framework(
        "LlamaIndex",
        "llama-index-core",
        "llama_index.core",
        "llama_index.core",
        "ragmeter.adapters.llama_index._handler",
    ),
}

SHARED_OPTIONS = frozenset({"name", "retrieval_tools", "retrieval_functions"})
"""Options of the handlers that mean the same in every framework."""

_lock = fork.reentrant_lock()
"""Held while a meter is created, which may detach attached frameworks."""
_attached: set[str] = set()
_awaited: dict[str, RagMeter] = {}
"""Frameworks to attach when they are imported, each with its meter."""
_made_here: list[RagMeter] = []
_default: list[RagMeter | None] = [None]


def default_meter() -> RagMeter | None:
    """Return the meter given to `instrument`, for handlers without a meter; or None."""
    return _default[0]


def forget_default() -> None:
    """Stop using the meter as the default of later handlers; attached ones keep it."""
    _default[0] = None


def check_meter(meter: object) -> None:
    """Reject an object that cannot accept requests, where the user can still see the error.

    Raises:
        ConfigurationError: It is not a meter.
    """
    if isinstance(meter, type) or not hasattr(meter, "port"):
        raise ConfigurationError(f"meter is {meter!r}; pass a RagMeter object: RagMeter()")


def instrument(
    meter: RagMeter | None = None, *, frameworks: Iterable[str] | None = None, **options: Any
) -> RagMeter:
    """Score every RAG request of this process, in every installed framework.

    One that the process has not imported yet is attached at its import; options import it now, to check them.
    Calling it again replaces the meter. A request to which a handler of the same meter is
    attached by hand still counts once.

    Args:
        meter: Receives the requests. None: the one in use, else `RagMeter.from_env()`.
        frameworks: Names among ``langchain`` and ``llama_index``. None: those that are installed.
        options: ``name="support-bot"``, ``retrieval_tools=["search_*"]`` and ``retrieval_functions=[...]``
            for all of them; other options of a framework's handler under the framework's name, e.g.
            ``llama_index={"text_mode": "none"}``. Where only one framework is attached, its options can be
            given directly, e.g. ``text_mode="none"``.

    Returns:
        The meter.

    Raises:
        ConfigurationError: A framework's name is unknown, or it is not installed; an option is not
            the handler's, or has a wrong value. Nothing is attached or changed then.
    """
    names = _selected_frameworks(frameworks)
    if not names:
        logger.warning(
            "ragmeter: instrument() attaches nothing: neither LangChain nor LlamaIndex is installed. Spans of "
            "others: RagMeterSpanProcessor(meter).attach(), from ragmeter.adapters.opentelemetry"
        )
    later = [] if options else [name for name in names if FRAMEWORKS[name].core not in sys.modules]
    modules = {name: import_module(FRAMEWORKS[name].adapter) for name in names if name not in later}
    chosen = options_by_framework({name: module.HANDLER for name, module in modules.items()}, options)
    with _lock:
        made: RagMeter | None = None
        meter = default_meter() if meter is None else meter
        if meter is None:
            from ragmeter import RagMeter  # noqa: PLC0415 -- importing adapters stays cheap

            meter = made = RagMeter.from_env()
        try:
            # All of them first: a wrong value must not leave half of the frameworks attached.
            handlers = {name: module.HANDLER(meter, **chosen[name]) for name, module in modules.items()}
            if later:
                _check_defaults(meter)
        except BaseException:
            if made is not None:
                made.shutdown(timeout_s=0)
            raise
        if made is not None:
            _made_here.append(made)
        _default[0] = meter
        for name, module in modules.items():
            module.attach_globally(handlers[name])
            _attached.add(name)
            _awaited.pop(name, None)
        for name in later:
            _awaited[name] = meter
    for name in later:
        after_import(FRAMEWORKS[name].core, _ON_IMPORT[name])
    return meter


def _check_defaults(meter: object) -> None:
    """Reject what a handler without options would reject."""
    from .reading.results import as_tools  # noqa: PLC0415 -- importing adapters stays cheap

    check_meter(meter)
    for option in ("retrieval_tools", "retrieval_functions"):
        as_tools((), option)


def _attach_imported(name: str) -> None:
    """Attach an awaited framework. Never raises: it is called within an import of the application."""
    from ragmeter._runtime.guard import Guard, front_door  # noqa: PLC0415 -- importing adapters stays cheap

    with Guard(f"{name}.attach", front_door):
        if name not in _awaited:
            return
        module = import_module(FRAMEWORKS[name].adapter)
        with _lock:
            meter = _awaited.pop(name, None)
            if meter is not None:
                module.attach_globally(module.HANDLER(meter))
                _attached.add(name)


_ON_IMPORT = {name: partial(_attach_imported, name) for name in FRAMEWORKS}


def uninstrument(*, frameworks: Iterable[str] | None = None, timeout_s: float = 5.0) -> None:
    """Detach the frameworks attached by `instrument`, and shut down a meter that it created.

    Args:
        frameworks: Names; None: all.
        timeout_s: Seconds that the shutdown of such a meter may take.
    """
    finished: list[RagMeter] = []
    with _lock:
        for framework in [*_attached, *_awaited] if frameworks is None else list(frameworks):
            _awaited.pop(framework, None)
            if framework in _attached:
                import_module(FRAMEWORKS[framework].adapter).detach_globally()
                _attached.discard(framework)
        if not _attached and not _awaited:
            _default[0] = None
            finished = list(_made_here)
            _made_here.clear()
    for meter in finished:
        meter.shutdown(timeout_s=timeout_s)


def _selected_frameworks(frameworks: Iterable[str] | None) -> list[str]:
    if frameworks is None:
        return [name for name, one in FRAMEWORKS.items() if is_installed(one.probe)]
    names = [frameworks] if isinstance(frameworks, str) else list(frameworks)
    for name in names:
        if name not in FRAMEWORKS:
            raise ConfigurationError(f"unknown framework {name!r}; known: {', '.join(sorted(FRAMEWORKS))}")
        if not is_installed(FRAMEWORKS[name].probe):
            extra = name.replace("_", "-")
            raise ConfigurationError(f"framework {name!r} is not installed: {install_command(extra)}")
    return names


def options_by_framework(
    handlers: Mapping[str, Callable[..., object]], options: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Sort the options of `instrument` by framework.

    Raises:
        ConfigurationError: An option belongs to no handler, or to some handlers only, without naming one.
    """
    known = {name: _keywords(handler) for name, handler in handlers.items()}
    chosen: dict[str, dict[str, Any]] = {name: {} for name in handlers}
    for option, value in options.items():
        if option in FRAMEWORKS:
            if option not in handlers:
                raise ConfigurationError(
                    f"{option}=...: options for a framework that is not attached; "
                    f"attached: {', '.join(handlers) or 'none'}"
                )
            if not isinstance(value, Mapping):
                raise ConfigurationError(f"{option}={value!r}: pass a dictionary of its handler's options")
            continue
        if option not in SHARED_OPTIONS and len(handlers) > 1:
            takers = [name for name in handlers if option in known[name]]
            if takers:
                ways = " or ".join(f"{name}={{{option!r}: ...}}" for name in takers)
                raise ConfigurationError(f"{option} does not mean the same in every framework: pass {ways}")
        for name in handlers:
            chosen[name][option] = value
    for name in handlers:
        chosen[name].update(options.get(name, {}))
        for option in chosen[name]:
            if option not in known[name]:
                raise ConfigurationError(
                    f"unknown option {option!r} for {name}; known: {', '.join(sorted(known[name]))}"
                )
    return chosen


def _keywords(handler: Callable[..., object]) -> frozenset[str]:
    from inspect import signature  # noqa: PLC0415 -- importing adapters stays cheap

    parameters = signature(handler).parameters.values()
    return frozenset(item.name for item in parameters if item.kind is item.KEYWORD_ONLY)


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it (only its parent packages)."""
    top = module.partition(".")[0]
    return find_spec(top) is not None and find_spec(module) is not None
