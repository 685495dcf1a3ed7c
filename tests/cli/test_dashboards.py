"""What ``ragmeter dashboards`` writes, without any server; `tests/services` runs it against real ones."""

import json
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import yaml
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, generate_latest
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.cli.dashboards import RuleSettings, dashboard_files, rules_text
from ragmeter.exporters import semconv
from ragmeter.quality.objectives import parse_objectives

ROOT = Path(__file__).parents[2]
UNITS = {"s": "_seconds", "By": "_bytes", "1": ""}
"""UCUM units that semconv uses. Annotations such as ``{request}`` add nothing."""


def escaped(name):
    return re.sub(r"[^a-zA-Z0-9]+", "_", name)


def series_of(instrument):
    """Return the names of an instrument's series in Prometheus.

    As the "Prometheus and OpenMetrics compatibility" page of OpenTelemetry's specification says, in the
    translation that the Python exporter, the Collector and Prometheus' own OTLP receiver share by
    default (``UnderscoreEscapingWithSuffixes``).
    """
    unit = "" if instrument.unit.startswith("{") else UNITS[instrument.unit]
    name = escaped(instrument.name)
    name = name if name.endswith(unit) else name + unit
    if instrument.kind == "histogram":
        return {f"{name}_{part}" for part in ("bucket", "count", "sum")}
    return {f"{name}_total" if instrument.kind in ("counter", "observable_counter") else name}


def labels_of(instrument):
    return {escaped(attribute) for attribute in instrument.attributes}


INSTRUMENTS = (
    *semconv.INSTRUMENTS,
    *semconv.QUALITY_INSTRUMENTS,
    *semconv.CHANGE_INSTRUMENTS,
    *semconv.SERVER_INSTRUMENTS,
)
INSTRUMENT_OF = {series: one for one in INSTRUMENTS for series in series_of(one)}
LABELS = {label for one in INSTRUMENTS for label in labels_of(one)}
GIVEN = {"le", "job", "instance", "deployment_environment_name", "service_version"}
"""Labels that Prometheus gives, or that are made of attributes of the resource."""
SHOWN = re.compile(
    r"ragmeter:((version_)?quality_(mean|lower|upper|lowest|highest|unscored|undefined)"
    r"|(low|bad|empty|judge_failed)_(share|least|most|count)):\w+"
)
"""What is recorded for people to read, if no query of ours does."""
OBJECTIVES = ("shop_qa:faithfulness>=0.8 for 95%", "empty_retrieval<=0 for 99.5%")
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


@cache
def dashboard():
    return json.loads(dashboard_files()["grafana/dashboards/ragmeter.json"])


@cache
def rules():
    written = dashboard_files(parse_objectives(OBJECTIVES))
    groups = yaml.safe_load(written["prometheus/ragmeter.rules.yml"])["groups"]
    return [rule for group in groups for rule in group["rules"]]


@cache
def windows():
    """Return what means can be chosen over."""
    [window] = [v for v in dashboard()["templating"]["list"] if v["name"] == "window"]
    assert window["current"]["value"] in window["query"].split(",")
    return window["query"].split(",")


@cache
def promql():
    """Return every PromQL expression of the dashboard and the rules."""
    board = dashboard()
    exprs = [
        target["expr"].replace("$window", window)
        for panel in board["panels"]
        for target in panel.get("targets", ())
        if target["datasource"]["type"] == "prometheus"
        for window in windows()
    ]
    exprs += [one["expr"] for one in board["annotations"]["list"]]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            exprs += re.fullmatch(r"label_values\((.+), \w+\)", variable["query"]["query"]).groups()
    return exprs + [rule["expr"] for rule in rules()]


def texts_with_labels():
    """Return the legends, texts and choices that name labels, each with the labels they name."""
    board = dashboard()
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            legend = target.get("legendFormat", "")
            yield legend, set(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend)) - {"le"}
    for one in board["annotations"]["list"]:
        for text in (one["titleFormat"], one["textFormat"]):
            yield text, set(re.findall(r"\{\{\s*(\w+)\s*\}\}", text)) - {"alertname"}
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            query = variable["query"]["query"]
            yield query, {re.fullmatch(r"label_values\(.+, (\w+)\)", query)[1]}
    for rule in rules():
        for text in rule.get("annotations", {}).values():
            yield text, set(re.findall(r"\$labels\.(\w+)", text))


RECORDED = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}


def carried_by(name):
    """Return the labels of a series: those of its instrument, or of what it is recorded from."""
    if name in INSTRUMENT_OF:
        return labels_of(INSTRUMENT_OF[name]) | GIVEN
    expr = RECORDED[name]
    kept = {label for by in re.findall(r"by \(([^)]*)\)", expr) for label in by.split(", ")}
    for earlier in set(re.findall(r"ragmeter:\w+(?::\w+)?", expr)):
        kept |= carried_by(earlier)
    return kept


