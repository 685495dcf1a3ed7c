"""The pytest plugin: a meter as a fixture, the mark ``ragmeter``, and a summary at the end.

pytest loads it in every run of an environment with ragmeter, so it imports pytest and nothing of the meter;
fixtures import what they need. Without a test that uses it, it prints nothing.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from ._session import Inconclusive, session

if TYPE_CHECKING:
    from ragmeter import RagMeter
    from ragmeter.exporters.memory import InMemoryExporter

    from ._results import MeterResults

PROPERTY = "ragmeter"
"""Name of the test property with a check, as JSON; also in JUnit files."""
MAX_LINES = 50
"""Most passed checks listed at the end, unless ``-v`` is given."""
HOLD_S = 60.0
"""Seconds that a request waits for its judged scores, so that all its scores are in one result."""
QUEUE = 100_000
"""Most waiting requests: no test drops any."""
_BEFORE = pytest.StashKey[tuple[Inconclusive, bool, bool]]()
_COLOURS = {"pass": "green", "fail": "red", "inconclusive": "yellow", "blocked": "purple"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and their settings."""
    group = parser.getgroup("ragmeter", "quality of RAG requests")
    group.addoption(
        "--ragmeter-texts",
        action="store_true",
        default=False,
        help="Quote the questions of the worst rows in messages.",
    )
    group.addoption(
        "--ragmeter-inconclusive",
        choices=("fail", "warn"),
        default=None,
        help="Outcome of a test whose interval contains the limit: fail (default), warn.",
    )
    group.addoption(
        "--ragmeter-write-baselines",
        action="store_true",
        default=False,
        help="Write the baselines of assert_quality(baseline=...) from this run's results; compare nothing.",
    )
    parser.addini("ragmeter_inconclusive", "As --ragmeter-inconclusive.", default="fail")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark and read the settings."""
    config.addinivalue_line(
        "markers",
        "ragmeter(*limits, **options): options of the meter of ragmeter_meter; limits, e.g. "
        "'context_recall>=0.8', are decided about at the end of the test",
    )
    wanted = config.getoption("--ragmeter-inconclusive") or config.getini("ragmeter_inconclusive")
    if wanted not in ("fail", "warn"):
        raise pytest.UsageError(f"ragmeter_inconclusive is {wanted!r}; write fail or warn")
    config.stash[_BEFORE] = (session.inconclusive, session.texts, session.write_baselines)
    session.inconclusive = wanted
    session.texts = bool(config.getoption("--ragmeter-texts"))
    session.write_baselines = bool(config.getoption("--ragmeter-write-baselines"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the settings of an outer run."""
    before = config.stash.get(_BEFORE, ("fail", False, False))
    session.inconclusive, session.texts, session.write_baselines = before


@pytest.fixture
def ragmeter_options() -> Mapping[str, Any]:
    """Arguments of `ragmeter_meter`; override it in a conftest.py, e.g. for a judge."""
    return {}


@pytest.fixture
def _ragmeter_memory() -> InMemoryExporter:
    from ragmeter.exporters.memory import InMemoryExporter  # noqa: PLC0415 -- see above

    return InMemoryExporter()


@pytest.fixture
def ragmeter_meter(
    request: pytest.FixtureRequest, ragmeter_options: Mapping[str, Any], _ragmeter_memory: InMemoryExporter
) -> Iterator[RagMeter]:
    """A meter for this test, with results in memory, drained at the end of the test.

    Its arguments come from `ragmeter_options` and the test's marks ``ragmeter``. Without a judge it uses no
    network.
    """
    from ragmeter import ConfigurationError, Limits, RagMeter  # noqa: PLC0415 -- see above

    limits = Limits(hold_s=HOLD_S, queue_size=QUEUE)
    options: dict[str, Any] = {"limits": limits, **ragmeter_options}
    for mark in reversed([*request.node.iter_markers("ragmeter")]):
        options.update(mark.kwargs)
    exporters = [_ragmeter_memory, *options.pop("exporters", ())]
    try:
        meter = RagMeter(exporters=exporters, **options)
    except (TypeError, ConfigurationError) as error:
        raise pytest.UsageError(f"the meter of {request.node.nodeid}: {error}") from error
    with meter:
        yield meter


@pytest.fixture
def ragmeter_results(ragmeter_meter: RagMeter, _ragmeter_memory: InMemoryExporter) -> MeterResults:
    """Call it for the results of `ragmeter_meter`: it waits until all requests are scored."""
    from ._results import MeterResults  # noqa: PLC0415 -- see above

    return MeterResults(ragmeter_meter, _ragmeter_memory)


def _limits_of(item: pytest.Item) -> tuple[str, ...]:
    return next((mark.args for mark in item.iter_markers("ragmeter") if mark.args), ())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record the test's checks, and check the limits of its mark."""

    def note(check: Mapping[str, Any]) -> None:
        item.user_properties.append((PROPERTY, json.dumps(check)))

    before, session.listener = session.listener, note
    try:
        result = yield
        if limits := _limits_of(item):
            _decide(item, limits)
    finally:
        session.listener = before
    return result


def _decide(item: pytest.Item, limits: tuple[str, ...]) -> None:
    from ragmeter.metrics import ConfigurationError  # noqa: PLC0415 -- see above

    from ._assertions import QualityError, assert_quality  # noqa: PLC0415 -- see above
    from ._results import MeterResults  # noqa: PLC0415 -- see above

    arguments: Mapping[str, Any] = getattr(item, "funcargs", {})
    if "ragmeter_meter" not in arguments:
        pytest.fail("the mark ragmeter has limits: the test needs ragmeter_meter", pytrace=False)
    results = MeterResults(arguments["ragmeter_meter"], arguments["_ragmeter_memory"])
    try:
        assert_quality(results, *limits)
    except (QualityError, ConfigurationError) as error:
        pytest.fail(str(error), pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the checks of all tests with their intervals, if any."""
    decided = [
        (report.nodeid, json.loads(str(value)))
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for name, value in report.user_properties
        if name == PROPERTY
    ]
    if not decided:
        return
    counts = {word: sum(check["outcome"] == word for _, check in decided) for word in _COLOURS}
    words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    terminalreporter.section(f"ragmeter: {words}")
    shown = 0
    for nodeid, check in sorted(decided, key=lambda one: one[1]["outcome"] == "pass"):
        if check["outcome"] == "pass" and terminalreporter.verbosity < 1:
            shown += 1
            if shown > MAX_LINES:
                break
        terminalreporter.write(f"{check['outcome']:<12}", **{_COLOURS[check["outcome"]]: True})
        terminalreporter.write_line(f" {nodeid}: {check['what']}: {check['reason']}")
    if shown > MAX_LINES:
        terminalreporter.write_line(f"… and {counts['pass'] - MAX_LINES} more that passed; -v lists them")
