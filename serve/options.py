"""`ServeOptions`: what can be said to a server, beside ``RAGMETER_*`` and ``OTEL_*``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragmeter.adapters.opentelemetry import RetrievalTool

from ._ledger import INTERVAL_S
from ._limits import MIB
from ._telemetry import SIGNALS
from .kafka_options import KafkaOptions
from .store import StoreOptions

__all__ = ["ServeOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What can be said to a server, beside ``RAGMETER_*`` and ``OTEL_*``."""

    host: str = "127.0.0.1"
    """Where it listens."""
    http_port: int = 4318
    """Port for OTLP over HTTP; 0: any that is free."""
    grpc_port: int = 4317
    """Port for OTLP over gRPC; 0: any that is free."""
    uds: Path | None = None
    """Unix socket, instead of ports: OTLP over HTTP and the page; gRPC has one of that name with ``.grpc``."""
    otlp: str | None = None
    """Where scores are sent; None: where ``OTEL_EXPORTER_OTLP_*`` say."""
    protocol: str | None = None
    """``grpc`` or ``http/protobuf``; None: as these say."""
    signals: Sequence[str] = SIGNALS
    """What is sent there, of ``traces``, ``logs`` and ``metrics``."""
    references: str | None = None
    """File of references; None: ``RAGMETER_REFERENCES``."""
    retrieval_tools: Sequence[RetrievalTool] = ()
    """Which tools retrieve."""
    grace_s: float = 1.0
    """Seconds without news after which a trace that looks complete is."""
    idle_s: float = 30.0
    """Seconds without news after which any trace is."""
    drain_timeout_s: float = 25.0
    """Seconds that the end may take."""
    header_timeout_s: float = 10.0
    """Seconds in which a connection must have said what it wants."""
    max_body_bytes: int = 16 * MIB
    """Bytes of one body, packed and unpacked."""
    max_held_bytes: int = 256 * MIB
    """Bytes that spans may take up which wait for the rest of their trace or for scoring, estimated."""
    spool: Path | None = None
    """Folder in which what was acknowledged is kept until its scores are sent; None: beside the store."""
    durable: bool = True
    """Whether it is kept at all. Without spool and store it is not: a kill loses what is not scored yet."""
    max_spool_bytes: int = 1024 * MIB
    """Bytes that it may hold."""
    settle_s: float = INTERVAL_S
    """Seconds between two looks at what of it is done."""
    objectives: Sequence[str] = ()
    """How good scores are to be, e.g. ``shop_qa:faithfulness>=0.8 for 95%``; empty: ``RAGMETER_OBJECTIVES``."""
    webhook: str | None = field(default=None, repr=False)
    """Address that changes of quality are posted to; None: ``RAGMETER_CHANGE_WEBHOOK``. Often a secret."""
    watch_state: Path | None = None
    """File that what is usual is kept in over a restart; None: as ``RAGMETER_ALARMS_STATE`` says, else in
    the spool's folder, else beside the store."""
    forward: bool = False
    """Whether spans and log records are passed on, unchanged, to where scores are sent."""
    max_forward_bytes: int = 64 * MIB
    """Bytes that may wait to be passed on, of each of the two."""
    page: str | None = None
    """Address at which people reach the page, which what is posted links to; None: ``RAGMETER_PAGE_URL``, else
    the server's own, if it listens on one."""
    digest: str | None = None
    """``daily`` or ``weekly``: how often what happened is printed, and posted to `webhook`; None: never."""
    kafka: KafkaOptions | None = None
    """A topic that spans are read from, beside what is sent here; None: none."""
    store: StoreOptions | None = None
    """Where scored requests are stored for the page; None: nowhere."""
    golden: Path | None = None
    """The golden set that the page adds to, with labels beside it; None: beside the store."""
    trace_urls: Sequence[str] = ()
    """Where else a trace can be opened: addresses with ``{trace_id}`` in them."""
    token_file: Path | None = None
    """File with the token; a new one is made and written there where there is none."""
    token: str | None = field(default=None, repr=False)
    """What senders and browsers must know; None: as ``RAGMETER_SERVE_TOKEN`` says, else nothing on this
    machine, and a new one where the server listens beyond it."""
    view_token_file: Path | None = None
    """File with the token of those who only look; made like the other."""
    view_token: str | None = field(default=None, repr=False)
    """What is enough to look, and for nothing else; None: as ``RAGMETER_SERVE_VIEW_TOKEN`` says, else there
    is none."""
    tls_cert: Path | None = None
    """PEM file with the certificate that both ports show; None: they are not encrypted."""
    tls_key: Path | None = None
    """PEM file with its key."""
