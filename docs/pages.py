"""Builds the documentation site from the repository's own pages, docstrings and commands, strictly.

`make docs` and `.ci/docs` run it with the interpreter of an environment that has the extra `[docs]`.
Everything is staged under build/: pages keep their places relative to each other, so that a link works on
the site, in a checkout and in an editor. A link to a public source file becomes a link to its API page, and
a link to any other file that the site does not show becomes its words alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PAGES = BUILD / "docs"
PACKAGES = {
    "metrics": "ragmeter.metrics",
    "exporters": "ragmeter.exporters",
    "core": "ragmeter",
    "adapters": "ragmeter.adapters",
    "serve": "ragmeter.serve",
    "fleet": "ragmeter.fleet",
    "testing": "ragmeter.testing",
    "cli": "ragmeter.cli",
}
GUIDE = (
    "start.md", "first-ten-minutes.md", "coming-from.md",
    "langchain.md", "llama-index.md", "already-traced.md", "recipes.md",
    "verdict.md", "metrics.md", "judge.md", "serve.md", "glossary.md",
    "quality.md", "dashboards.md", "backends.md",
    "improve.md", "golden-sets.md", "evaluate.md", "testing.md",
    "production.md", "scale.md", "configuration.md", "command-line.md", "troubleshooting.md", "support.md", "reference.md",
)  # fmt: skip
PROJECT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")

_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def public_modules() -> dict[Path, str]:
    """Return the import name of every module that has no underscore in its path, by its file."""
    found = {}
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            if not any(part.startswith("_") for part in parts):
                found[path] = ".".join((package, *parts))
    return found


def written_pages() -> list[Path]:
    """Return every Markdown file that the site shows, in the order of its table of contents."""
    folders = [ROOT / folder / "README.md" for folder in (*PACKAGES, "tests", "benchmarks")]
    decisions = sorted((ROOT / "docs" / "decisions").glob("*-*.md"))
    files = [
        ROOT / "README.md",
        *(ROOT / "docs" / name for name in GUIDE),
        ROOT / "docs" / "reference" / "settings.md",
        *folders,
        ROOT / "docs" / "decisions" / "README.md",
        *decisions,
        *(ROOT / name for name in PROJECT),
    ]
    return [path for path in files if path.exists()]


def stage() -> None:
    """Write the pages, the table of contents and a tree of the source under its import names."""
    for stale in (PAGES, BUILD / "source", BUILD / "site"):
        shutil.rmtree(stale, ignore_errors=True)
    modules = public_modules()
    places = {path: PAGES / path.relative_to(ROOT) for path in written_pages()}
    places[ROOT / "README.md"] = PAGES / "index.md"
    places |= {path: PAGES / "api" / f"{name}.md" for path, name in modules.items()}
    for path, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        text = f"::: {modules[path]}\n" if path in modules else _relinked(path, places)
        place.write_text(text, encoding="utf-8")
    for name, text in reference.pages().items():
        places[ROOT / "docs" / name] = place = PAGES / "docs" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    source = BUILD / "source" / "ragmeter"
    shutil.copytree(ROOT / "core", source)
    for folder in PACKAGES.keys() - {"core"}:
        shutil.copytree(ROOT / folder, source / folder)
    settings = (ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
    contents = "\n".join(["", "nav:", *_contents(places, modules), ""])
    (BUILD / "mkdocs.yml").write_text(settings + contents, encoding="utf-8")


def _relinked(path: Path, places: dict[Path, Path]) -> str:
    """Return a page's text whose links lead to what is staged."""

    def staged(link: re.Match[str]) -> str:
        words, target, anchor = link.groups()
        goal = (path.parent / target).resolve()
        if not goal.exists():
            raise SystemExit(f"{path.relative_to(ROOT)}: the link to {target} leads nowhere")
        place = places.get(goal)
        if goal.suffix in (".png", ".svg"):
            place = PAGES / goal.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(goal, place)
        if place is None:
            return words
        return f"[{words}]({os.path.relpath(place, places[path].parent)}{anchor or ''})"

    parts = _FENCED.split(path.read_text(encoding="utf-8"))
    return "".join(p if p.startswith("```") else _LINK.sub(staged, p) for p in parts)


def _contents(places: dict[Path, Path], modules: dict[Path, str]) -> list[str]:
    """Return the table of contents as lines of YAML."""
    groups: dict[str, list[str]] = {}
    for path, place in places.items():
        page = place.relative_to(PAGES)
        if path in modules:
            group, title = "API", modules[path]
        else:
            first = place.read_text(encoding="utf-8").partition("\n")[0]
            title = first.lstrip("# ").replace("`", "").replace('"', "'")
            top = path.relative_to(ROOT).parts[0]
            group = {"README.md": "", "docs": "Guide"}.get(top, "Folders")
            if path.parent == ROOT / "docs" / "decisions":
                group = "Decisions"
            elif path.parent == ROOT / "docs" / "reference":
                group = "Reference"
            elif top in PROJECT:
                group = "Project"
        groups.setdefault(group, []).append(f'"{title}": {page.as_posix()}')
    lines = []
    for group in ("", "Guide", "Reference", "API", "Folders", "Decisions", "Project"):
        entries = groups.get(group, [])
        indent = "      - " if group else "  - "
        lines += [f'  - "{group}":'] * bool(group) + [indent + entry for entry in entries]
    return lines


def main() -> None:
    """Stage and build; the exit code is the builder's."""
    BUILD.mkdir(exist_ok=True)
    stage()
    zensical = Path(sysconfig.get_path("scripts")) / "zensical"
    command = [str(zensical), "build", "--strict", "--clean", "-f", str(BUILD / "mkdocs.yml")]
    raise SystemExit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
