"""`Server`: `ragmeter serve` as an object, with an orderly start and end.

Its parts: receivers (`_http` behind `front`, `_grpc`) → intake (`_intake`) → traces and requests
(`_scoring`) → a `ragmeter.RagMeter` → exporters (`_telemetry`, and those of the settings).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from starlette.routing import BaseRoute

from ragmeter import RagMeter
from ragmeter.adapters.opentelemetry.otlp import Signal
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import ConfigurationError
from ragmeter.settings.config import read_settings
from ragmeter.settings.from_settings import scoring_arguments

from ._api import api_routes
from ._digest import digests
from ._endpoint import Endpoint
from ._forward import Forwarder
from ._gauges import publish_gauges
from ._grpc import grpc_server
from ._http import http_application
from ._intake import Intake
from ._journal import Journal
from ._ledger import Ledger
from ._limits import RECEIVE_S
from ._listening import bind_grpc, forget_paths, page_address, refuse_own_address
from ._own_metrics import publish
from ._readers import Readers
from ._scoring import Scoring
from ._spool import Spool
from ._telemetry import Telemetry, endpoints
from ._upkeep import Upkeep
from ._version_alerts import report_worse_versions
from ._watch import ScoredElsewhere, changes_of, standing_of, watch_routes
from .front import Front
from .options import ServeOptions
from .store.claims import StoredClaims

if TYPE_CHECKING:
    from ._kafka import KafkaHealth, KafkaSource

_DRAIN_SHARE = 0.6
"""Share of the time to drain for scoring; the rest is for sending the scores."""
_REPLAY_SHARE = 0.4
"""Share of the same time for accepting stored requests again, if the server ends soon after a restart."""
_FULL_SHARE = 0.8
"""Used share of the spool above which senders should use another server."""


class Server:
    """Receives spans and log records, finds the RAG requests in them, and has them scored.

    Args:
        options: Addresses and bounds.
        meter: Scores the requests. None: a meter made from the settings (``RAGMETER_*``), which writes to the
            configured OTLP endpoint, to the store and to the settings' destinations. A given meter is not
            shut down, and its scores are not in the store.
        front: Listens over HTTP already, with options of its own. None: one that `start` starts.

    Raises:
        ConfigurationError: A port is in use, scores would be sent nowhere or to the server itself, or a
            setting is invalid.
    """

    def __init__(
        self, options: ServeOptions | None = None, *, meter: RagMeter | None = None, front: Front | None = None
    ) -> None:
        self._front = front = front or Front(options or ServeOptions())
        self.options, self.access = front.options, front.access
        self.store, self.reader = front.store, front.reader
        self.http_port = front.http_port
        self._limits, self._counts = front.limits, front.counts
        self._certificate = front.certificate
        self._began = time.monotonic()
        self._kafka: KafkaSource | None = None
        journal: Journal | None = None
        try:
            self._own_meter = meter is None
            settings = read_settings()
            self._telemetry = Telemetry(
                self._endpoints() if self._own_meter else {},
                span_mode=settings.span_mode,
                events=settings.events,
            )
            self.meter = self._meter_of_settings() if meter is None else meter
            if self.reader is not None:
                self.reader.know_objectives(self.meter.port.objectives.all)
            forwarded = self._forwarded_to()
            journal = self._journal = self._open_journal(forwarded)
            self._scoring = Scoring(
                self.meter,
                tuple(self.options.retrieval_tools),
                self._limits,
                grace_s=self.options.grace_s,
                idle_s=self.options.idle_s,
                outgoing=lambda: max(self._telemetry.waiting().values(), default=0) < self._limits.outgoing,
                journal=self._journal,
            )
            self.intake = Intake(self._scoring, self._limits, self._counts, self._journal, self.store)
            self._kafka = self._reading_kafka()
            self._readers = Readers(self._limits, self.meter.port.guard("serve.receive"))
            self._grpc = grpc_server(self.intake, self._limits, self._counts, self._readers, self.access)
            self.grpc_port = bind_grpc(self._grpc, self.options, self._certificate)
            refuse_own_address(
                forwarded, self._telemetry.endpoints, self.options.host, (self.http_port, self.grpc_port)
            )
            front.make_page(self.grpc_port)
            tasks = self._tasks()
        except BaseException:
            if journal is not None:
                journal.close()
            if self._kafka is not None:
                self._kafka.finish(1.0, flushed=False)
            front.abandon()
            raise
        self._application = http_application(
            self.intake,
            self._limits,
            self._counts,
            self._readers,
            self.health,
            self.why_not_ready,
            self._pages(),
        )
        self._upkeep = Upkeep(tasks, self.meter.port.guard("serve.store"))

    @property
    def address(self) -> str:
        """The addresses that it listens on and the destination of scores, in one line."""
        http, grpc = self._front.addresses
        return f"OTLP/HTTP on {http}, OTLP/gRPC on {grpc.removeprefix('http://')}, scores to {self._where()}"

    @property
    def durability(self) -> str:
        """What survives a kill of the process, in one line."""
        folder = self._journal.folder
        if folder is not None:
            return f"what is acknowledged is kept in {folder} until its scores are sent"
        return (
            "no spool: what is acknowledged and not scored yet is lost when this process is killed; "
            "--spool DIR keeps it"
        )

    def start(self) -> None:
        """Begin to listen; return once it does."""
        self._upkeep.start()
        self._scoring.start()
        self._journal.start(self.intake.full, self.intake.admit)
        publish(self._telemetry.meter_provider, self._measurements)
        if self.reader is not None:
            publish_gauges(self._telemetry, self.reader, self.meter.port.guard("serve.gauges"))
        if self._kafka is not None:
            self._kafka.start()
        self._watch_received(on=True)
        alarming = self.meter.port.alarming
        self._front.join(
            self._application,
            changes=changes_of(alarming),
            standing=lambda: standing_of(alarming),
            health=self.health,
            heard=self._scoring.reporter.heard,
            report=self.meter.port.log.report,
        )
        self._front.start()
        self._grpc.start()
        self._front.state = "ok"

    def stop(self, timeout_s: float | None = None) -> bool:
        """Stop receiving, score and send the received data, and end.

        Args:
            timeout_s: Most seconds to take; None: that of the options.

        Returns:
            Whether all received requests were scored and sent. `stats` has the numbers of others.
        """
        limit_s = self.options.drain_timeout_s if timeout_s is None else timeout_s
        now = time.monotonic()
        deadline = now + limit_s
        self._front.state = "draining"
        self.intake.close()
        self._front.end_listening()
        receiving_s = min(RECEIVE_S, limit_s / 5)
        if self._kafka is not None:
            self._kafka.stop_reading(receiving_s)
        refused = self._grpc.stop(receiving_s)
        refused.wait(receiving_s + 1.0)
        self._front.wait(now + receiving_s + 1.0 - time.monotonic())
        self._readers.close()
        complete = self._journal.catch_up(now + limit_s * _REPLAY_SHARE)
        complete = self._scoring.drain(now + limit_s * _DRAIN_SHARE) and complete
        if self._own_meter:
            share = (deadline - time.monotonic()) / 2
            complete = self._finish(share) and complete
            self._telemetry.end(deadline)
            self.meter.shutdown(max(0.1, deadline - time.monotonic() - 1.0))
        else:
            complete = self._finish(deadline - time.monotonic()) and complete
            self._watch_received(on=False)
        self._telemetry.close(deadline)
        complete = complete and not any(self._telemetry.waiting().values())
        self._upkeep.stop(RECEIVE_S)
        self._journal.close()
        self._front.close()
        forget_paths(self.options)
        self._front.state = "ended"
        return complete

    def _watch_received(self, *, on: bool) -> None:
        """Have the meter watch over scores that applications computed themselves, if it watches."""
        alarming = self.meter.port.alarming
        if self.store is None or self.reader is None or alarming is None:
            return
        if on:
            alarming.look_elsewhere(ScoredElsewhere(self.reader), StoredClaims(self.store))
        else:
            alarming.look_elsewhere(None)

    def _finish(self, timeout_s: float) -> bool:
        """Send all received and waiting data; return whether everything was sent."""
        deadline = time.monotonic() + timeout_s
        flushed = self.meter.flush(max(0.1, timeout_s))
        if self._kafka is not None:
            self._kafka.finish(max(1.0, (deadline - time.monotonic()) / 2), flushed=flushed)
        return self._journal.finish(deadline, flushed=flushed) and flushed

    def stats(self) -> Mapping[str, Mapping[str, int]]:
        """Return the number of received requests, by outcome.

        ``exports``: export requests by outcome. ``connections``: HTTP connections closed by the server, by
        reason. ``spans``: spans of accepted requests: ``read`` (searched for requests), ``waiting``, or the
        reason why they were not read. ``requests``: the requests found: ``scored``, ``in_flight``,
        ``captured`` (scored in the application by a callback of ragmeter's) or the reason why they were not
        scored. ``partial``: ``requests`` among them with a missing part. ``unsent``: spans and events of
        scores that no endpoint accepted. ``spool``: export requests that are stored, or were damaged or
        refused there. ``forwarded``: export requests to forward, by outcome. ``messages``: messages read from
        Kafka: ``accepted``, or the reason why they were ignored.
        """
        meter = self.meter.stats()
        spans = dict(self._counts.totals("spans")) | dict(self._scoring.spans_by_outcome())
        requests = {"scored": meter.exported, "in_flight": meter.in_flight, **meter.dropped}
        captured = self._scoring.reporter.captured
        partial = self._scoring.reporter.partial
        if captured:
            requests["captured"] = captured
        return {
            "exports": self._counts.totals("exports"),
            "spans": spans,
            "requests": {name: count for name, count in requests.items() if count},
            "partial": {"requests": partial} if partial else {},
            **({"connections": closed} if (closed := self._counts.totals("connections")) else {}),
            "unsent": self._telemetry.unsent(),
            **self._journal.stats(),
            **({} if self._kafka is None else {"messages": self._kafka.messages()}),
        }

    def _measurements(self) -> Mapping[str, Mapping[str, int]]:
        counts = {**self.stats(), "open": {"connections": self._counts.open_connections}}
        kept = self._journal.kept()
        if kept is not None:
            counts["kept"] = {"oldest_s": int(kept.oldest_s), "bytes": kept.bytes}
        kafka = self._kafka_health()
        if kafka is not None:
            counts["kafka"] = {"connected": int(kafka.why_not is None)}
            counts["lag"] = {partition.rpartition("/")[2]: behind for partition, behind in kafka.lag.items()}
        return counts

    def health(self) -> Mapping[str, Any]:
        """Return the server's health: ``status`` is ``ok``, or the reason why it accepts nothing at the moment.

        In addition to `stats`: the received requests of each service by outcome, such as ``to_score``
        (``heard``), the waiting data (``held``), the periods in which senders were asked to retry
        (``overloads``), the posted and failed changes (``webhook``), the state of the ``store``, if any, and
        whether acknowledged requests survive a kill (``durable``). None of it is secret: any client may read
        it.
        """
        held, kept = self._scoring.held(), self._journal.kept()
        alarming = self.meter.port.alarming
        deliveries = None if alarming is None else alarming.deliveries()
        state = self._front.state
        if state == "ok":
            state = self.intake.busy() or self.intake.trouble or "ok"
        return {
            "status": state,
            "durable": self._journal.folder is not None,
            "oldest_acknowledged_s": round(0.0 if kept is None else kept.oldest_s, 1),
            "uptime_s": round(time.monotonic() - self._began, 1),
            **self.stats(),
            "heard": self._scoring.heard(),
            "held": held._asdict(),
            "overloads": [asdict(one) for one in self._counts.overloads()],
            **({} if deliveries is None else {"webhook": deliveries._asdict()}),
            **({} if self.store is None else {"store": asdict(self.store.state())}),
            "partial_traces": self._scoring.partial(),
            "unsent_waiting": self._telemetry.waiting(),
            **({} if self._kafka is None else {"kafka": asdict(self._kafka.health())}),
        }

    def why_not_ready(self) -> str | None:
        """Return why nothing should be sent here at the moment, or None."""
        if self._front.state != "ok":
            return self._front.state
        if self._journal.fill() > _FULL_SHARE:
            return "the spool is nearly full"
        kafka = self._kafka_health()
        busy = self.intake.busy() or self.intake.trouble or self._readers.why_not()
        return busy or (None if kafka is None else kafka.why_not)

    @property
    def url(self) -> str:
        """The page's address, with the token if it may be printed: not for logs that others can read."""
        return self._front.url

    @property
    def view_url(self) -> str | None:
        """The address for viewers; None: no viewers' token, or it was printed before."""
        return self._front.view_url

    def _tasks(self) -> list[Callable[[], bool]]:
        alarming = self.meter.port.alarming
        heard, changes = self._scoring.reporter.heard, changes_of(alarming)
        tasks = [self._journal.try_again]
        if self.store is not None:
            tasks.append(self.store.maintain)
        if self.reader is not None and alarming is not None:
            tasks.append(partial(report_worse_versions, self.reader, alarming.tell, alarming.watch.changes))
        tasks += digests(self.options, self.reader, self.store, heard, changes, self.http_port)
        if self._certificate is not None:
            tasks.append(self._certificate.renew)
        return tasks

    def _pages(self) -> list[BaseRoute]:
        guard = self.meter.port.guard("serve.api")
        routes: list[BaseRoute] = [*watch_routes(self.meter, guard, self.store)]
        page = self._front.page
        if self.reader is not None and page is not None:
            routes += api_routes(
                self.reader,
                changes_of(self.meter.port.alarming),
                self._counts.overloads,
                guard,
                page.rate,
                self._scoring.reporter.heard,
            )
            routes += page.routes()
        return routes

    def _meter_of_settings(self) -> RagMeter:
        options = self.options
        # It gets the requests of all processes, so it can detect changes best.
        given = scoring_arguments(watches=True)
        if options.references is not None:
            given["references"] = options.references
        others = [one for one in given["exporters"] if not isinstance(one, OpenTelemetryExporter)]
        if self._telemetry.endpoints:
            others.insert(0, self._telemetry)
        if self.store is not None:
            others.insert(0, self.store)
        if not others:
            raise ConfigurationError(
                "nobody would get the scores: set OTEL_EXPORTER_OTLP_ENDPOINT (or --otlp URL) to where they "
                "are to be sent, or RAGMETER_JSONL to a file, or keep them with --store"
            )
        given["exporters"] = others
        if options.objectives:
            given["scoring"] = replace(given["scoring"], objectives=tuple(options.objectives))
        # Nothing attaches a reference or feedback to requests of others.
        given["limits"] = replace(given["limits"], late_window=0)
        alarms = given["alarms"]
        given["alarms"] = replace(
            alarms,
            webhook=alarms.webhook if options.webhook is None else options.webhook,
            page=page_address(options, self.http_port),
            language=options.language or alarms.language,
            state=self._watch_state() or alarms.state,
        )
        return RagMeter(**given)

    def _watch_state(self) -> Path | None:
        """Return the file of the detectors' baselines; None: that of the settings."""
        spool = self.options.spool
        if read_settings().alarms_state is not None:
            return None
        if spool is not None:
            spool.mkdir(mode=0o700, parents=True, exist_ok=True)
            return spool / "watch.json"
        return self._beside_store("watch.json")

    def _beside_store(self, what: str) -> Path | None:
        """Return the path of a file stored beside the database; None if nothing is stored."""
        store = self.options.store
        if store is None or self.store is None or self.store.beside is None:
            return None
        return self.store.beside / f"{'store' if store.path is None else store.path.name}.{what}"

    def _open_spool(self) -> Spool | None:
        options = self.options
        if not options.durable:
            return None
        if options.spool is not None:
            return Spool(options.spool, max_bytes=options.max_spool_bytes)
        folder = self._beside_store("spool")
        if folder is None:
            return None
        return Spool.first_free(folder, max_bytes=options.max_spool_bytes)

    def _forwarded_to(self) -> Mapping[Signal, Endpoint]:
        if not self.options.forward:
            return {}
        wanted = self._endpoints()
        found = {signal: wanted[signal] for signal in get_args(Signal) if signal in wanted}
        if "traces" not in found:
            raise ConfigurationError(
                "--forward has nowhere to pass spans on to: set OTEL_EXPORTER_OTLP_ENDPOINT (or --otlp URL)"
            )
        return found

    def _endpoints(self) -> Mapping[str, Endpoint]:
        return endpoints(self.options.otlp, self.options.protocol, self.options.signals)

    def _open_journal(self, forwarded: Mapping[Signal, Endpoint]) -> Journal:
        options = self.options
        spool = self._open_spool()
        ledger = (
            None
            if spool is None
            else Ledger(
                spool,
                self.meter.flush,
                forwards=forwarded.__contains__,
                logs_wait_s=options.idle_s,
                interval_s=options.settle_s,
            )
        )
        forwarder = (
            Forwarder(
                forwarded,
                self.meter.port.guard("serve.forward"),
                max_bytes=self._limits.forward_bytes,
                settled=None if ledger is None else ledger.note_forwarded,
            )
            if forwarded
            else None
        )
        return Journal(spool, ledger, forwarder, self.meter.port.guard("serve.replay"))

    def _reading_kafka(self) -> KafkaSource | None:
        options = self.options
        if options.kafka is None:
            return None
        from ._kafka import KafkaSource  # noqa: PLC0415 -- an extra of its own

        source = KafkaSource(
            options.kafka,
            self.intake,
            lambda offsets: Ledger(offsets, self.meter.flush, interval_s=options.settle_s),
            self._scoring.assembler.forget,
            self._limits,
            self.meter.port.guard("serve.kafka"),
        )
        self._journal.watch(source.ledger)
        return source

    def _kafka_health(self) -> KafkaHealth | None:
        return None if self._kafka is None else self._kafka.health()

    def _where(self) -> str:
        places = list(dict.fromkeys(endpoint.origin for endpoint in self._telemetry.endpoints.values()))
        if self._own_meter:
            jsonl = read_settings().jsonl
            places += [jsonl] if jsonl is not None else []
        if not places and self.store is not None:
            return "the store alone"
        return ", ".join(places) or "the exporters of its meter"
