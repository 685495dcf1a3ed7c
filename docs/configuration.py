"""Writes docs/reference/settings.md from the settings model: ``python docs/configuration.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args, get_origin

from ragmeter.settings.config import PREFIX, Settings, argument_of, unit_of

PAGE = Path(__file__).parent / "reference" / "settings.md"

IN_CODE_ONLY = {
    "judge": "An `OpenAIJudge`, or any other object of that protocol; from the environment: the variables below.",
    "embedder": "What turns texts into vectors for semantic metrics; from the environment: the variables below.",
    "detector": "What finds unsupported spans in an answer; see [metrics](../metrics.md).",
    "sampling": "`ragmeter.Sampling(...)`, below.",
    "limits": "`ragmeter.Limits(...)`, below.",
}
"""Arguments of `RagMeter` that are objects, and so have no variable."""

HEAD = """\
# Settings

Written by `python docs/configuration.py` from `ragmeter.settings.config.Settings`. The rules: [configuration](../configuration.md).
"""

TABLES = (
    ("The meter: `RagMeter(...)`", ""),
    (
        "Groups of its arguments: `sampling=`, `limits=`, `alarms=`, `scoring=`",
        "Sampling(|Limits(|Alarms(|Scoring(",
    ),
    ("The verdict: `Scoring(verdict=ragmeter.VerdictRules(...))`", "VerdictRules("),
    ("The judge: `ragmeter.metrics.judge`", "Judge(|JudgeBudget(|SharedBudget("),
    ("The embedder: `ragmeter.metrics.embedder`", "OpenAIEmbedder("),
    ("Exporters", "Exporter("),
    ('Scoring elsewhere: `scoring="queue"`', "FleetPublisher(|ragmeter worker"),
    ("Instrumentation without code", "instrument(|SpanProcessor("),
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
