"""Dashboard and rules against a real Prometheus that scrapes a scored application."""

import json
import math
import re
import subprocess
import time
from contextlib import closing

import httpx
import pytest
import yaml
from counted_services import CountedServices
from live_app import LiveApp
from processes import answers, free_port, listening_addresses, running, wait_until

from ragmeter.cli.dashboards import RuleSettings, dashboard_files, rules_text
from ragmeter.quality.objectives import parse_objectives

pytestmark = pytest.mark.contains_errors  # the application's second exporter always fails

SHORT = RuleSettings(
    window="20s",
    fall_over="40s",
    silence="40s",
    recent="15s",
    hold="0s",
    hold_events="0s",
    hold_burning="0s",
    interval="1s",
    least_scores=5,
    burning=(("20s", "15s", 3, "critical"), ("40s", "20s", 1, "warning")),
    estimates=(("20s", "1s"), ("40s", "1s")),
    versions=(("20s", "1s"),),
)
WEEK_S = 7 * 24 * 3600
VARIABLES = {
    "$__rate_interval": "15s",
    "$__range": "60s",
    "$service": "app|parts",
    "$environment": ".*",
    "$version": ".*",
    "$workflow": ".*",
    "$score": ".*",
    "$focus": "lexical_context_recall",
    "$window": "20s",
    "$threshold": "0.5",
}
SHORTER = {"15m": "15s", "1h": "20s", "6h": "40s", "3d": "40s", "1d": "20s"}
"""Ranges of recorded series: those of `RuleSettings`, and of the short ones here."""
OF_WHAT_IS_WRONG = {
    ("$focus of $workflow", "D"),
    ("$focus of $workflow", "E"),
    ("$focus: requests and judged ones", "B"),
    ("Requests that no score follows", "A"),
    ("Scored by workers: how late", "A"),
    ("Scored by workers: how late", "B"),
    ("Worst segments", "F"),
    ("Server: acknowledged and not done", "A"),
    ("Server: how long the oldest waits", "A"),
    ("Server: size of the spool", "A"),
    ("Server: connections", "A"),
    ("Server: connections", "B"),
}
"""Panels and targets that are empty while nothing is wrong, for scores that no one judges, or where no worker or server runs."""
FIRED_BY_BAD_QUALITY = {
    "RagmeterQualityFell",
    "RagmeterObjectiveBurning",
    "RagmeterRetrievalsEmpty",
    "RagmeterManyBadRequests",
    "RagmeterJudgeFailing",
    "RagmeterScoresDropped",
    "RagmeterExportFailing",
}
OBJECTIVES = parse_objectives(["tides:lexical_context_recall>=0.5 for 90%"])


def rules(settings=None):
    """Return the content of the rule file."""
    return yaml.safe_load(rules_text(settings, OBJECTIVES))


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url):
        self.url = url
        self._client = httpx.Client(timeout=30)

    def close(self):
        """Close what asks it."""
        self._client.close()

    def query(self, expr):
        """Return the result of an instant query."""
        reply = self._client.post(f"{self.url}/api/v1/query", data={"query": expr}).json()
        assert reply["status"] == "success", (expr, reply)
        return reply["data"]["result"]

    def page(self, name):
        """Return the address of one of its pages; Debian's package ships the classic ones only."""
        classic = f"{self.url}/classic/{name}"
        return classic if answers(classic) else f"{self.url}/{name}"

    def firing(self):
        """Return the names of the alerts that fire for the application."""
        alerts = self._client.get(f"{self.url}/api/v1/alerts").json()["data"]["alerts"]
        return {
            one["labels"]["alertname"]
            for one in alerts
            if one["state"] == "firing" and one["labels"].get("job") == "app"
        }


def last_week(now):
    """Return what the recording rules said a week ago: all was well. OpenMetrics text."""
    lines = []
    for name, value in (("mean", 1.0), ("down", 0.02)):
        series = f"ragmeter:goodness_{name}:{SHORT.fall_over}"
        lines.append(f"# TYPE {series} gauge")
        labels = (
            '{gen_ai_evaluation_name="lexical_context_recall",gen_ai_workflow_name="tides",job="app",'
            'deployment_environment_name="test",'
            'ragmeter_evaluation_direction="higher"}'
        )
        lines += [f"{series}{labels} {value} {at}" for at in range(now - WEEK_S - 120, now - WEEK_S + 1200, 15)]
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture(scope="module")
def app():
    with LiveApp() as live:
        yield live


@pytest.fixture(scope="module")
def counted():
    with CountedServices() as services:
        yield services


