"""Environments of benchmark processes: the peers' virtual environments, and a worker's variables.

`measure.py` and the scripts that start processes call this. A worker gets a copy of this checkout installed
as by pip, settings against telemetry of packages, and the data files that packages would otherwise download.
Nothing here measures.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

QUIET = {
    # Installed packages have their bytecode; without it, every start would compile ragmeter's again.
    **{key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
    # No package phones home: that is not for a benchmark to allow, and there may be no network.
    "ANONYMIZED_TELEMETRY": "false",
    "CONTINUOUS_EVAL_DO_NOT_TRACK": "true",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "NO",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGFUSE_HOST": "http://127.0.0.1:9",
    "LANGSMITH_TRACING": "false",
    "POSTHOG_DISABLED": "1",
    "RAGAS_DO_NOT_TRACK": "true",
    "TRACELOOP_TELEMETRY": "false",
    "TRULENS_TELEMETRY": "false",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONWARNINGS": "ignore",
}
"""The environment variables of every peer's process."""


def env_dir(name: str, into: Path = ROOT) -> Path:
    """Return the path of the virtual environment `name` of `peers.toml`, existing or not."""
    return into / f".venv-bench-{name}"


def env_python(name: str, into: Path = ROOT) -> Path:
    """Return its interpreter."""
    return env_dir(name, into) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def peer_states(name: str, into: Path = ROOT) -> dict[str, str]:
    """Return ``ok`` or the reason for its absence for each peer of an environment."""
    report = env_dir(name, into) / "bench-peers.json"
    return json.loads(report.read_text())["peers"] if report.exists() else {}


def peer_versions(name: str, into: Path = ROOT) -> dict[str, str]:
    """Return the versions installed in an environment."""
    report = env_dir(name, into) / "bench-peers.json"
    found = json.loads(report.read_text())["versions"] if report.exists() else {}
    return {canonical(name): version for name, version in found.items()}


def canonical(name: str) -> str:
    """Return a distribution's name as requirements spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_copy() -> str:
    """Return a folder from which this checkout imports as `ragmeter`, in any interpreter.

    A copy, so that its bytecode is stored as an installation's is, and so that an edit of the checkout does
    not change the measured code.
    """
    folder = Path(tempfile.mkdtemp(prefix="ragmeter-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = folder / "ragmeter"
    stale = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "core", package, ignore=stale)
    for room in ("metrics", "exporters", "adapters", "serve", "fleet", "cli"):
        shutil.copytree(ROOT / room, package / room, ignore=stale)
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    facts = folder / f"ragmeter_otel-{version[1]}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ragmeter-otel\nVersion: {version[1]}\n")
    return str(folder)


def llama_index_data() -> Path | None:
    """Return the data folder of an installed llama-index-core: a peer's, or this environment's."""
    pattern = "lib/*/site-packages/llama_index/core/_static"
    for found in env_dir("llama-index", _peers_dir[0]).glob(pattern):
        return found
    try:
        spec = importlib.util.find_spec("llama_index.core")
    except ModuleNotFoundError:
        return None
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))) / "_static" if places else None


_copy: list[str] = []
_peers_dir = [ROOT]


def use_peers_in(into: Path) -> None:
    """Set, once and first, the folder of the peers' environments; default: the checkout."""
    _peers_dir[0] = into


def child_environment() -> dict[str, str]:
    """Return the environment variables of a worker: quiet, and with this checkout of ragmeter importable."""
    if not _copy:
        _copy.append(installed_copy())
    here = str(Path(__file__).resolve().parent)
    path = {"PYTHONPATH": os.pathsep.join([_copy[0], here])}
    # llama-index-core ships the sentence model and the token table that others would download.
    static = llama_index_data()
    if static is not None and static.is_dir():
        path |= {"NLTK_DATA": str(static / "nltk_cache"), "TIKTOKEN_CACHE_DIR": str(static / "tiktoken_cache")}
    return {**QUIET, **path}
