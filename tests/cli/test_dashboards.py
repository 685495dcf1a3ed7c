"""What ``ragmeter dashboards`` writes, without any server; `tests/services` runs it against real ones."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, generate_latest
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.cli.dashboards import dashboard_files, rules
from ragmeter.cli.dashboards.names import label, metric_name
from ragmeter.cli.dashboards.yaml_text import to_yaml
from ragmeter.exporters import semconv

ROOT = Path(__file__).parents[2]
LABELS = {label(one, attribute) for one in semconv.INSTRUMENTS for attribute in one.attributes}
METRICS = {
    metric_name(one) + suffix
    for one in semconv.INSTRUMENTS
    for suffix in (("_bucket", "_count", "_sum") if one.kind == "histogram" else ("",))
}


def promql():
    """Return every PromQL expression of the dashboard and the rules."""
    board = json.loads(dashboard_files()["grafana/dashboards/ragmeter.json"])
    exprs = [t["expr"] for p in board["panels"] for t in p.get("targets", ()) if "expr" in t]
    return exprs + [rule["expr"] for group in rules()["groups"] for rule in group["rules"]]


def test_every_name_in_every_query_is_one_that_ragmeter_emits():
    recorded = {
        rule["record"] for group in rules()["groups"] for rule in group["rules"] if "record" in rule
    }
    used = {
        name
        for expr in promql()
        for name in re.findall(r"\b(?:gen_ai_|ragmeter[_:]|error_)[\w:]*", expr)
    }
    assert used <= METRICS | LABELS | recorded
    assert len(used & METRICS) > 15
    assert recorded <= used


def test_names_are_those_that_the_prometheus_exporter_writes():
    reader = PrometheusMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    try:
        meter = provider.get_meter("ragmeter")
        for one in semconv.INSTRUMENTS:
            attributes = {str(attribute): "x" for attribute in one.attributes}
            if one.kind == "histogram":
                meter.create_histogram(
                    one.name, one.unit, explicit_bucket_boundaries_advisory=one.buckets
                ).record(0.0, attributes)
            elif one.kind == "observable_updowncounter":
                meter.create_up_down_counter(one.name, one.unit).add(1, attributes)
            else:
                meter.create_counter(one.name, one.unit).add(1, attributes)
        text = generate_latest(REGISTRY).decode()
    finally:
        provider.shutdown()
    written = set(re.findall(r"^(\w+)\{", text, re.MULTILINE))
    assert written >= METRICS
    assert set(re.findall(r'(\w+)="x"', text)) >= LABELS
    # The share of empty retrievals is the bucket of zero, however a producer spells zero.
    zero = next(m for m in promql() if 'le=~"0' in m)
    pattern = json.loads(re.search(r'le=~("(?:[^"\\]|\\.)*")', zero)[1])
    bounds = re.findall(r'context_count_bucket\{.*le="([^"]+)"', text)
    assert [bound for bound in (*bounds, "0") if re.fullmatch(pattern, bound)] == ["0.0", "0"]


def test_an_unknown_attribute_or_unit_is_refused_while_generating():
    with pytest.raises(ValueError, match="does not carry"):
        label(semconv.DROPPED, semconv.GEN_AI_WORKFLOW_NAME)


def test_thresholds_are_bounds_of_the_score_histogram():
    board = json.loads(dashboard_files()["grafana/dashboards/ragmeter.json"])
    [threshold] = [v for v in board["templating"]["list"] if v["name"] == "threshold"]
    bounds = {f"{bound:g}" for bound in semconv.SCORE_BUCKETS}
    assert set(threshold["query"].split(",")) <= bounds
    assert threshold["current"]["value"] in threshold["query"].split(",")


def test_panels_do_not_overlap_and_have_ids_of_their_own():
    panels = json.loads(dashboard_files()["grafana/dashboards/ragmeter.json"])["panels"]
    cells = [
        (x, y)
        for panel in panels
        for p in [panel["gridPos"]]
        for x in range(p["x"], p["x"] + p["w"])
        for y in range(p["y"], p["y"] + p["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_every_alert_has_a_runbook_line_and_a_section_in_the_documentation():
    page = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
    headings = {line.lstrip("# ").lower() for line in page.splitlines() if line.startswith("#")}
    alerts = [r for g in rules()["groups"] for r in g["rules"] if "alert" in r]
    assert len(alerts) >= 4
    for alert in alerts:
        line, anchor = alert["annotations"]["runbook"].split(" More: docs/dashboards.md#")
        assert len(line) > 20
        assert anchor in headings


def test_rules_survive_being_written_as_yaml():
    assert yaml.safe_load(dashboard_files()["prometheus/ragmeter.rules.yml"]) == rules()


# Keys are ours and plain; values are any text that our expressions and summaries may contain.
TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x24F, exclude_categories=("Cc",)))
VALUES = st.recursive(
    TEXT
    | st.integers()
    | st.booleans()
    | st.lists(TEXT.map(lambda s: f"x{s}"), min_size=2).map("\n".join),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.from_regex(r"[a-z]{1,8}x", fullmatch=True), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}x", fullmatch=True), VALUES, min_size=1))
def test_yaml_means_what_was_written(value):
    assert yaml.safe_load(to_yaml(value)) == value


# What the Collector documents (components' READMEs and config schemas of 0.159), by component type.
DOCUMENTED = {
    "receivers": {"otlp": {"protocols": {"grpc": {"endpoint"}, "http": {"endpoint"}}}},
    "processors": {
        "memory_limiter": {"check_interval", "limit_mib", "spike_limit_mib"},
        "batch": {"timeout", "send_batch_size", "send_batch_max_size"},
    },
    "exporters": {
        "otlp_grpc": {"endpoint": None, "tls": {"insecure", "ca_file", "cert_file", "key_file"}},
        "prometheus": {
            "endpoint",
            "enable_open_metrics",
            "metric_expiration",
            "translation_strategy",
        },
        "debug": {"verbosity"},
    },
    "extensions": {"health_check": {"endpoint", "path", "response_body"}},
}


def assert_documented(given, known, where):
    for key, value in (given or {}).items():
        assert key in known, f"{where}.{key} is not documented"
        if isinstance(known, dict) and known[key] is not None:
            assert_documented(value, known[key], f"{where}.{key}")


def test_the_collectors_configuration_uses_documented_keys_and_whole_pipelines():
    config = yaml.safe_load(dashboard_files()["collector.yaml"])
    for section, known in DOCUMENTED.items():
        for name, settings in config[section].items():
            assert_documented({name.split("/")[0]: settings}, known, section)
    assert set(config) == {*DOCUMENTED, "service"}
    service = config["service"]
    assert set(service) == {"extensions", "pipelines"}
    assert set(service["extensions"]) == set(config["extensions"])
    assert set(service["pipelines"]) == {"traces", "metrics", "logs"}
    used = {"receivers": set(), "processors": set(), "exporters": set()}
    for pipeline in service["pipelines"].values():
        for section, names in pipeline.items():
            used[section] |= set(names)
    assert used == {section: set(config[section]) for section in used}


def test_the_compose_file_mounts_files_that_exist_and_listens_on_this_machine_only():
    written = dashboard_files()
    compose = yaml.safe_load(written["compose.yaml"])
    for service in compose["services"].values():
        assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")
        for volume in service["volumes"]:
            source, _, mode = volume.split(":")
            path = source.removeprefix("./")
            assert mode == "ro"
            assert any(one == path or one.startswith(f"{path}/") for one in written)
        for needed in service.get("depends_on", ()):
            assert needed in compose["services"]


def test_grafana_is_given_the_dashboard_and_links_exemplars_to_the_trace_backend():
    written = dashboard_files()
    [prometheus, tempo] = yaml.safe_load(written["grafana/provisioning/datasources/ragmeter.yaml"])[
        "datasources"
    ]
    [link] = prometheus["jsonData"]["exemplarTraceIdDestinations"]
    assert link == {"name": "trace_id", "datasourceUid": tempo["uid"]}
    compose = yaml.safe_load(written["compose.yaml"])
    [provider] = yaml.safe_load(written["grafana/provisioning/dashboards/ragmeter.yaml"])[
        "providers"
    ]
    assert (
        f"./grafana/dashboards:{provider['options']['path']}:ro"
        in compose["services"]["grafana"]["volumes"]
    )
    [rule_file] = yaml.safe_load(written["prometheus/prometheus.yml"])["rule_files"]
    assert f"prometheus/{rule_file}" in written


def test_the_command_writes_everything_and_keeps_what_was_edited(tmp_path):
    out = tmp_path / "new" / "stack"
    done = CliRunner().invoke(app, ["dashboards", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()} == set(
        dashboard_files()
    )
    again = CliRunner().invoke(app, ["dashboards", "--out", str(out)])
    assert again.exit_code == 0
    (out / "collector.yaml").write_text("mine")
    refused = CliRunner().invoke(app, ["dashboards", "--out", str(out)])
    assert refused.exit_code == 2
    assert (out / "collector.yaml").read_text() == "mine"
    assert CliRunner().invoke(app, ["dashboards", "--out", str(out), "--force"]).exit_code == 0
    assert (out / "collector.yaml").read_text() == dashboard_files()["collector.yaml"]


def test_a_directory_that_cannot_be_written_is_explained(tmp_path):
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, ["dashboards", "--out", str(tmp_path / "file")])
    assert done.exit_code == 2
    assert "cannot write" in done.output
