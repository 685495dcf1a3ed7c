"""The pytest plugin, in runs of pytest of their own."""

import json
import os
import xml.etree.ElementTree as ET

import pytest
from python_process import run_python

pytest_plugins = ["pytester"]

APPLICATION = """
import pytest

def ask(meter, n, right=True):
    told = f"Tower {n} is 21 metres tall."
    with meter.request(f"How tall is tower {n}?", reference={"contexts": [told]}) as request:
        request.retrieved([told if right else "Boats are blue."])
        request.answered(told)
"""


@pytest.fixture
def run(pytester):
    """Run tests in this process; returns the result."""

    def run(body, *arguments, ini="", **files):
        pytester.makeini(
            f"[pytest]\naddopts = -p no:cacheprovider\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = default\n{ini}"
        )
        pytester.makepyfile(test_it=APPLICATION + body, **files)
        return pytester.runpytest_inprocess(*arguments)

    return run


def test_a_test_scores_what_its_application_does_and_asserts_about_it(run):
    result = run(
        """
from ragmeter.testing import assert_each, assert_quality

def test_good(ragmeter_meter, ragmeter_results):
    for n in range(20):
        ask(ragmeter_meter, n)
    assert len(ragmeter_results()) == 20
    assert_quality(ragmeter_results, "recall>=0.8")

def test_bad(ragmeter_meter, ragmeter_results):
    for n in range(20):
        ask(ragmeter_meter, n, right=n % 2)
    assert_quality(ragmeter_results(), "recall>=0.8", "lexical_groundedness>=0.1")

def test_nothing_is_left_of_another_test(ragmeter_meter, ragmeter_results):
    ask(ragmeter_meter, 1)
    assert_each(ragmeter_results, "recall>=0.8")
"""
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*QualityError: fail: recall at least 0.8: mean 0.500, 95 % interval*20 values",
            "E *  row 0 (request *) 0.000*",
            "*= ragmeter: 3 pass, 1 fail =*",
            "fail         test_it.py::test_bad: recall at least 0.8: mean 0.500*",
            "pass         test_it.py::test_good: recall at least 0.8: mean 1.000*",
        ]
    )
    result.stdout.no_fnmatch_line("*How tall*")


def test_a_mark_sets_the_meter_up_and_decides_at_the_end_of_the_test(run):
    result = run(
        """
pytestmark = pytest.mark.ragmeter(metrics=["precision_recall_f1"])

@pytest.mark.ragmeter("recall>=0.8")
def test_good(ragmeter_meter):
    for n in range(20):
        ask(ragmeter_meter, n)

@pytest.mark.ragmeter("recall>=0.8", metrics=["precision_recall_f1", "retrieval_health"])
def test_bad(ragmeter_meter):
    for n in range(20):
        ask(ragmeter_meter, n, right=False)

@pytest.mark.ragmeter("recall>=0.8")
def test_without_a_meter():
    pass

@pytest.mark.ragmeter("recall>=0.8")
def test_that_fails_by_itself(ragmeter_meter):
    assert "its own" == "failure"

def test_metrics(ragmeter_meter, ragmeter_results):
    ask(ragmeter_meter, 1)
    (one,) = ragmeter_results()
    assert sorted(one.scores) == ["f1", "precision", "recall"]
"""
    )
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(["*fail: recall at least 0.8: mean 0.000*", "*the test needs ragmeter_meter*"])
    result.stdout.fnmatch_lines(["*AssertionError: assert 'its own' == 'failure'*"])


def test_options_for_all_tests_come_from_a_fixture(run):
    result = run(
        """
@pytest.fixture
def ragmeter_options():
    return {"metrics": ["retrieval_health"]}

def test_them(ragmeter_meter, ragmeter_results):
    ask(ragmeter_meter, 1)
    (one,) = ragmeter_results()
    assert "recall" not in one.scores
"""
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("arguments", "ini", "outcome"),
    [
        ((), "", {"failed": 1}),
        (("--ragmeter-inconclusive=warn",), "", {"passed": 1, "warnings": 1}),
        ((), "ragmeter_inconclusive = warn", {"passed": 1, "warnings": 1}),
        (("--ragmeter-inconclusive=fail",), "ragmeter_inconclusive = warn", {"failed": 1}),
        (("-W", "error"), "ragmeter_inconclusive = warn", {"failed": 1}),
    ],
)
def test_what_is_inconclusive_fails_unless_a_warning_is_asked_for(run, arguments, ini, outcome):
    result = run(
        """
from ragmeter.testing import assert_quality

def test_few(ragmeter_meter, ragmeter_results):
    ask(ragmeter_meter, 1)
    assert_quality(ragmeter_results, "recall>=0.8")
""",
        *arguments,
        ini=ini,
    )
    result.assert_outcomes(**outcome)
    result.stdout.fnmatch_lines(["*= ragmeter: 1 inconclusive =*", "inconclusive test_it.py*"])