@pytest.fixture(scope="module")
def prometheus(app, counted, prometheus_program, promtool, tmp_path_factory):
    directory = tmp_path_factory.mktemp("prometheus")
    (directory / "rules.yml").write_text(rules_text(SHORT, OBJECTIVES))
    (directory / "week.txt").write_text(last_week(int(time.time())))
    create = [promtool, "tsdb", "create-blocks-from", "openmetrics"]
    subprocess.run(
        [*create, str(directory / "week.txt"), str(directory / "data")],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            {
                "job_name": "app",
                "static_configs": [
                    {
                        "targets": [f"127.0.0.1:{app.port}"],
                        "labels": {"deployment_environment_name": "test", "service_version": "1.0"},
                    }
                ],
            },
            {
                "job_name": "collector",
                "honor_labels": True,
                "static_configs": [{"targets": [f"127.0.0.1:{counted.port}"]}],
            },
        ],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [
        prometheus_program,
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--enable-feature=exemplar-storage",
    ]
    url = f"http://127.0.0.1:{port}"
    with running(command, directory / "log", f"{url}/-/ready", timeout_s=60) as process:
        assert all(address.is_loopback for address, _ in listening_addresses(process.pid))
        with closing(Prometheus(url)) as running_one:
            yield running_one


def filled(expr, **chosen):
    """Return a query with the dashboard's variables filled in, over the short ranges of these tests."""
    expr = re.sub(r"(ragmeter:\w+):(\w+)", lambda found: f"{found[1]}:{SHORTER[found[2]]}", expr)
    for variable, value in {**VARIABLES, **chosen}.items():
        expr = expr.replace(variable, value)
    assert "$" not in expr
    return expr


def dashboard_queries(**chosen):
    """Yield title, target and query of each panel."""
    board = json.loads(dashboard_files()["grafana/dashboards/ragmeter.json"])
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            if target["datasource"]["type"] == "prometheus":
                yield panel["title"], target["refId"], filled(target["expr"], **chosen)
    for one in board["annotations"]["list"]:
        yield one["name"], "annotation", filled(one["expr"], **chosen)


def all_have_data(prometheus, queries):
    """Wait until every query returns points, all of them numbers."""
    missing = dict(queries)
    assert missing

    def settled():
        for name, expr in list(missing.items()):
            result = prometheus.query(expr)
            if result:
                assert all(point["value"][1] not in {"NaN", "+Inf"} for point in result), expr
                del missing[name]
        return not missing

    try:
        wait_until(settled, 110)
    except TimeoutError:
        raise AssertionError(f"no data for {missing}") from None


def test_every_panel_of_the_dashboard_shows_data(prometheus):
    all_have_data(
        prometheus,
        {
            f"{place} {title} {ref}": expr
            for place, (title, ref, expr) in enumerate(dashboard_queries())
            if (title, ref) not in OF_WHAT_IS_WRONG
        },
    )


@pytest.mark.parametrize("service", ["quiet", "empty", "small", "broken", "parts", "nobody"])
def test_every_query_is_answered_with_numbers_whatever_a_service_is_like(prometheus, service):
    """Dashboard, annotations and rules; what there is to be seen of it, is seen."""

    def means(name):
        return f'ragmeter:quality_{name}:20s{{job="{service}",ragmeter_segment=""}}'

    seen = {
        "quiet": ['ragmeter:arrived:20s{job="quiet"} == 0'],
        "empty": ['ragmeter:arrived:20s{job="empty"} == 0'],
        "small": [means("lower"), means("upper"), means("n") + " < 10"],
        "broken": [
            means("unscored") + " > 0.99",
            means("highest") + " > 0.99",
            'ALERTS{alertname="RagmeterScoringStopped",alertstate="firing",job="broken",instance="broken-1"}',
        ],
        "parts": [
            'ragmeter:quality_mean:20s{job="parts",ragmeter_segment="language:zh"}',
            'ALERTS{alertname="RagmeterQualityChanged",alertstate="firing",job="parts"}',
        ],
        "nobody": ["vector(1)"],
    }  # fmt: skip
    all_have_data(prometheus, {expr: expr for expr in seen[service]})
    shown = set()
    for title, ref, expr in dashboard_queries(**{"$service": service, "$focus": "token_f1"}):
        for point in prometheus.query(expr):
            assert math.isfinite(float(point["value"][1])), (title, ref, expr, point)
            if point["metric"].get("job") == service:
                shown.add((title, ref))
    table = "Scores, with their intervals"
    if service in {"small", "parts"}:
        assert {(table, "B"), (table, "C"), (table, "D"), ("$focus of $workflow", "B")} <= shown
    if service == "broken":
        assert {(table, "F"), ("Requests that no score follows", "A")} <= shown
    if service == "parts":
        assert {("Worst segments", "A"), ("Evidence for a change", "A")} <= shown


