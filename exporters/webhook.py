"""`ChangeWebhook`: post every change of quality as JSON to a URL, such as a chat's webhook.

The body has one sentence under ``text``, which Slack, Mattermost and similar chats show, with a link to the
requests if the page is known, and the change's fields. It has no text of a request. Called on the meter's
notifier thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlencode

from ._http import Delivery
from .changes import MeanWithInterval, QualityChange

__all__ = ["ChangeWebhook", "change_body"]

TIMEOUT_S = 10.0


class ChangeWebhook:
    """Posts changes, each in one attempt: retries are up to the caller. The address is shown only as its host.

    Args:
        url: Destination; http or https.
        page: Address of the page of ``ragmeter serve``, for links to requests; None: no links.
        timeout_s: Seconds for one attempt.

    Raises:
        ConfigurationError: `url` is not an address.
        MissingDependencyError: httpx is not installed.
    """

    def __init__(self, url: str, *, page: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self._page = None if page is None else page.rstrip("/")
        self._delivery = Delivery(
            "the webhook for changes", url, {}, timeout_s=timeout_s, what="the change", hides_path=True
        )

    def changed(self, change: QualityChange, sentence: str, resource: Mapping[str, str]) -> None:
        """Post a change; `sentence` is one sentence.

        Raises:
            NotTakenError: It was not accepted, and may be later.
            DeliveryError: It was refused.
        """
        del resource  # the change names the service
        body = change_body(change, sentence)
        if self._page is not None:
            body["link"] = f"{self._page}{_path_of(change)}"
            body["text"] += f" {body['link']}"
        self._post(body)

    def digest(self, text: str) -> None:
        """Post the summary of a day or a week, as Markdown under ``text``.

        Raises:
            NotTakenError: As `changed`.
            DeliveryError: As `changed`.
        """
        self._post({"text": text if self._page is None else f"{text}\n\n{self._page}/"})

    def _post(self, body: Mapping[str, Any]) -> None:
        self._delivery.post_once("", body)

    def close(self) -> None:
        """Release the connections."""
        self._delivery.close()

    def __repr__(self) -> str:
        return f"<ChangeWebhook {self._delivery.shown_address}>"


def change_body(change: QualityChange, sentence: str) -> dict[str, Any]:
    """Return a change as JSON values."""
    return {
        "text": f"ragmeter: {sentence}",
        "kind": change.kind,
        "score": change.score,
        "workflow": change.workflow,
        "segment": change.segment,
        "service": change.service,
        "since": _time(change.since),
        "at": _time(change.at),
        "before": _mean(change.before),
        "now": _mean(change.now),
        "evidence": change.evidence,
        "notes": [{"code": one.code, "values": one.values} for one in change.notes],
        "new": [
            {"name": one.name, "value": one.value, "at": _time(one.at), "requests": one.requests}
            for one in change.new
        ],
    }


def _path_of(change: QualityChange) -> str:
    """Return the page's path to the list of a change's requests, the worst first."""
    if change.kind == "judge":  # the change is not about requests
        return "/"
    query = {
        "service": change.service,
        "workflow": change.workflow,
        "seg": change.segment,
        "since": int(change.since * 1000),
    }
    return f"/requests?{urlencode({name: value for name, value in query.items() if value})}"


def _mean(mean: MeanWithInterval) -> dict[str, float | None]:
    return {"mean": mean.mean, "lower": mean.lower, "upper": mean.upper}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="seconds")
