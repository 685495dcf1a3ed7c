"""Writes docs/configuration.md from the settings model: ``python docs/configuration.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args, get_origin

from ragmeter.settings.config import PREFIX, Settings, argument_of, unit_of

PAGE = Path(__file__).with_suffix(".md")

IN_CODE_ONLY = {
    "judge": "An `OpenAIJudge`, or any other object of that protocol; from the environment: the variables below.",
    "verdict": "`ragmeter.VerdictRules`, when a request is good, suspect or bad; from the environment: the variables below.",
    "embedder": "What turns texts into vectors for semantic metrics; from the environment: the variables below.",
    "redact": "A function that sees every text first and returns what may be seen; see [production](production.md).",
}
"""Arguments of `RagMeter` that are objects, and so have no variable."""

HEAD = """\
# Configuration

`RagMeter(...)` takes these arguments; `RagMeter.from_env()` and instrumentation without code read the variables.
Each variable can also be given as `OTEL_INSTRUMENTATION_RAGMETER_...`, and so, but for the key, as a flag:
`opentelemetry-instrument --instrumentation_ragmeter_sample_rate 0.1 python app.py`. The short name wins. An empty
variable counts as unset. A wrong value raises a `ConfigurationError` that names the variable, the value and what is
allowed. `ragmeter doctor` says what is set, and which names are misspelled.

Commands have variables of their own: `RAGMETER_SERVE_STORE`, `RAGMETER_SERVE_TOKEN` and `RAGMETER_SERVE_VIEW_TOKEN` are
[`ragmeter serve`](command-line.md#ragmeter-serve)'s, `RAGMETER_DEMO_MODEL` is `ragmeter demo`'s, `RAGMETER_DOCTOR` (`1`) has
[`ragmeter doctor`](command-line.md#ragmeter-doctor) examine any process, and `RAGMETER_STARTUP` is set by the commands
that run a program, for that program.

This page is written by `python docs/configuration.py` from `ragmeter.settings.config.Settings`.
"""

TABLES = (
    ("The meter: `RagMeter(...)`", ""),
    ("The verdict: `verdict=ragmeter.VerdictRules(...)`", "VerdictRules("),
    ("The judge: `ragmeter.metrics.judge`", "Judge(|JudgeBudget(|SharedBudget("),
    ("The embedder: `ragmeter.metrics.embedder`", "OpenAIEmbedder("),
    ("Exporters", "Exporter("),
    ('Scoring elsewhere: `scoring="queue"`', "FleetPublisher(|ragmeter worker"),
    ("Instrumentation without code", "instrument("),
)


NOTES = {
    TABLES[-2][0]: """\
With `RAGMETER_SCORING=queue` an application captures, samples, redacts, looks references up, writes its requests' own
spans, and publishes the requests; [`ragmeter worker`](command-line.md#ragmeter-worker) scores them and writes what it
finds below those spans. Each side reads what concerns it, so both may have the same variables: the application
reads sampling (`RAGMETER_SAMPLE_RATE`, `RAGMETER_JUDGE_SAMPLE_RATE`, `RAGMETER_KEEP`), `RAGMETER_REFERENCES`, the
window for late references, the bounds of its queue and `RAGMETER_SPAN_MODE`; the worker reads metrics, judge, embedder,
thresholds, objectives, segments and exporters, and takes sampling as it was decided. `RAGMETER_HOLD_S` has no meaning
here: spans leave at once. `RAGMETER_KEEP=worst` keeps failed requests and empty retrievals from sampling, as the
application knows no scores; of what the worker is sent, it judges the bad ones.

In code: `RagMeter(scoring="queue")`, with `exporters=` only if the spans go to providers of your own, or
`RagMeter(metrics=[], exporters=[spans, FleetPublisher("spool:///dir", spans=spans)])` with
`ragmeter.fleet.publisher.FleetPublisher`. `stats().dropped` counts what was not published, `exported` what was.
A password in `RAGMETER_QUEUE_URL` is never shown. Texts leave the process: redaction comes before, `spool:///dir` is
readable for its owner only, and a broker needs TLS.""",
}
"""What stands below a table, by its title."""


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD.rstrip("\n")]
    for title, kinds in TABLES:
        parts.append(f"\n## {title}\n\n| argument | variable | unit | default | meaning |")
        parts.append("|---|---|---|---|---|")
        parts += [_row(field) for field in Settings.model_fields if _belongs(field, kinds)]
        if not kinds:
            parts += [f"| `{name}` | | | | {said} |" for name, said in IN_CODE_ONLY.items()]
        if title in NOTES:
            parts.append(f"\n{NOTES[title]}")
    return "\n".join(parts) + "\n"


def _belongs(field: str, kinds: str) -> bool:
    argument = argument_of(field)
    return any(kind in argument for kind in kinds.split("|")) if kinds else argument == field


def _row(field: str) -> str:
    info = Settings.model_fields[field]
    default = "" if info.default is None else f"`{_plain(info.default)}`"
    meaning = " ".join((info.description or "").replace("``", "`").split())
    if get_origin(info.annotation) is Literal:
        words = ", ".join(f"`{word}`" for word in get_args(info.annotation))
        meaning += f" One of {words}."
    variable = PREFIX + field.upper()
    return f"| `{argument_of(field)}` | `{variable}` | {unit_of(field)} | {default} | {meaning} |"


def _plain(default: object) -> object:
    return str(default).lower() if isinstance(default, bool) else default


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
