"""Types of options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ragmeter.metrics import ConfigurationError

if TYPE_CHECKING:
    from ragmeter.adapters.opentelemetry import RetrievalTool


class Signal(str, Enum):
    """Values of ``--signal``; typer takes no list of literals."""

    TRACES = "traces"
    LOGS = "logs"
    METRICS = "metrics"


RetrievalToolOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GLOB[:FIELDS]",
        help="Tools whose results are retrieved documents, e.g. `search_*`, or with the fields of their "
        "records, `search_*:text=body,id=sku`. Repeatable.",
    ),
]
RetrievalSpanOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GLOB[:FIELDS]", help="Spans that are retrievals by their names, e.g. `retrieve*`. Repeatable."
    ),
]
ToolSeparatorOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Separator of the documents in such a result. (default: by its layout)"),
]


def retrieval_rules(
    tools: Sequence[str] | None, spans: Sequence[str] | None, separator: str | None
) -> list[RetrievalTool]:
    """Return the retrieval rules set by the options for tools and spans."""
    from ragmeter.adapters.reading.results import as_tools  # noqa: PLC0415 -- --help needs none of it

    if separator is not None and not tools:
        raise ConfigurationError("--tool-separator needs --retrieval-tool")
    return [
        *(replace(rule, separator=separator) for rule in as_tools(tools or ())),
        *as_tools(spans or (), "retrieval_spans", is_span=True),
    ]
