"""The rule on the gauges of `ragmeter serve` that docs/dashboards.md shows, in promtool's unit tests."""

import re
import subprocess
from pathlib import Path

import yaml

PAGE = Path(__file__).parents[2] / "docs" / "dashboards.md"
OF = 'ragmeter_service_name="shop",gen_ai_workflow_name="qa",gen_ai_evaluation_name="{}",ragmeter_evaluation_direction="{}"'


def gauges(score, direction, lower, upper, objective):
    """Return an hour of gauges; None: there is none."""
    said = {"lower": lower, "upper": upper, "objective": objective}
    return [
        {"series": f"ragmeter_quality_{name}{{{OF.format(score, direction)}}}", "values": f"{value}x60"}
        for name, value in said.items()
        if value is not None
    ]


def test_the_rule_fires_where_a_mean_is_surely_on_the_bad_side_and_nowhere_else(promtool, tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    below = text[text.index("## Gauges of `ragmeter serve`") :]
    rules = re.search(r"^```yaml\n(.*?)^```", below, re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "rules.yml").write_text(rules, encoding="utf-8")
    given = [
        *gauges("low", "higher", 0.6, 0.75, 0.8),
        *gauges("unsure", "higher", 0.6, 0.85, 0.8),
        *gauges("good", "higher", 0.85, 0.9, 0.8),
        *gauges("high_is_bad", "lower", 0.3, 0.4, 0.2),
        *gauges("low_is_good", "lower", 0.0, 0.1, 0.2),
        *gauges("without", "higher", 0.0, 0.1, None),
    ]
    firing = [
        {
            "labels": f'ALERTS{{alertname="MeanBelowObjective",alertstate="firing",{OF.format(*one)}}}',
            "value": 1,
        }
        for one in (("high_is_bad", "lower"), ("low", "higher"))
    ]
    tests = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": given,
                "promql_expr_test": [
                    {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{minute}m", "exp_samples": samples}
                    for minute, samples in ((5, []), (30, firing))
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(tests))
    done = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "test.yml")], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