def test_every_name_in_every_query_is_one_that_ragmeter_emits():
    known = {*INSTRUMENT_OF, *LABELS, *GIVEN, *RECORDED}
    used = set()
    for expr in promql():
        bare = QUOTED.sub("", expr)
        names = set(re.findall(r"(?<![\w$])[a-z]\w*_[\w:]*|ragmeter:[\w:]+", bare))
        names -= {
            "absent_over_time",
            "clamp_max",
            "clamp_min",
            "histogram_quantile",
            "label_replace",
            "last_over_time",
        }
        assert names <= known, f"{names - known} in {expr}"
        used |= names
    assert len(used & set(INSTRUMENT_OF)) > 15
    assert [name for name in set(RECORDED) - used if not SHOWN.fullmatch(name)] == []


def test_every_series_is_selected_and_grouped_by_labels_that_it_carries():
    for expr in promql():
        series = re.findall(r"([a-z][\w:]*)(\{[^}]*\})?", QUOTED.sub('""', expr))
        carried = set()
        for name, selector in series:
            if name not in INSTRUMENT_OF and name not in RECORDED:
                continue
            own = carried_by(name)
            matched = set(re.findall(r"(\w+)(?:=~|!=|!~|=)", selector)) - {"le"}
            assert matched <= own, f"{name} does not carry {matched - own}"
            carried |= own
        for group in re.findall(r"by \(([^)]*)\)", expr):
            assert set(group.split(", ")) - GIVEN <= carried, expr


def test_no_query_reads_requests_that_were_judged_only_for_being_bad():
    """They would pull every mean down; what carries the selection is always read without them."""
    selected = [one for one in semconv.INSTRUMENTS if semconv.SELECTION in one.attributes]
    assert selected
    for expr in promql():
        for instrument in selected:
            for series in series_of(instrument):
                for selector in re.findall(rf"\b{series}\b(?:(\{{[^}}]*\}})|)", expr):
                    assert f'{escaped(semconv.SELECTION)}!="worst"' in selector, expr


def test_legends_texts_and_choices_name_labels_that_ragmeter_emits():
    named = set()
    for text, labels in texts_with_labels():
        assert labels <= LABELS | GIVEN | {"objective"}, text
        named |= labels
    assert len(named) > 8


def test_the_traces_found_are_those_with_the_attribute_that_spans_carry():
    queries = [t["query"] for p in dashboard()["panels"] for t in p.get("targets", ()) if "query" in t]
    assert queries == [
        f'{{ span.{semconv.VERDICT} = "bad" }}',
        f"{{ span.{semconv.SPAN_SCORE_PREFIX}$focus <= $threshold }}",
    ]


def test_the_change_log_and_the_links_to_traces_read_what_is_written():
    panels = dashboard()["panels"]
    [log] = [t["expr"] for p in panels for t in p.get("targets", ()) if p["type"] == "logs"]
    assert log == f'{{service_name=~".+"}} | {escaped(semconv.CHANGE_KIND)} != ""'
    links = [
        unquote(link["url"])
        for panel in panels
        for given in (
            panel.get("fieldConfig", {}).get("defaults", {}).get("links", ()),
            *(
                one["value"]
                for override in panel.get("fieldConfig", {}).get("overrides", ())
                for one in override["properties"]
                if one["id"] == "links"
            ),
        )
        for link in given
    ]
    to_traces = [link for link in links if link.startswith("/explore?")]
    assert len(to_traces) == 3
    for link in to_traces:
        [pane] = json.loads(link.split("panes=")[1]).values()
        [query] = pane["queries"]
        assert query["query"].startswith(f"{{ span.{semconv.SPAN_SCORE_PREFIX}$")


def test_names_are_those_that_the_prometheus_exporter_writes():
    reader = PrometheusMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    try:
        meter = provider.get_meter("ragmeter")
        for one in INSTRUMENTS:
            attributes = {str(attribute): "x" for attribute in one.attributes}
            if one.kind == "histogram":
                meter.create_histogram(
                    one.name, one.unit, explicit_bucket_boundaries_advisory=one.buckets
                ).record(0.0, attributes)
            elif one.kind == "observable_updowncounter":
                meter.create_up_down_counter(one.name, one.unit).add(1, attributes)
            elif one.kind == "observable_gauge":
                meter.create_gauge(one.name, one.unit).set(1, attributes)
            else:
                meter.create_counter(one.name, one.unit).add(1, attributes)
        text = generate_latest(REGISTRY).decode()
    finally:
        provider.shutdown()
    written = set(re.findall(r"^(\w+)\{", text, re.MULTILINE))
    assert written >= set(INSTRUMENT_OF)
    assert set(re.findall(r'(\w+)="x"', text)) >= LABELS
    # The share of empty retrievals is the bucket of zero, however a producer spells zero.
    zero = next(m for m in promql() if 'le=~"0' in m)
    pattern = json.loads(re.search(r'le=~("(?:[^"\\]|\\.)*")', zero)[1])
    bounds = re.findall(r'context_count_bucket\{.*le="([^"]+)"', text)
    assert [bound for bound in (*bounds, "0") if re.fullmatch(pattern, bound)] == ["0.0", "0"]


