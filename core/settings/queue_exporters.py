"""The exporters of a meter that publishes requests instead of scoring them: ``RagMeter(scoring="queue")``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points

from ragmeter.exporters.protocol import Exporter
from ragmeter.metrics import ConfigurationError

from .config import naming, read_settings, variable_of
from .destinations import exporters_of
from .from_settings import spans_exporter

__all__ = ["queued_exporters"]


def queued_exporters(
    given: str | Sequence[str | Exporter] | None,
    theirs: Mapping[str, object],
    *,
    judge_sample_rate: float,
) -> tuple[Exporter, ...]:
    """Return the exporters of a publishing meter: its own, and a `FleetPublisher` from the settings.

    Args:
        given: The meter's own exporters; None: OpenTelemetry.
        theirs: Arguments of the meter that only workers take; any that is set is refused.
        judge_sample_rate: Probability that a request is judged.

    Raises:
        ConfigurationError: The queue has no URL, or an argument is for workers.
        MissingDependencyError: The package for this kind of queue is not installed.
    """
    wrong = [name for name, value in theirs.items() if value is not None]
    if wrong:
        raise ConfigurationError(
            f"scoring='queue' takes no {', '.join(wrong)}: `ragmeter worker` scores, by its own settings "
            "(RAGMETER_METRICS, RAGMETER_JUDGE_MODEL, ...); leave them out here"
        )
    settings = read_settings()
    if settings.queue_url is None:
        raise ConfigurationError(
            f"scoring='queue' needs a queue; set {variable_of('queue_url')}, e.g. "
            "spool:///var/lib/ragmeter/queue"
        )
    own = (spans_exporter(settings),) if given is None else exporters_of(given)
    spans = next((one for one in own if hasattr(one, "judged_spans")), None)
    with naming("queue_url", hidden=True):
        publisher = _publisher_class()(
            settings.queue_url.get_secret_value(),
            spans=spans,
            batch=settings.queue_batch,
            linger_s=settings.queue_linger_s,
            patience_s=settings.queue_patience_s,
            confirm_s=settings.queue_confirm_s,
            spool=settings.queue_spool,
            spool_bytes=settings.queue_spool_bytes,
            judge_sample_rate=judge_sample_rate,
        )
    return (*own, publisher)


def _publisher_class() -> Callable[..., Exporter]:
    # By its entry point: `fleet` is a layer above, which this one must not import.
    found = entry_points(group="ragmeter.exporters", name="queue")
    made: Callable[..., Exporter] = next(iter(found)).load()
    return made
