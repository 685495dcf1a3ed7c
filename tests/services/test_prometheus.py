"""Dashboard and rules against a real Prometheus that scrapes a scored application."""

import json
import re
import subprocess
import time

import httpx
import pytest
import yaml
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
    "$workflow": "tides",
    "$score": ".*",
    "$focus": "lexical_context_recall",
    "$threshold": "0.5",
}
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

    def query(self, expr):
        """Return the result of an instant query."""
        reply = httpx.post(f"{self.url}/api/v1/query", data={"query": expr}, timeout=30).json()
        assert reply["status"] == "success", (expr, reply)
        return reply["data"]["result"]

    def page(self, name):
        """Return the address of one of its pages; Debian's package ships the classic ones only."""
        classic = f"{self.url}/classic/{name}"
        return classic if answers(classic) else f"{self.url}/{name}"

    def firing(self):
        """Return the names of the alerts that fire."""
        alerts = httpx.get(f"{self.url}/api/v1/alerts", timeout=30).json()["data"]["alerts"]
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}


def last_week(now):
    """Return what the recording rules said a week ago: all was well. OpenMetrics text."""
    lines = []
    for name, value in (("mean", 1.0), ("down", 0.02)):
        series = f"ragmeter:goodness_{name}:{SHORT.fall_over}"
        lines.append(f"# TYPE {series} gauge")
        labels = (
            '{gen_ai_evaluation_name="lexical_context_recall",gen_ai_workflow_name="tides",job="app",'
            'ragmeter_evaluation_direction="higher"}'
        )
        lines += [
            f"{series}{labels} {value} {at}"
            for at in range(now - WEEK_S - 120, now - WEEK_S + 1200, 15)
        ]
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture(scope="module")
def app():
    with LiveApp() as live:
        yield live


@pytest.fixture(scope="module")
def prometheus(app, prometheus_program, promtool, tmp_path_factory):
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
            {"job_name": "app", "static_configs": [{"targets": [f"127.0.0.1:{app.port}"]}]}
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
        yield Prometheus(url)


def dashboard_queries():
    board = json.loads(dashboard_files()["grafana/dashboards/ragmeter.json"])
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            if "expr" in target:
                expr = target["expr"]
                for variable, value in VARIABLES.items():
                    expr = expr.replace(variable, value)
                assert "$" not in expr
                yield panel["title"], expr


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
        {f"{place} {title}": expr for place, (title, expr) in enumerate(dashboard_queries())},
    )


def test_variables_offer_what_there_is_to_choose(prometheus):
    board = json.loads(dashboard_files()["grafana/dashboards/ragmeter.json"])
    offered = {}
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(
                r"label_values\((.+), (\w+)\)", variable["query"]["query"]
            ).groups()
            offered[variable["name"]] = {one["metric"][label] for one in prometheus.query(metric)}
    assert offered["workflow"] == {"tides"}
    assert {"recall", "lexical_context_recall", "context_relevancy"} <= offered["focus"]
    assert offered["score"] == offered["focus"]
    # Of this one, less is better; those have a panel of their own.
    assert "empty_retrieval" not in offered["focus"]


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
            '{__name__=~"ragmeter:quality_(mean|lower|upper):20s",'
            'gen_ai_evaluation_name="context_relevancy"}'
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
    page.wait_for("RagmeterQualityFell")
    keep_picture(page, "prometheus-alerts")
    alerts = {
        rule["alert"]: rule["expr"]
        for group in rules(SHORT)["groups"]
        for rule in group["rules"]
        if rule.get("alert") in FIRED_BY_BAD_QUALITY
    }
    all_have_data(prometheus, alerts)
    [(_, scores)] = [one for one in dashboard_queries() if one[0] == "Scores"]
    query = httpx.QueryParams({"g0.expr": scores, "g0.tab": "0", "g0.range_input": "20s"})
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
