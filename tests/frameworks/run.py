"""Run the frameworks' own test suites with ragmeter attached to the process, and without.

    python tests/frameworks/run.py [--full] [--suite NAME] [--folder FOLDER] [--freeze]

Attaching ragmeter must not change the frameworks' behaviour, as defined by the suites of LangChain, LangGraph
and LlamaIndex (``suites.toml``): each runs twice, with equal results except for tests that count listeners.
Failures without ragmeter are counted, and are no problem as long as half of a suite passes; ragmeter's guards
must not have contained errors, and no request may be open at the end. Suites and environments are created in
a folder outside the checkout. Exit status: 0 the same, 1 a difference, 2 a suite could not be run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    raise SystemExit("this command reads TOML: run it with Python 3.11 or newer")

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
PER_TEST_S = 120
PER_SUITE_S = 1800


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested suites; return the exit status."""
    options = _parser().parse_args(arguments)
    described = tomllib.loads((HERE / "suites.toml").read_text(encoding="utf-8"))
    suites = [
        suite
        for suite in described["suites"]
        if not options.suite or suite["distribution"].partition("==")[0] in options.suite
    ]
    if not suites:
        raise SystemExit(f"no such suite: {', '.join(options.suite)}")
    folder = Path(options.folder or tempfile.mkdtemp(prefix="ragmeter-frameworks-")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    environments: dict[str, Path] = {}
    status = 0
    for suite in suites:
        name = suite["environment"]
        if name not in environments:
            environments[name] = _environment(folder / name, described["environments"][name])
        status = max(status, _compare(suite, environments[name], folder, full=options.full))
    if options.freeze and status == 0:
        for name, python in environments.items():
            _freeze(name, python, described["environments"][name])
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--full", action="store_true", help="whole suites, not their short forms")
    parser.add_argument("--suite", action="append", default=[], help="only this distribution")
    parser.add_argument("--freeze", action="store_true", help="write constraints-*.txt if all pass")
    parser.add_argument("--folder", help="scratch folder that is kept and used again")
    return parser


def _environment(folder: Path, described: Mapping[str, Any]) -> Path:
    """Return the Python of an environment with the frameworks, their test tools and ragmeter."""
    install = [str(CHECKOUT / ".ci" / "environment"), str(folder)]
    constraints = _constraints(folder.name)
    # Frozen for this Python; a release elsewhere must not break a change of ragmeter unnoticed.
    if sys.version_info[:2] == (3, 11) and not os.environ.get("CI_LATEST"):
        install += ["--constraint", str(constraints)]
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _checked([*install, *described["packages"]])
        for package in described.get("without_dependencies", ()):
            _checked([*install, "--no-deps", package])
        (folder / "complete").touch()
    # The package itself is reinstalled: it is what changes between two runs.
    _checked([*install, "opentelemetry-api", "pydantic-settings", "rapidfuzz", "PyStemmer"])
    _checked([*install, "--no-deps", "--force-reinstall", str(CHECKOUT)])
    return folder / "bin" / "python"


def _constraints(environment: str) -> Path:
    """Return the file of the installed versions when the suites last passed."""
    return HERE / f"constraints-{environment}.txt"


def _freeze(environment: str, python: Path, described: Mapping[str, Any]) -> None:
    """Write the installed versions, without the package and distributions outside pip's resolution."""
    outside = {package.partition("==")[0] for package in described.get("without_dependencies", ())}
    frozen = subprocess.run(
        [str(python), "-m", "pip", "freeze"], check=True, capture_output=True, text=True
    ).stdout
    kept = [
        line
        for line in frozen.splitlines()
        if " @ " not in line and line[:2] != "-e" and line.partition("==")[0] not in outside
    ]
    _constraints(environment).write_text("\n".join(kept) + "\n", encoding="utf-8")


def _sources(distribution: str, python: Path, folder: Path) -> Path:
    """Return the unpacked source distribution."""
    name, _, version = distribution.partition("==")
    unpacked = folder / "sources" / f"{name.replace('-', '_')}-{version}"
    if not unpacked.is_dir():
        download = folder / "downloads" / name
        _checked(
            [
                str(python),
                "-m",
                "pip",
                "download",
                "-qq",
                "--disable-pip-version-check",
                "--no-deps",
                "--no-binary",
                name,
                "-d",
                str(download),
                distribution,
            ]
        )
        (archive,) = download.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder / "sources", filter="data")
    return unpacked


