"""`ServeOptions`: the options of a server, in addition to ``RAGMETER_*`` and ``OTEL_*`` variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ragmeter.exporters._otlp import SIGNALS

from ._limits import MIB, SETTLE_S
from .kafka_options import KafkaOptions
from .store import StoreOptions

if TYPE_CHECKING:
    from ragmeter.adapters.opentelemetry import RetrievalTool
    from ragmeter.exporters.change_words import Language


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of a server, in addition to ``RAGMETER_*`` and ``OTEL_*`` variables."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    http_port: int = 4318
    """Port for OTLP over HTTP; 0: any free one."""
    grpc_port: int = 4317
    """Port for OTLP over gRPC; 0: any free one."""
    uds: Path | None = None
    """Unix socket, instead of ports, for OTLP over HTTP and the page; gRPC uses its name with ``.grpc``."""
    otlp: str | None = None
    """Destination of scores; None: from ``OTEL_EXPORTER_OTLP_*``."""
    protocol: str | None = None
    """``grpc`` or ``http/protobuf``; None: from these variables."""
    signals: Sequence[str] = SIGNALS
    """Signals to send there, of ``traces``, ``logs`` and ``metrics``."""
    references: str | None = None
    """File of references; None: ``RAGMETER_REFERENCES``."""
    retrieval_tools: Sequence[RetrievalTool] = ()
    """The tools that retrieve."""
    grace_s: float = 1.0
    """Seconds without new spans after which an apparently complete trace is closed."""
    idle_s: float = 30.0
    """Seconds without new spans after which any trace is closed."""
    drain_timeout_s: float = 25.0
    """Most seconds for the end of the server."""
    header_timeout_s: float = 10.0
    """Seconds for the head of a request to arrive."""
    max_body_bytes: int = 16 * MIB
    """Most bytes of a body, compressed and decompressed."""
    max_held_bytes: int = 256 * MIB
    """Most bytes of spans that wait for the rest of their trace or for scoring, estimated."""
    spool: Path | None = None
    """Folder that stores acknowledged requests until their scores are sent; None: beside the store."""
    durable: bool = True
    """Whether to store them. Without spool and store, a kill loses all requests that are not scored yet."""
    max_spool_bytes: int = 1024 * MIB
    """Most bytes of the spool."""
    settle_s: float = SETTLE_S
    """Seconds between two settlements of finished requests."""
    objectives: Sequence[str] = ()
    """Targets for scores, such as ``shop_qa:faithfulness>=0.8 for 95%``; empty: ``RAGMETER_OBJECTIVES``."""
    webhook: str | None = field(default=None, repr=False)
    """Address to post changes of quality to; None: ``RAGMETER_CHANGE_WEBHOOK``. Often a secret."""
    forward: bool = False
    """Whether to forward spans and log records, unchanged, to the destination of scores."""
    page: str | None = None
    """Address of the page for people, for links in posts, and its path for those on the page, if a proxy
    shows it under one; None: ``RAGMETER_PAGE_URL``, else the server's own, if it listens on one."""
    language: Language | None = None
    """Language of changes and digests: ``en``, ``ru`` or ``zh``; None: ``RAGMETER_LANGUAGE``, else English."""
    digest: str | None = None
    """``daily`` or ``weekly``: how often to print a digest, and post it to `webhook`; None: never."""
    kafka: KafkaOptions | None = None
    """Topic to read spans from, in addition to received ones; None: no Kafka."""
    store: StoreOptions | None = None
    """Location of the stored requests for the page; None: no store."""
    golden: Path | None = None
    """The golden set that the page extends, with labels beside it; None: beside the store."""
    trace_urls: Sequence[str] = ()
    """Addresses of other viewers of traces, with ``{trace_id}`` in them."""
    token_file: Path | None = None
    """File with the token; if missing, it is created with a new token."""
    token: str | None = field(default=None, repr=False)
    """Token of senders and browsers; None: ``RAGMETER_SERVE_TOKEN``, else none on this machine, and a new one
    if the server listens beyond it."""
    view_token_file: Path | None = None
    """File with the viewers' token; created like the other one."""
    view_token: str | None = field(default=None, repr=False)
    """Token that only permits reading; None: ``RAGMETER_SERVE_VIEW_TOKEN``, else there is none."""
    tls_cert: Path | None = None
    """PEM file with the certificate of both ports; None: no TLS."""
    tls_key: Path | None = None
    """PEM file with the certificate's key."""