def test_thresholds_are_bounds_of_the_score_histogram():
    [threshold] = [v for v in dashboard()["templating"]["list"] if v["name"] == "threshold"]
    bounds = {f"{bound:g}" for bound in semconv.SCORE_BUCKETS}
    assert set(threshold["query"].split(",")) <= bounds
    assert threshold["current"]["value"] in threshold["query"].split(",")


def test_panels_do_not_overlap_and_have_ids_of_their_own():
    panels = dashboard()["panels"]
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
    alerts = [rule for rule in rules() if "alert" in rule]
    assert len(alerts) >= 4
    for alert in alerts:
        line, anchor = alert["annotations"]["runbook"].split(" More: docs/dashboards.md#")
        assert len(line) > 20
        assert anchor in headings


def test_every_setting_of_the_rules_takes_effect():
    """Filled with a word of its own, each setting stands in the text; none is left open."""
    several = {
        "estimates": [("set-over", "set-every")],
        "versions": [("set-by_version", "set-seldom")],
        "burning": [("set-long", "set-short", 7, "set-severity")],
    }
    names = {field.name for field in fields(RuleSettings)} - set(several)
    settings = {name: f"set-{name}" for name in names}
    text = rules_text(RuleSettings(**settings, **several), parse_objectives(OBJECTIVES))
    inside = {word for pairs in several.values() for one in pairs for word in map(str, one)}
    assert set(re.findall(r"set-(\w+)", text)) == names | {word.removeprefix("set-") for word in inside - {"7"}}
    assert "low_limit:7x" in text
    assert "@" not in text


def test_objectives_stand_in_the_rules_as_they_were_written():
    """Quoted for PromQL and for YAML, the one of a workflow before the one of all."""
    text = 'a "b" {{c}} \\d:faithfulness>=0.8 for 95%'
    given = parse_objectives([text, "faithfulness>=0.5 for 80%"])
    rules = [
        rule
        for group in yaml.safe_load(rules_text(objectives=given[::-1]))["groups"]
        for rule in group["rules"]
    ]
    [budget] = [rule["expr"] for rule in rules if rule.get("record") == "ragmeter:low_budget"]
    assert budget.index("0.05 + ") < budget.index("0.2 + ")
    assert 'gen_ai_workflow_name="a \\"b\\" {{c}} \\\\d"' in budget
    labels = [r["labels"]["objective"] for r in rules if "objective" in r.get("labels", {})]
    assert labels == ["faithfulness>=0.5 for 80%", text.replace("{{", '{{ "{{" }}')]
    without = rules_text()
    assert "NotCounted" not in without
    assert "ragmeter_quality_budget" in without


def test_the_command_takes_objectives(tmp_path):
    given = [part for one in OBJECTIVES for part in ("--objective", one)]
    done = CliRunner().invoke(app, ["dashboards", "--out", str(tmp_path), *given])
    assert done.exit_code == 0
    written = (tmp_path / "prometheus" / "ragmeter.rules.yml").read_text()
    assert OBJECTIVES[0] in written


def test_the_dashboard_is_kept_as_grafana_and_people_edit_it():
    text = dashboard_files()["grafana/dashboards/ragmeter.json"]
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


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
            "resource_to_telemetry_conversion",
            "translation_strategy",
        },
        "otlp_http": {"endpoint", "tls", "headers", "compression"},
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
    [prometheus, tempo, loki] = yaml.safe_load(written["grafana/provisioning/datasources/ragmeter.yaml"])[
        "datasources"
    ]
    [link] = prometheus["jsonData"]["exemplarTraceIdDestinations"]
    assert link == {"name": "trace_id", "datasourceUid": tempo["uid"]}
    compose = yaml.safe_load(written["compose.yaml"])
    assert {one["type"] for one in (prometheus, tempo, loki)} == {
        one["query"] for one in dashboard()["templating"]["list"] if one["type"] == "datasource"
    }
    [provider] = yaml.safe_load(written["grafana/provisioning/dashboards/ragmeter.yaml"])["providers"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in compose["services"]["grafana"]["volumes"]
    [rule_file] = yaml.safe_load(written["prometheus/prometheus.yml"])["rule_files"]
    assert f"prometheus/{rule_file}" in written


def test_the_command_writes_everything_and_keeps_what_was_edited(tmp_path):
    out = tmp_path / "new" / "stack"
    done = CliRunner().invoke(app, ["dashboards", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()} == set(dashboard_files())
    again = CliRunner().invoke(app, ["dashboards", "--out", str(out)])
    assert again.exit_code == 0
    (out / "collector.yaml").write_text("mine")
    refused = CliRunner().invoke(app, ["dashboards", "--out", str(out)])
    assert refused.exit_code == 2
    assert (out / "collector.yaml").read_text() == "mine"
    assert CliRunner().invoke(app, ["dashboards", "--out", str(out), "--force"]).exit_code == 0
    assert (out / "collector.yaml").read_text() == dashboard_files()["collector.yaml"]
