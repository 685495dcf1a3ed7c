"""The command ``ragmeter serve`` and its options. `app` adds it to the others; `serve` runs the server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragmeter.metrics import ConfigurationError

from ._console import Console, say
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


def serve(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            is_eager=True,
            callback=load_configuration,
            help="Take what neither an option nor a variable says from this TOML file.",
        ),
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print what holds as such a file, and end.")
    ] = False,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    http_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port for OTLP over HTTP; 0: any that is free.")
    ] = 4318,
    grpc_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port for OTLP over gRPC; 0: any that is free.")
    ] = 4317,
    uds: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Listen on this Unix socket, and for gRPC on PATH.grpc, and on no port: for this user alone.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Ask for the token in this file; made at the first start. (default: RAGMETER_SERVE_TOKEN)",
        ),
    ] = None,
    view_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Those who know the token in this file may look, and nothing else; made like the other. "
            "(default: RAGMETER_SERVE_VIEW_TOKEN)",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Encrypt both ports, with this certificate, as PEM."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate's key, as PEM.")
    ] = None,
    otlp: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Send scores to this OTLP endpoint. (default: OTEL_EXPORTER_OTLP_ENDPOINT)",
        ),
    ] = None,
    protocol: Annotated[
        ProtocolName | None,
        typer.Option(help="How to speak to it. (default with --otlp: grpc on port 4317)"),
    ] = None,
    signal: Annotated[
        list[Signal] | None,
        typer.Option(help="Send only these; repeat for more. (default: all three)"),
    ] = None,
    references: Annotated[
        Path | None, typer.Option(help="References by question, .jsonl or .csv.")
    ] = None,
    retrieval_tool: RetrievalToolOption = None,
    retrieval_span: RetrievalSpanOption = None,
    tool_separator: ToolSeparatorOption = None,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that a complete trace waits for late spans.")
    ] = 1.0,
    idle: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds without news after which an incomplete one is taken."),
    ] = 30.0,
    drain_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds that the end may take after SIGTERM.")
    ] = 25.0,
    header_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds that a connection has to say what it wants.")
    ] = 10.0,
    max_body_mib: Annotated[
        int, typer.Option(min=1, max=1024, help="Largest body, packed and unpacked.")
    ] = 16,
    max_held_mib: Annotated[
        int, typer.Option(min=16, help="Most that waiting spans may take up, estimated.")
    ] = 256,
    spool: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep what was acknowledged in this folder until its scores are sent: a kill loses nothing. "
            "(default: beside the store)",
        ),
    ] = None,
    no_spool: Annotated[
        bool,
        typer.Option("--no-spool", help="Keep it nowhere: a kill loses what is not scored yet."),
    ] = False,
    max_spool_mib: Annotated[
        int, typer.Option(min=1, help="Most that the spool may hold; beyond, senders are to wait.")
    ] = 1024,
    objective: Annotated[
        list[str] | None,
        typer.Option(help='How good scores are to be, e.g. "shop_qa:faithfulness>=0.8 for 95%".'),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Post changes there. (default: RAGMETER_CHANGE_WEBHOOK)"),
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option(
            metavar="daily|weekly",
            help="Print, and post to --webhook, what fell, gaps, worst questions and what is not scored.",
        ),
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT[,...]",
            help="Read spans from these Kafka brokers, too, as a member of a consumer group.",
        ),
    ] = None,
    topic: Annotated[
        str, typer.Option(help="The topic with the spans, keyed by trace id.")
    ] = "otlp_spans",
    group: Annotated[str, typer.Option(help="The consumer group.")] = "ragmeter",
    kafka_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="More of librdkafka's properties, name=value a line: TLS, SASL."
        ),
    ] = None,
    forward: Annotated[
        bool,
        typer.Option(
            "--forward", help="Pass spans and log records on, unchanged, to that endpoint."
        ),
    ] = False,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|URL",
            help="Keep scored requests in this file, or at this postgresql:// address. (default: "
            "RAGMETER_SERVE_STORE, else serve.db in the user's state folder)",
        ),
    ] = None,
    no_store: Annotated[
        bool, typer.Option("--no-store", help="Store no requests: the page stays empty.")
    ] = False,
    keep: Annotated[
        str, typer.Option(metavar="TIME", help="How long requests are kept, e.g. 12h, 7d.")
    ] = "7d",
    keep_service: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TIME",
            help="How long those of a service are, e.g. shop=30d; repeat for more.",
        ),
    ] = None,
    max_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Most that they may take up, e.g. 500MB, 1GB.")
    ] = "1GB",
    golden: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Golden set of the page, .jsonl. (default: golden.jsonl beside the store)",
        ),
    ] = None,
    trace_url: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Where else a trace is shown, with {trace_id} in it."),
    ] = None,
    no_text: Annotated[
        bool, typer.Option("--no-text", help="Keep no question, answer, chunk or explanation.")
    ] = False,
) -> None:
    """Receive OpenTelemetry spans and log records, find the RAG requests in them, and score them.

    Takes OTLP over HTTP (protobuf and JSON) and gRPC, and sends scores on into the same traces. Ends on
    SIGTERM or Ctrl-C when all that came is scored and sent; a second one ends it at once. Exit code 1:
    something that was received was not scored, or not sent, in the time for it.
    """
    del config  # its callback has taken it
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
