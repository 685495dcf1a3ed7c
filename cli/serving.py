"""The command ``ragmeter serve`` and its options. `app` adds it to the others; `serve` runs the server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragmeter.metrics import ConfigurationError

from ._console import Console, say
from ._docstring_options import options_from_docstring
from ._ending import EXIT_FAILED, exit_with_line
from ._options import (
    ProtocolName,
    RetrievalSpanOption,
    RetrievalToolOption,
    Signal,
    ToolSeparatorOption,
    retrieval_rules,
)
from ._serve_config import configuration_lines, drop_contradicted, load_configuration

__all__ = ["serve"]


@options_from_docstring
def serve(  # noqa: D417 -- `_options` describes three of them
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(is_eager=True, callback=load_configuration)] = None,
    print_config: bool = False,
    host: str = "127.0.0.1",
    http_port: Annotated[int, typer.Option(min=0, max=65535)] = 4318,
    grpc_port: Annotated[int, typer.Option(min=0, max=65535)] = 4317,
    uds: Path | None = None,
    token_file: Path | None = None,
    view_token_file: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    otlp: str | None = None,
    protocol: ProtocolName | None = None,
    signal: list[Signal] | None = None,
    references: Path | None = None,
    retrieval_tool: RetrievalToolOption = None,
    retrieval_span: RetrievalSpanOption = None,
    tool_separator: ToolSeparatorOption = None,
    grace: Annotated[float, typer.Option(min=0)] = 1.0,
    idle: Annotated[float, typer.Option(min=0.1)] = 30.0,
    drain_timeout: Annotated[float, typer.Option(min=1)] = 25.0,
    header_timeout: Annotated[float, typer.Option(min=0.1)] = 10.0,
    max_body_mib: Annotated[int, typer.Option(min=1, max=1024)] = 16,
    max_held_mib: Annotated[int, typer.Option(min=16)] = 256,
    spool: Path | None = None,
    no_spool: bool = False,
    max_spool_mib: Annotated[int, typer.Option(min=1)] = 1024,
    objective: list[str] | None = None,
    webhook: str | None = None,
    page_url: str | None = None,
    digest: str | None = None,
    kafka: str | None = None,
    topic: str = "otlp_spans",
    group: str = "ragmeter",
    kafka_config: Path | None = None,
    forward: bool = False,
    store: str | None = None,
    no_store: bool = False,
    keep: str = "7d",
    keep_service: list[str] | None = None,
    max_size: str = "1GB",
    golden: Path | None = None,
    trace_url: list[str] | None = None,
    no_text: bool = False,
) -> None:
    """Receive OpenTelemetry spans and log records, find the RAG requests in them, and score them.

    Takes OTLP over HTTP (protobuf and JSON) and gRPC, and sends scores on into the same traces. Ends on
    SIGTERM or Ctrl-C when all that came is scored and sent; a second one ends it at once. Exit code 1:
    something that was received was not scored, or not sent, in the time for it.

    Args:
        config (FILE): Take what neither an option nor a variable says from this TOML file.
        print_config: Print what holds as such a file, and end.
        host: Where to listen.
        http_port: Port for OTLP over HTTP; 0: any that is free.
        grpc_port: Port for OTLP over gRPC; 0: any that is free.
        uds (PATH): Listen on this Unix socket, and for gRPC on PATH.grpc, and on no port: for this user
            alone.
        token_file (FILE): Ask for the token in this file; made at the first start. (default:
            RAGMETER_SERVE_TOKEN)
        view_token_file (FILE): Those who know the token in this file may look, and nothing else; made like
            the other. (default: RAGMETER_SERVE_VIEW_TOKEN)
        tls_cert (FILE): Encrypt both ports, with this certificate, as PEM.
        tls_key (FILE): The certificate's key, as PEM.
        otlp (URL): Send scores to this OTLP endpoint. (default: OTEL_EXPORTER_OTLP_ENDPOINT)
        protocol: How to speak to it. (default with --otlp: grpc on port 4317)
        signal: Send only these; repeat for more. (default: all three)
        references: References by question, .jsonl or .csv.
        grace: Seconds that a complete trace waits for late spans.
        idle: Seconds without news after which an incomplete one is taken.
        drain_timeout: Seconds that the end may take after SIGTERM.
        header_timeout: Seconds that a connection has to say what it wants.
        max_body_mib: Largest body, packed and unpacked.
        max_held_mib: Most that waiting spans may take up, estimated.
        spool (DIR): Keep what was acknowledged in this folder until its scores are sent: a kill loses
            nothing. (default: beside the store)
        no_spool: Keep it nowhere: a kill loses what is not scored yet.
        max_spool_mib: Most that the spool may hold; beyond, senders are to wait.
        objective: How good scores are to be, e.g. "shop_qa:faithfulness>=0.8 for 95%".
        webhook (URL): Post changes there. (default: RAGMETER_CHANGE_WEBHOOK)
        page_url (URL): Where people reach the page, which what is posted links to. (default:
            RAGMETER_PAGE_URL, else where it listens)
        digest (daily|weekly): Print, and post to --webhook, what fell, gaps, worst questions and what is not
            scored.
        kafka (HOST:PORT[,...]): Read spans from these Kafka brokers, too, as a member of a consumer group.
        topic: The topic with the spans, keyed by trace id.
        group: The consumer group.
        kafka_config (FILE): More of librdkafka's properties, name=value a line: TLS, SASL.
        forward: Pass spans and log records on, unchanged, to that endpoint.
        store (FILE|URL): Keep scored requests in this file, or at this postgresql:// address. (default:
            RAGMETER_SERVE_STORE, else serve.db in the user's state folder)
        no_store: Store no requests: the page stays empty.
        keep (TIME): How long requests are kept, e.g. 12h, 7d.
        keep_service (NAME=TIME): How long those of a service are, e.g. shop=30d; repeat for more.
        max_size (SIZE): Most that they may take up, e.g. 500MB, 1GB.
        golden (FILE): Golden set of the page, .jsonl. (default: golden.jsonl beside the store)
        trace_url (URL): Where else a trace is shown, with {trace_id} in it.
        no_text: Keep no question, answer, chunk or explanation.
    """
    del config  # the callback of ``--config`` has already used it
    drop_contradicted(context)
    spool, no_spool, no_store = (context.params[one] for one in ("spool", "no_spool", "no_store"))
    with exit_with_line():
        if print_config:
            for line in configuration_lines(context):
                Console().print_line(line)
            return
        from ragmeter.serve import ServeOptions, Server

        from ._otlp import choose_protocol
        from .serve import kafka_options, run_server, store_options

        if no_spool and spool is not None:
            raise ConfigurationError("--spool and --no-spool contradict each other; leave one out")
        chosen = protocol.value if protocol else None
        server = Server(
            ServeOptions(
                host=host,
                http_port=http_port,
                grpc_port=grpc_port,
                uds=uds,
                token_file=token_file,
                view_token_file=view_token_file,
                tls_cert=tls_cert,
                tls_key=tls_key,
                otlp=otlp,
                protocol=chosen if otlp is None else choose_protocol(otlp, chosen),
                signals=[one.value for one in signal or Signal],
                references=None if references is None else str(references),
                retrieval_tools=retrieval_rules(retrieval_tool, retrieval_span, tool_separator),
                grace_s=grace,
                idle_s=idle,
                drain_timeout_s=drain_timeout,
                header_timeout_s=header_timeout,
                max_body_bytes=max_body_mib * 1024 * 1024,
                max_held_bytes=max_held_mib * 1024 * 1024,
                spool=spool,
                durable=not no_spool,
                max_spool_bytes=max_spool_mib * 1024 * 1024,
                objectives=objective or (),
                webhook=webhook,
                page=page_url,
                digest=digest,
                forward=forward,
                kafka=kafka_options(kafka, topic, group, kafka_config),
                golden=golden,
                trace_urls=trace_url or (),
                store=None
                if no_store
                else store_options(
                    store, keep, max_size, texts=not no_text, keep_service=keep_service or ()
                ),
            )
        )
        complete = run_server(server, say)
    if not complete:
        raise typer.Exit(EXIT_FAILED)
