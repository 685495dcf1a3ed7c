"""Differences between the ways of watching one application, with reasons; writes docs/reference/ways.md.

``python tests/peers/differences.py``. The suite (`test_ways.py`) checks that there are no other differences,
and that all of these exist.
"""

from importlib import import_module
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "ways.md"
FRAMEWORKS = {"langchain": "LangChain and LangGraph", "llama_index": "LlamaIndex"}
WAYS = {
    "handler": "a callback handler",
    "instrument()": "`instrument()`",
    "spans": "OpenInference's spans, in the process",
    "serve": "the same spans, sent to `ragmeter serve`",
}
REASONS = {
    "stream left": "a stream left after its only piece is whole in spans; LangChain reports no last piece to a handler",
    "rewritten nodes": "LlamaIndex's spans tell what a retriever found, not what a step or a template made of it",
    "stages of a failure": "LlamaIndex's handler does not say which stages documents passed before a model failed",
}
"""The closed list: a difference has one of these reasons, or is a defect."""


class Difference(NamedTuple):
    """A way whose report of an application's request differs from the handler's."""

    framework: str
    application: str
    ways: tuple[str, ...]
    fields: tuple[str, ...]
    """Fields of the sample, and ``scores``, in this order."""
    reason: str


SPANS = ("spans", "serve")
DIFFERENCES = (
    Difference("langchain", "stream left", SPANS, ("answer", "status", "scores"), "stream left"),
    Difference("llama_index", "cited", SPANS, ("contexts", "scores"), "rewritten nodes"),
    Difference("llama_index", "with metadata", SPANS, ("contexts", "scores"), "rewritten nodes"),
    Difference("llama_index", "model fails", SPANS, ("scores",), "stages of a failure"),
)


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# One application, by each way",
        "",
        "Written by `make ways`. `tests/peers/test_ways.py` asks each application by:",
        "",
        *(f"- {way}" for way in WAYS.values()),
        "",
        "It compares question, contexts, carried chunks, answer, status and every score with the first one's.",
    ]
    for framework, name in FRAMEWORKS.items():
        known = import_module(f"{framework}_applications").APPLICATIONS
        differing = {one.application: one for one in DIFFERENCES if one.framework == framework}
        lines += ["", f"## {name}: {len(known) - len(differing)} of {len(known)} are equal", ""]
        lines += ["| application | differs in | by | why |", "|---|---|---|---|"]
        lines += [_row(one, differing.get(one)) for one in known]
    return "\n".join(lines) + "\n"


def _row(application: str, one: Difference | None) -> str:
    cells = ("–", "", "") if one is None else (", ".join(one.fields), ", ".join(one.ways), REASONS[one.reason])
    return f"| {' | '.join((application, *cells))} |"


if __name__ == "__main__":
    import sys

    sys.path[:0] = [str(Path(__file__).parents[1] / "adapters")]
    PAGE.write_text(page(), encoding="utf-8")