def test_texts_are_quoted_where_they_are_asked_for(run):
    body = """
from ragmeter.testing import assert_each

def test_one(ragmeter_meter, ragmeter_results):
    ask(ragmeter_meter, 1, right=False)
    assert_each(ragmeter_results, "recall>=0.8")
"""
    run(body, "--tb=line").stdout.no_fnmatch_line("*How tall*")
    run(body, "--ragmeter-texts").stdout.fnmatch_lines(["*'How tall is tower 1?'*"])


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ('metrics=["no_such"]', "*unknown metric 'no_such'*"),
        ("no_such_option=1", "*no_such_option*"),
        ('"recall"', "*limit 'recall': write NAME>=VALUE*"),
    ],
)
def test_a_wrong_mark_is_said(run, mark, said):
    result = run(
        f"""
@pytest.mark.ragmeter({mark})
def test_one(ragmeter_meter):
    pass
"""
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines([said])


def test_a_wrong_setting_is_said(run):
    result = run("def test_one(): pass", ini="ragmeter_inconclusive = pass")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*ragmeter_inconclusive is 'pass'; write fail or warn*"])


def test_decisions_stand_in_the_junit_file(run, pytester):
    run(
        """
@pytest.mark.ragmeter("recall>=0.8")
def test_good(ragmeter_meter):
    for n in range(20):
        ask(ragmeter_meter, n)
""",
        "--junitxml=report.xml",
    )
    (one,) = ET.parse(pytester.path / "report.xml").iter("property")
    assert one.get("name") == "ragmeter"
    check = json.loads(one.get("value"))
    assert (check["outcome"], check["count"], check["mean"]) == ("pass", 20, 1.0)


def test_an_asynchronous_test_is_a_test(run):
    pytest.importorskip("pytest_asyncio")
    result = run(
        """
import asyncio
from ragmeter.testing import assert_each

@pytest.mark.asyncio
@pytest.mark.ragmeter("recall>=0.8")
async def test_it(ragmeter_meter, ragmeter_results):
    for n in range(20):
        await asyncio.sleep(0)
        ask(ragmeter_meter, n)
    assert_each(ragmeter_results, "recall>=0.8")
"""
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*= ragmeter: 2 pass =*"])


def test_the_summary_of_several_processes_is_one(run, monkeypatch):
    pytest.importorskip("xdist")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # workers then start quickly
    result = run(
        """
@pytest.mark.parametrize("right", [True, False])
@pytest.mark.ragmeter("recall>=0.8")
def test_it(ragmeter_meter, right):
    for n in range(20):
        ask(ragmeter_meter, n, right)
""",
        *("-p", "xdist.plugin", "-p", "ragmeter.testing.plugin", "-n2"),
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*= ragmeter: 1 pass, 1 fail =*"])


def test_a_meter_without_a_judge_uses_no_network(run):
    result = run(
        """
import socket

def test_it(ragmeter_meter, ragmeter_results, monkeypatch):
    def refuse(*_):
        raise AssertionError("the network is used")
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("RAGMETER_CONSOLE", "1")
    ask(ragmeter_meter, 1)
    assert len(ragmeter_results()) == 1
    assert not ragmeter_meter.stats().export_errors
"""
    )
    result.assert_outcomes(passed=1)


def test_a_run_that_does_not_use_it_loads_nothing_and_prints_nothing(pytester):
    pytester.makepyfile(
        """
import sys

def test_it():
    loaded = {name for name in sys.modules if name.startswith("ragmeter")}
    assert loaded <= {
        "ragmeter", "ragmeter.testing", "ragmeter.testing.plugin", "ragmeter.testing._session"
    }
    assert "opentelemetry" not in sys.modules and "pydantic" not in sys.modules
"""
    )
    done = run_python(
        "-m",
        "pytest",
        "-q",
        "-p",
        "ragmeter.testing.plugin",
        cwd=pytester.path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert "1 passed" in done.stdout
    assert "ragmeter" not in done.stdout


def test_fixtures_options_and_mark_are_documented_where_pytest_lists_them(run):
    listed = run("", "--fixtures", "-v").stdout.str()
    for name in ("ragmeter_meter", "ragmeter_results", "ragmeter_options"):
        assert name in listed
    assert "ragmeter(*limits" in run("", "--markers").stdout.str()
    assert "--ragmeter-texts" in run("", "--help").stdout.str()


def test_baselines_are_written_on_request_and_compared_with_otherwise(run, pytester):
    body = """
from ragmeter.testing import assert_quality

def test_search(ragmeter_meter, ragmeter_results):
    for n in range(130):
        ask(ragmeter_meter, n, right=RIGHT or n % 2)
    assert_quality(ragmeter_results, "recall>=0.3", baseline="search.jsonl")
"""
    run(body.replace("RIGHT", "True"), "--ragmeter-write-baselines").assert_outcomes(passed=1)
    assert len((pytester.path / "search.jsonl").read_text("utf-8").splitlines()) == 130
    run(body.replace("RIGHT", "True")).assert_outcomes(passed=1)
    result = run(body.replace("RIGHT", "False"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*fail: recall not more than 0.03 worse than the baseline: difference -0.500*"]
    )
