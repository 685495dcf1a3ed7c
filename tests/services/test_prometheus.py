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

pytestmark = pytest.mark.contains_errors  # the application's second exporter always fails

SHORT = RuleSettings(
    window="20s",
    recent="15s",
    hold="0s",
    hold_events="0s",
    interval="1s",
    least_scores=5,
    estimates=(("20s", "1s"),),
)
WEEK_S = 7 * 24 * 3600
WEEK_MIN = WEEK_S // 60
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
    "RagmeterRetrievalsEmpty",
    "RagmeterManyBadRequests",
    "RagmeterJudgeFailing",
    "RagmeterScoresDropped",
    "RagmeterExportFailing",
}


def rules(settings=None):
    """Return the content of the rule file."""
    return yaml.safe_load(rules_text(settings))


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
    for name, value in ((f"mean{SHORT.window}", 1.0), (f"count{SHORT.window}", 100.0)):
        series = f"ragmeter:gen_ai_evaluation_score:{name}"
        lines.append(f"# TYPE {series} gauge")
        labels = (
            '{gen_ai_evaluation_name="lexical_context_recall",gen_ai_workflow_name="tides",'
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
    (directory / "rules.yml").write_text(rules_text(SHORT))
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
        "RagmeterRetrievalsEmpty",
        "RagmeterManyBadRequests",
        "RagmeterScoringStopped",
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


MEAN = (
    'ragmeter:gen_ai_evaluation_score:mean1h{gen_ai_evaluation_name="recall",gen_ai_workflow_name="w",'
    'ragmeter_evaluation_direction="higher"}'
)
COUNT = MEAN.replace("mean1h", "count1h")
LOWER, LOWER_COUNT = (
    one.replace("recall", "repeats").replace("higher", "lower") for one in (MEAN, COUNT)
)
CONTEXTS = "ragmeter_retrieval_context_count"
# alert: series as promtool writes them (start+step x points), minutes until looked at, labels.
CASES = {
    "RagmeterQualityFell": (
        {MEAN: "0.9x10080 0.7x60", COUNT: "50x10140"},
        WEEK_MIN + 40,
        {
            "gen_ai_evaluation_name": "recall", "gen_ai_workflow_name": "w",
            "ragmeter_evaluation_direction": "higher",
        },
    ),
    "RagmeterQualityFell, lower is better": (
        {LOWER: "0.1x10080 0.3x60", LOWER_COUNT: "50x10140"},
        WEEK_MIN + 40,
        {
            "gen_ai_evaluation_name": "repeats", "gen_ai_workflow_name": "w",
            "ragmeter_evaluation_direction": "lower",
        },
    ),
    "RagmeterRetrievalsEmpty": (
        {
            f'{CONTEXTS}_bucket{{gen_ai_workflow_name="w",le="0"}}': "0+2x60",
            f'{CONTEXTS}_count{{gen_ai_workflow_name="w"}}': "0+10x60",
        },
        50,
        {"gen_ai_workflow_name": "w"},
    ),
    "RagmeterManyBadRequests": (
        {
            'ragmeter_verdicts_total{gen_ai_workflow_name="w",ragmeter_verdict="bad"}': "0+4x90",
            'ragmeter_verdicts_total{gen_ai_workflow_name="w",ragmeter_verdict="good"}': "0+6x90",
        },
        85,
        {"gen_ai_workflow_name": "w"},
    ),
    "RagmeterJudgeFailing": (
        {
            'ragmeter_judge_calls_total{gen_ai_request_model="m",error_type="timeout"}': "0+3x60",
            'ragmeter_judge_calls_total{gen_ai_request_model="m"}': "0+7x60",
        },
        50,
        {"gen_ai_request_model": "m"},
    ),
    "RagmeterScoresDropped": (
        {'ragmeter_dropped_total{ragmeter_reason="queue_full"}': "_x20 7x20"},
        30,
        {"ragmeter_reason": "queue_full"},
    ),
    "RagmeterScoringStopped": (
        {
            "ragmeter_captured_total": "0+5x60",
            'ragmeter_results_total{ragmeter_status="ok"}': "0+9x20 180x40",
        },
        55,
        {},
    ),
    "RagmeterExportFailing": (
        {'ragmeter_export_errors_total{ragmeter_exporter="LangfuseScores"}': "_x20 0+1x20"},
        35,
        {"ragmeter_exporter": "LangfuseScores"},
    ),
}  # fmt: skip
# The same alerts, when nothing is wrong.
QUIET = {
    "RagmeterQualityFell": {MEAN: "0.9x10080 0.85x60", COUNT: "50x10140"},
    "RagmeterQualityFell, few requests": {MEAN: "0.9x10080 0.1x60", COUNT: "5x10140"},
    "RagmeterQualityFell, better as lower is": {LOWER: "0.9x10080 0.1x60", LOWER_COUNT: "50x10140"},
    "RagmeterQualityFell, better as higher is": {MEAN: "0.1x10080 0.9x60", COUNT: "50x10140"},
    "RagmeterQualityFell, first week": {MEAN: "0.1x10140", COUNT: "50x10140"},
    "RagmeterRetrievalsEmpty": {
        f'{CONTEXTS}_bucket{{gen_ai_workflow_name="w",le="0.0"}}': "0+1x60",
        f'{CONTEXTS}_count{{gen_ai_workflow_name="w"}}': "0+20x60",
    },
    "RagmeterManyBadRequests": {
        'ragmeter_verdicts_total{gen_ai_workflow_name="w",ragmeter_verdict="bad"}': "0+1x90",
        'ragmeter_verdicts_total{gen_ai_workflow_name="w",ragmeter_verdict="good"}': "0+9x90",
    },
    "RagmeterManyBadRequests, few requests": {
        'ragmeter_verdicts_total{gen_ai_workflow_name="w",ragmeter_verdict="bad"}': "0+0.1x90",
    },
    "RagmeterJudgeFailing": {
        'ragmeter_judge_calls_total{gen_ai_request_model="m",error_type=""}': "0+7x60"
    },
    "RagmeterScoresDropped": {
        'ragmeter_dropped_total{ragmeter_reason="sampled_out"}': "0+9x60",
        'ragmeter_dropped_total{ragmeter_reason="shutdown"}': "4x60",
    },
    "RagmeterScoringStopped": {
        "ragmeter_captured_total": "0+5x60",
        'ragmeter_dropped_total{ragmeter_reason="sampled_out"}': "0+5x60",
    },
    "RagmeterScoringStopped, nothing but missing inputs": {
        "ragmeter_captured_total": "0+5x60",
        'ragmeter_missing_inputs_total{ragmeter_missing="reference"}': "0+5x60",
    },
    "RagmeterScoringStopped, no requests": {
        "ragmeter_captured_total": "5x60",
        'ragmeter_results_total{ragmeter_status="ok"}': "5x60",
    },
    "RagmeterExportFailing": {'ragmeter_export_errors_total{ragmeter_exporter="X"}': "3x60"},
}


def test_promtools_unit_tests_of_every_alert(promtool, tmp_path):
    shipped = {r["alert"]: r for g in rules()["groups"] for r in g["rules"] if "alert" in r}
    for cases in (CASES, QUIET):
        assert {name.split(",")[0] for name in cases} == set(shipped)

    def case(name, series, at, expected):
        return {
            "name": name,
            "interval": "1m",
            "input_series": [{"series": key, "values": values} for key, values in series.items()],
            "alert_rule_test": [
                {"eval_time": f"{at}m", "alertname": name.split(",")[0], "exp_alerts": expected}
            ],
        }

    # The rules' own recording would overwrite the given means, so alerts are tested without it.
    # Every five minutes will do: two weeks by the minute take promtool minutes.
    alerting = {
        "groups": [
            {**group, "interval": "5m"}
            for group in rules()["groups"]
            if "record" not in group["rules"][0]
        ]
    }
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(alerting))
    tests = []
    for name, (series, at, labels) in CASES.items():
        rule = shipped[name.split(",")[0]]
        given = {**rule["labels"], **labels}
        tests.append(case(name, series, at, [{"exp_labels": given}]))
    tests += [
        case(name, series, WEEK_MIN + 50 if {MEAN, LOWER} & set(series) else 50, [])
        for name, series in QUIET.items()
    ]
    for test in tests:
        for one in test["alert_rule_test"]:
            for alert in one["exp_alerts"]:
                alert["exp_annotations"] = expected_annotations(
                    shipped[one["alertname"]], alert["exp_labels"]
                )
    (tmp_path / "tests.yml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": "5m", "tests": tests})
    )
    done = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "tests.yml")],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


VALUES = {
    "RagmeterQualityFell": "0.20",
    "RagmeterManyBadRequests": "40%",
    "RagmeterRetrievalsEmpty": "20%",
    "RagmeterJudgeFailing": "30%",
}


def expected_annotations(rule, labels):
    """Fill a rule's texts in, as Prometheus will."""
    value = VALUES.get(rule["alert"], "")

    def filled(text):
        text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda m: labels[m[1]], text)
        return re.sub(r"\{\{ \$value [^}]*\}\}", value, text)

    return {key: filled(text) for key, text in rule["annotations"].items()}
