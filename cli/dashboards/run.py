"""``ragmeter dashboards``: writes dashboard, rules and stack into a directory. Called by `app`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import typer

from ragmeter.cli._console import Console
from ragmeter.metrics import ConfigurationError
from ragmeter.quality.objectives import Objective, Objectives, parse_objectives

from .rules import rules_text

STACK = (
    "collector.yaml",
    "compose.yaml",
    "grafana/provisioning/dashboards/ragmeter.yaml",
    "grafana/provisioning/datasources/ragmeter.yaml",
    "loki.yaml",
    "prometheus/prometheus.yml",
    "tempo.yaml",
)
"""Files of ``stack/`` that are written unchanged."""
RULES_HEAD = "# Written by `ragmeter dashboards`. Names come from ragmeter itself; thresholds are yours.\n"


def dashboard_files(objectives: Sequence[Objective] = ()) -> dict[str, str]:
    """Return the texts of all files, by path with slashes, relative to the chosen directory."""
    folder = files("ragmeter.cli.dashboards")
    places = {path: f"stack/{path}" for path in STACK}
    # Under its final name, packaging would take it for a page about this folder.
    places["README.md"] = "stack/start.md"
    places["grafana/dashboards/ragmeter.json"] = "dashboard.json"
    texts = {
        path: folder.joinpath(*place.split("/")).read_text(encoding="utf-8") for path, place in places.items()
    }
    texts["prometheus/ragmeter.rules.yml"] = RULES_HEAD + rules_text(objectives=objectives)
    return dict(sorted(texts.items()))


def write_dashboards(directory: Path, *, force: bool = False, objectives: Sequence[str] = ()) -> list[Path]:
    """Write all files below `directory` and return their paths.

    Args:
        directory: The directory; created if missing.
        force: Replace files that were edited since.
        objectives: Objectives in the form of `parse_objective`.

    Raises:
        ConfigurationError: A file exists with other content and `force` is off, or cannot be written; an
            objective is invalid, or there are two for the same score of a workflow.
    """
    known = Objectives(parse_objectives(objectives)).all()
    texts = {directory / path: text for path, text in dashboard_files(known).items()}
    try:
        if not force:
            edited = [
                str(path)
                for path, text in texts.items()
                if path.exists() and path.read_bytes() != text.encode()
            ]
            if edited:
                raise ConfigurationError(
                    f"{', '.join(edited)} would be overwritten; pass --force or another --out"
                )
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write to {directory}: {error}") from error
    return list(texts)


def print_written(written: list[Path], directory: Path, console: Console) -> None:
    """Print the written files and the next steps."""
    for path in written:
        typer.echo(str(path))
    console.print_line(
        f"\nTry it: cd {directory} && docker compose up, then http://localhost:3000. "
        "To use parts of it, see README.md there."
    )
