"""Writes docs/configuration.md from the settings model: ``python docs/configuration.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args, get_origin

from ragmeter.config import PREFIX, Settings, argument_of, unit_of

PAGE = Path(__file__).with_suffix(".md")

IN_CODE_ONLY = {
    "judge": "An `OpenAIJudge`, or any other object of that protocol; from the environment: the variables below.",
    "verdict": "`ragmeter.VerdictRules`, when a request is good, suspect or bad; from the environment: the variables below.",
    "embedder": "What turns texts into vectors for semantic metrics; from the environment: the variables below.",
    "exporters": 'Where results go: `"console"`, `"otel"`, or a list of names and exporters; default: OpenTelemetry.',
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

This page is written by `python docs/configuration.py` from `ragmeter.config.Settings`.
"""

TABLES = (
    ("The meter: `RagMeter(...)`", ""),
    ("The verdict: `verdict=ragmeter.VerdictRules(...)`", "VerdictRules("),
    ("The judge: `ragmeter.metrics.judge`", "Judge(|JudgeBudget(|SharedBudget("),
    ("The embedder: `ragmeter.metrics.embedder`", "OpenAIEmbedder("),
    ("Exporters", "Exporter("),
    ("Instrumentation without code", "instrument("),
)


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD.rstrip("\n")]
    for title, kinds in TABLES:
        parts.append(f"\n## {title}\n\n| argument | variable | unit | default | meaning |")
        parts.append("|---|---|---|---|---|")
        parts += [_row(field) for field in Settings.model_fields if _belongs(field, kinds)]
        if not kinds:
            parts += [f"| `{name}` | | | | {said} |" for name, said in IN_CODE_ONLY.items()]
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