def _compare(suite: Mapping[str, Any], python: Path, folder: Path, *, full: bool) -> int:
    """Run one suite without and with ragmeter; print the differences; return the exit status."""
    name = suite["distribution"]
    sources = _sources(name, python, folder)
    without = _run(suite, python, sources, folder, full=full, attach=())
    attached = _run(suite, python, sources, folder, full=full, attach=suite["attach"])
    before, after = without["outcomes"], attached["outcomes"]
    # What fails without ragmeter, too, compares nothing and is no fault of it: enough must pass.
    passed = list(before.values()).count("passed")
    if passed < max(20, len(before) // 2):
        output = folder / f"{name}-without.txt"
        tail = output.read_text(encoding="utf-8", errors="replace")[-3000:]
        print(f"{name}: only {passed} of {len(before)} tests passed without ragmeter:\n{tail}")
        return 2
    expected = set(suite.get("counts_handlers", ()))
    different = [
        test
        for test in sorted(before.keys() | after.keys())
        if before.get(test) != after.get(test) and test.partition("[")[0] not in expected
    ]
    problems = [
        f"{test}: {before.get(test, 'not run')} without, {after.get(test, 'not run')} with"
        for test in different
        if not _unsteady(suite, python, sources, folder, test)
    ]
    facts = attached["ragmeter"]
    problems += [f"contained in {component}: {count}" for component, count in facts["contained"].items()]
    problems += [f"open at the end, {what}: {count}" for what, count in facts["open"].items() if count]
    problems += [f"dropped, {reason}: {count}" for reason, count in facts["dropped"].items()]
    if not facts["flushed"]:
        problems.append("not everything was exported in time")
    print(
        f"{name}: {len(before)} tests, {len(problems)} problems; {facts['captured']} requests captured; "
        f"{len(before) - passed} do not pass without ragmeter",
        flush=True,
    )
    for problem in [*problems, *facts["tracebacks"]]:
        print(f"  {problem}")
    return 1 if problems else 0


def _unsteady(suite: Mapping[str, Any], python: Path, sources: Path, folder: Path, test: str) -> bool:
    """Return whether a test with a different outcome has the same one when its file is run again.

    Some suites assert on the clock, and fail on a busy machine with and without ragmeter.
    """
    module = {**suite, "tests": [test.partition("::")[0]], "options": []}
    for _ in range(3):
        without = _run(module, python, sources, folder, full=True, attach=())
        attached = _run(module, python, sources, folder, full=True, attach=suite["attach"])
        if without["outcomes"].get(test) == attached["outcomes"].get(test):
            print(f"{suite['distribution']}: {test} is unsteady: run again it ends the same")
            return True
    return False


def _run(
    suite: Mapping[str, Any], python: Path, sources: Path, folder: Path, *, full: bool, attach: Sequence[str]
) -> dict[str, Any]:
    """Run a suite once; return the plugin's records."""
    label = f"{suite['distribution']}-{'attached' if attach else 'without'}"
    log = folder / f"{label}.json"
    log.unlink(missing_ok=True)
    paths = suite["tests"] if full else suite.get("short", suite["tests"])
    options = suite.get("options", []) if full else suite.get("short_options", suite.get("options", []))
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "attached"]
    command += [f"--timeout={PER_TEST_S}", *options, *paths]
    environment = {
        **os.environ,
        **suite.get("variables", {}),
        "PYTHONPATH": str(HERE),
        "PYTHONHASHSEED": "0",
        "RAGMETER_FRAMEWORKS_LOG": str(log),
        "RAGMETER_FRAMEWORKS_ATTACH": " ".join(attach),
    }
    output = folder / f"{label}.txt"
    with output.open("wb") as file:
        subprocess.run(
            command,
            cwd=sources,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=PER_SUITE_S,
            check=False,
        )
    if not log.exists():
        tail = output.read_text(encoding="utf-8", errors="replace")[-3000:]
        raise SystemExit(f"{label} did not end as a test run does:\n{tail}")
    facts: dict[str, Any] = json.loads(log.read_text(encoding="utf-8"))
    return facts


def _checked(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