def test_every_rule_is_answered_with_numbers(prometheus):
    """While there are services of every kind."""
    all_have_data(prometheus, {"small": 'ragmeter:quality_n:20s{job="small"} > 0'})
    for group in rules(SHORT)["groups"]:
        for rule in group["rules"]:
            for point in prometheus.query(rule["expr"]):
                assert math.isfinite(float(point["value"][1])), (rule, point)


def test_variables_offer_what_there_is_to_choose(prometheus):
    board = json.loads(dashboard_files()["grafana/dashboards/ragmeter.json"])
    offered = {}
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()
            found = prometheus.query(filled(metric, **{"$service": ".*"}))
            offered[variable["name"]] = {one["metric"][label] for one in found if label in one["metric"]}
    assert offered["workflow"] == {"tides", "counted"}
    assert {"app", "quiet", "empty", "small", "broken", "parts"} <= offered["service"]
    assert offered["environment"] == {"test"}
    assert offered["version"] == {"1.0"}
    assert {"recall", "lexical_context_recall", "context_relevancy"} <= offered["focus"]
    assert offered["score"] == offered["focus"]
    assert "empty_retrieval" in offered["focus"]


def test_means_of_quality_are_recorded_with_their_intervals(prometheus):
    """Of judged scores and of free ones, under the names that the exporter writes."""
    ends = ("mean", "lower", "upper")
    all_have_data(
        prometheus,
        {
            f"{end} {score}": f'ragmeter:quality_{end}:20s{{gen_ai_evaluation_name="{score}"}}'
            for score in ("lexical_context_recall", "context_relevancy")
            for end in ends
        },
    )
    recorded = {
        one["metric"]["__name__"]: float(one["value"][1])
        for one in prometheus.query(
            '{__name__=~"ragmeter:quality_(mean|lower|upper):20s",gen_ai_evaluation_name="context_relevancy"}'
        )
    }
    mean, lower, upper = (recorded[f"ragmeter:quality_{end}:20s"] for end in ends)
    assert 0.0 <= lower <= mean + 1e-6 <= upper + 2e-6 <= 1.0 + 2e-6
    assert prometheus.query('ragmeter:quality_k:20s{gen_ai_evaluation_name="context_relevancy"}')


def test_while_all_is_well_no_quality_alert_fires(prometheus):
    records = {r["record"]: r["record"] for r in rules(SHORT)["groups"][0]["rules"]}
    all_have_data(prometheus, records)
    quiet = {
        "RagmeterQualityFell",
        "RagmeterObjectiveBurning",
        "RagmeterRetrievalsEmpty",
        "RagmeterManyBadRequests",
        "RagmeterScoringStopped",
        "RagmeterSilent",
        "RagmeterUnscored",
    }
    assert not prometheus.firing() & quiet


def test_alerts_fire_when_quality_falls(prometheus, app, browser, keep_picture):
    app.state = "bad"
    wait_until(lambda: prometheus.firing() >= FIRED_BY_BAD_QUALITY, 90, prometheus.firing)
    page = browser.open(prometheus.page("alerts"), height=580)
    page.wait_for(*(rf"{name} \([1-9]\d* active\)" for name in FIRED_BY_BAD_QUALITY))
    keep_picture(page, "prometheus-alerts")
    alerts = {
        rule["alert"]: rule["expr"]
        for group in rules(SHORT)["groups"]
        for rule in group["rules"]
        if rule.get("alert") in FIRED_BY_BAD_QUALITY
    }
    all_have_data(prometheus, alerts)
    [scores] = [expr for title, _, expr in dashboard_queries() if title == "Means"]
    query = httpx.QueryParams({"g0.expr": scores, "g0.tab": "0", "g0.range_input": "1m"})
    page = browser.open(f"{prometheus.page('graph')}?{query}")
    page.wait_for("lexical_context_recall", "context_relevancy")
    keep_picture(page, "prometheus-scores")


def test_an_alert_fires_when_nothing_is_scored_any_more(prometheus, app):
    app.state = "unscorable"
    wait_until(lambda: "RagmeterScoringStopped" in prometheus.firing(), 60)


def test_promtool_accepts_the_rules_and_the_configuration(promtool, tmp_path):
    for path, text in dashboard_files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for check, file in (("rules", "ragmeter.rules.yml"), ("config", "prometheus.yml")):
        done = subprocess.run(
            [promtool, "check", check, str(tmp_path / "prometheus" / file)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
