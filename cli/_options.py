"""Types of options that several commands have."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeAlias

import typer

__all__ = ["ProtocolName", "RetrievalToolOption", "Signal", "ToolSeparatorOption"]


class ProtocolName(str, Enum):
    """Values of ``--protocol``."""

    HTTP = "http/protobuf"
    GRPC = "grpc"


class Signal(str, Enum):
    """Values of ``--signal``."""

    TRACES = "traces"
    LOGS = "logs"
    METRICS = "metrics"


RetrievalToolOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GLOB",
        help="Tools whose results are retrieved documents, e.g. 'search_*'; repeat for more.",
    ),
]
ToolSeparatorOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX",
        help="What stands between two documents in such a result. (default: by its layout)",
    ),
]
