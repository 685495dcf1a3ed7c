"""The commands ``ragmeter serve`` and ``ragmeter store``, which `app` adds to the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragmeter.exporters._otlp import Protocol
from ragmeter.exporters.change_words import Language
from ragmeter.metrics import ConfigurationError

from ._console import Console, say
from ._docstring_options import options_from_docstring
from ._ending import EXIT_FAILED, exit_with_line
from ._options import RetrievalSpanOption, RetrievalToolOption, Signal, ToolSeparatorOption, retrieval_rules
from ._otlp import choose_protocol
from ._serve_config import configuration_lines, drop_contradicted, load_configuration


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
    protocol: Protocol | None = None,
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
    language: Language | None = None,
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

    Takes OTLP over HTTP (protobuf and JSON) and gRPC, and sends the scores into the same traces. SIGTERM
    or Ctrl-C ends it once everything received is scored and sent; a second one at once. Exit code 1:
    something received was not scored, or not sent, within --drain-timeout.

    Args:
        config (FILE): Settings in TOML, for what neither an option nor a variable sets.
        print_config: Print the settings in force as such a file, and exit.
        host: Address to listen on.
        http_port: Port for OTLP over HTTP; 0: any free port.
        grpc_port: Port for OTLP over gRPC; 0: any free port.
        uds (PATH): Listen on this Unix socket, and for gRPC on PATH.grpc, instead of on ports; for this
            user only.
        token_file (FILE): File with the token that callers need; created at the first start. (default:
            RAGMETER_SERVE_TOKEN)
        view_token_file (FILE): File with a token for viewers, who may only read; created likewise. (default:
            RAGMETER_SERVE_VIEW_TOKEN)
        tls_cert (FILE): Encrypt both ports with this PEM certificate.
        tls_key (FILE): The certificate's key, PEM.
        otlp (URL): Send scores to this OTLP endpoint. (default: OTEL_EXPORTER_OTLP_ENDPOINT)
        protocol: Protocol of that endpoint. (default with --otlp: grpc on port 4317)
        signal: Send only this signal. Repeatable. (default: all three)
        references: References by question, .jsonl or .csv.
        grace: Seconds to wait for late spans of a complete trace.
        idle: Seconds without a new span after which an incomplete trace is read.
        drain_timeout: Seconds for finishing after SIGTERM.
        header_timeout: Seconds in which a connection must send its headers.
        max_body_mib: Largest body, compressed and uncompressed.
        max_held_mib: Most memory for waiting spans, estimated.
        spool (DIR): Folder that holds acknowledged data until its scores are sent, so that a kill loses
            nothing. (default: beside the store)
        no_spool: No such folder: a kill loses what is not yet scored.
        max_spool_mib: Most that the spool may hold; then senders are asked to retry.
        objective: Objective for a score, e.g. "shop_qa:faithfulness>=0.8 for 95%". Repeatable.
        webhook (URL): Post changes to this URL. (default: RAGMETER_CHANGE_WEBHOOK)
        page_url (URL): Public address of the page, for links in what is posted, and on the page, if a proxy
            shows it under a path. (default: RAGMETER_PAGE_URL, else where it listens)
        language: Language of what is posted, and of the digest. (default: RAGMETER_LANGUAGE, else en)
        digest (daily|weekly): Print, and post to --webhook, a report: what fell, gaps, worst questions and
            what is not scored.
        kafka (HOST:PORT[,...]): Also read spans from these Kafka brokers, as a member of a consumer group.
        topic: Topic with the spans, keyed by trace id.
        group: Consumer group.
        kafka_config (FILE): Further librdkafka properties, one name=value per line: TLS, SASL.
        forward: Forward spans and log records, unchanged, to the --otlp endpoint.
        store (FILE|URL): Store scored requests in this file, or at this postgresql:// address. (default:
            RAGMETER_SERVE_STORE, else serve.db in the user's state folder)
        no_store: Store no requests: the page stays empty.
        keep (TIME): How long requests are stored, e.g. 12h, 7d.
        keep_service (NAME=TIME): The same for one service, e.g. shop=30d. Repeatable.
        max_size (SIZE): Largest size of the store, e.g. 500MB, 1GB.
        golden (FILE): Golden set that the page adds to, .jsonl. (default: golden.jsonl beside the store)
        trace_url (URL): Link to a trace in another backend, with {trace_id} in it. Repeatable.
        no_text: Store no question, answer, chunk or explanation.
    """
    del config  # the callback of ``--config`` has already used it
    drop_contradicted(context)
    spool, no_spool, no_store = (context.params[one] for one in ("spool", "no_spool", "no_store"))
    with exit_with_line():
        if print_config:
            for line in configuration_lines(context):
                Console().print_line(line)
            return
        from ragmeter.serve import Front, ServeOptions

        from .serve import kafka_options, run_server, store_options

        if no_spool and spool is not None:
            raise ConfigurationError("--spool and --no-spool contradict each other; leave one out")
        front = Front(
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
                protocol=protocol if otlp is None else choose_protocol(otlp, protocol),
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
                language=language,
                digest=digest,
                forward=forward,
                kafka=kafka_options(kafka, topic, group, kafka_config),
                golden=golden,
                trace_urls=trace_url or (),
                store=None
                if no_store
                else store_options(store, keep, max_size, texts=not no_text, keep_service=keep_service or ()),
            )
        )
        front.start()
        front.give_way()
        from ragmeter.serve import Server  # the page is there before this is imported

        complete = run_server(Server(front=front), say)
    if not complete:
        raise typer.Exit(EXIT_FAILED)


store = typer.Typer(no_args_is_help=True, help="Maintain the store of `ragmeter serve`.")


@store.callback()
def _group() -> None:
    """Maintain the store of ``ragmeter serve``."""


@store.command()
@options_from_docstring
def backup(to: Path, where: str | None = None) -> None:
    """Copy the store while its server runs.

    Args:
        to (PATH): A new file for the copy.
        where (--store FILE): The store to copy. (default: that of ragmeter serve)
    """
    with exit_with_line():
        from ragmeter.serve.store import back_up

        from .serve import store_options

        options = store_options(where, "7d", "1GB", texts=True)
        if options.path is None:
            raise ConfigurationError("the store is PostgreSQL: back it up with pg_dump")
        back_up(options.path, to)
        say(f"ragmeter store: copied {options.path} to {to}")
