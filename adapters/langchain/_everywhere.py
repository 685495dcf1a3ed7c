"""Attaches one handler to every LangChain run of the process, through LangChain's own hook.

`register_configure_hook` has no counterpart that would take a hook back, so the hook is registered
once and reads a switch: a context variable whose default is a handler that works with
the process's default meter, and does nothing while there is none.  Nothing is patched.
"""

from __future__ import annotations

from contextvars import ContextVar

from langchain_core.tracers.context import register_configure_hook

from ._handler import RagMeterCallbackHandler

__all__ = ["HANDLER", "attach_globally", "detach_globally"]

HANDLER = RagMeterCallbackHandler
"""What `attach_globally` takes."""


class _GlobalHandler(RagMeterCallbackHandler):
    """The one handler behind the hook: can be pointed at a meter, and switched off."""

    def point_at(self, handler: RagMeterCallbackHandler | None) -> None:
        """Work as `handler` does; None: do nothing."""
        if handler is None:
            self._own, self._meter = None, None
        else:
            self._options, self._own, self._meter = (
                handler._options,  # noqa: SLF001 -- a handler of the same class
                handler._own,  # noqa: SLF001
                handler._meter,  # noqa: SLF001
            )

    @property
    def ignore_llm(self) -> bool:
        """Whether model calls and their tokens are not even announced."""
        return self._own is None

    @property
    def ignore_chain(self) -> bool:
        """Whether chains are not even announced."""
        return self._own is None

    @property
    def ignore_agent(self) -> bool:
        """Whether tools are not even announced."""
        return self._own is None

    @property
    def ignore_retriever(self) -> bool:
        """Whether retrievers are not even announced."""
        return self._own is None

    @property
    def ignore_chat_model(self) -> bool:
        """Whether chat models are not even announced."""
        return self._own is None


_handler = _GlobalHandler()
_hook: ContextVar[RagMeterCallbackHandler | None] = ContextVar(
    "ragmeter_langchain", default=_handler
)
_registered: list[bool] = []


def attach_globally(handler: RagMeterCallbackHandler) -> None:
    """Capture every request of the process as `handler` does, for its meter."""
    _handler.point_at(handler)
    if not _registered:
        # The default makes it seen in every thread, task and copied context.
        register_configure_hook(_hook, inheritable=True)
        _registered.append(True)


def detach_globally() -> None:
    """Hand over nothing any more. Requests in flight are forgotten by age."""
    _handler.point_at(None)
