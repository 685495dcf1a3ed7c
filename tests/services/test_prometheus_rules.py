"""Every shipped alert in promtool's unit tests, from the counters that applications write: fires, stays silent, tells services apart.

The rules are the shipped ones, recordings included; only how often they are evaluated is a test's own.
"""

import math
import random
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from ragmeter.cli.dashboards import rules_text
from ragmeter.exporters.semconv import DELAY_BUCKETS
from ragmeter.quality.objectives import parse_objective

DAY = 24 * 60
WEEK = 7 * DAY
"""Minutes."""
OBJECTIVE = "shop_qa:faithfulness>=0.8 for 90%"
PARTS = ("n", "kd", "x", "xx", "wb")


def series(name, **labels):
    inside = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{inside}}}"


def grown(steps):
    """Return a counter as promtool writes it, of growths per point: (points, growth) one after the other."""
    values, total = [], 0.0
    for points, growth in steps:
        values.append(f"{total:.12g}+{growth:.12g}x{points - 1}" if points > 1 else f"{total:.12g}")
        total += growth * points
    return " ".join(values)


def quality(means, *, each=10, score="faithfulness", workflow="shop_qa", low=None, **labels):
    """Return the sums of a free score: (points, mean) one after the other, `each` requests a point.

    The values are as spread as judged scores are: half of what is possible.
    """
    labels = {"gen_ai_evaluation_name": score, "gen_ai_workflow_name": workflow, **labels}
    growth = {
        "n": [(points, each) for points, _ in means],
        "kd": [(points, each) for points, _ in means],
        "wb": [(points, each) for points, _ in means],
        "x": [(points, each * mean) for points, mean in means],
        "xx": [(points, each * (mean * mean + mean * (1 - mean) / 2)) for points, mean in means],
    }
    if low is not None:
        growth["low"] = [(points, each * share) for points, share in low]
    return {series(f"ragmeter_quality_{name}_total", **labels): grown(steps) for name, steps in growth.items()}


def judged(points, *, each=10, weight=10.0, value=0.9, missing=0.0, low=None, **labels):
    """Return the sums of a judged score: `each` judged requests a point, each for `weight` requests."""
    labels = {
        "gen_ai_evaluation_name": "faithfulness",
        "gen_ai_workflow_name": "shop_qa",
        "ragmeter_judge": "j1",
        **labels,
    }
    x, w, q, d = 0.7, each * weight, each * weight**2, 1 - missing
    xx = x * x + 0.04
    growth = {
        "n": w, "x": w * x, "xx": w * xx, "k": each, "kd": each * d,
        "w": w, "wx": w * x, "wd": w * d, "wy": w * d * value, "wb": w,
        "wl": w * d * value, "wu": w * (d * value + missing),
        "q": q, "qx": q * x, "qxx": q * xx, "qd": q * d, "qxd": q * d * x,
        "qy": q * d * value, "qyy": q * d * (value * value + value * (1 - value) / 2),
        "qxy": q * d * x * value,
    }  # fmt: skip
    found = {
        series(f"ragmeter_quality_{name}_total", **labels): grown([(points, one)])
        for name, one in growth.items()
    }
    if low is not None:
        found[series("ragmeter_quality_low_total", **labels)] = grown(
            [(length, w * d * share) for length, share in low]
        )
    return found


def counter(name, steps, **labels):
    return {series(name, **labels): grown(steps)}


@pytest.fixture
def alarms(promtool, tmp_path):
    """A function that says which alerts fire, given series and what is expected when."""

    def check(given, expected, *, minutes=1, objectives=(), groups=None):
        """Fail unless exactly the expected alerts fire.

        Args:
            given: Values by series, one every `minutes`.
            expected: Minute → (alert → the labels of each that fires, by which it must be told apart).
            minutes: Between points, and between evaluations.
            objectives: That the rules are made with.
            groups: Names of the groups to evaluate; None: all.
        """
        rules = yaml.safe_load(rules_text(objectives=[parse_objective(one) for one in objectives]))
        kept = [one for one in rules["groups"] if groups is None or re.search(groups, one["name"])]
        for group in kept:
            group["interval"] = f"{minutes}m"
        (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": kept}))
        shipped = {
            (rule["alert"], rule["labels"].get("window")): rule
            for group in kept
            for rule in group["rules"]
            if "alert" in rule
        }
        tests = []
        for minute, alerts in expected.items():
            for alert, labels in alerts.items():
                firing = []
                for one in labels:
                    rule = shipped[alert, one.get("window")]
                    said = {"alertname": alert, "alertstate": "firing", **rule["labels"], **one}
                    firing.append({"labels": series("ALERTS", **said), "value": 1})
                    for text in rule["annotations"].values():
                        assert set(re.findall(r"\$labels\.(\w+)", text)) <= {*said, *OPTIONAL}
                tests.append(
                    {
                        "expr": f'ALERTS{{alertname="{alert}",alertstate="firing"}}',
                        "eval_time": f"{minute}m",
                        "exp_samples": firing,
                    }
                )
        case = {
            "interval": f"{minutes}m",
            "input_series": [{"series": key, "values": text} for key, text in given.items()],
            "promql_expr_test": tests,
        }
        # Without a word promtool takes the groups in an order of chance. A server has them side by side, and one sees
        # what another recorded now or an interval ago; after five minutes it is gone, so here, where an interval is
        # longer, only the first can be had.
        names = [group["name"] for group in kept]
        files = []
        for order in (names, names[::-1]) if minutes < 5 else (names,):
            files.append(tmp_path / f"first-{order[0]}.yml")
            files[-1].write_text(
                yaml.safe_dump(
                    {
                        "rule_files": ["rules.yml"],
                        "evaluation_interval": f"{minutes}m",
                        "group_eval_order": order,
                        "tests": [case],
                    }
                )
            )
        done = subprocess.run(
            [promtool, "test", "rules", *map(str, files)],
            capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]

    return check


OPTIONAL = {"gen_ai_workflow_name", "ragmeter_segment"}
"""Labels that a text may name and a series lack."""
FAITHFULNESS = {"gen_ai_evaluation_name": "faithfulness", "gen_ai_workflow_name": "shop_qa"}
HALVES = 2 * 24
"""Points a day, of long tests: one every half hour."""
LONG = {"minutes": 30, "groups": "estimates-6h|quality$"}


def traffic(per_hour, weeks, seed, **labels):
    """Return the sums of a score of random requests: 60 % of them 1, 15 % 0, the others in between."""
    rng = random.Random(seed)
    sums = dict.fromkeys(PARTS, 0.0)
    texts = {name: ["0"] for name in PARTS}
    for _ in range(weeks * 7 * HALVES):
        # As many as come in half an hour, by a Poisson distribution.
        left, level = math.exp(-per_hour / 2), rng.random()
        while level > left:
            level *= rng.random()
            chance = rng.random()
            y = 1.0 if chance < 0.6 else 0.0 if chance < 0.75 else rng.uniform(0.3, 0.9)
            for name, value in zip(PARTS, (1, 1, y, y * y, 1), strict=True):
                sums[name] += value
        for name in PARTS:
            texts[name].append(f"{sums[name]:.6f}")
    labels = {**FAITHFULNESS, **labels}
    return {series(f"ragmeter_quality_{name}_total", **labels): " ".join(texts[name]) for name in PARTS}


def test_few_requests_of_unchanged_quality_raise_no_alarm_in_three_weeks(alarms):
    """Of 20 and of 40 requests an hour, where comparing two means by a fixed step cried wolf many times a week."""
    given = {}
    for number in range(4):
        given |= traffic(20, 3, number, job=f"twenty-{number}")
        given |= traffic(40, 3, 100 + number, job=f"forty-{number}")
    looked = range(WEEK, 3 * WEEK, 30)
    alarms(given, {minute: {"RagmeterQualityFell": []} for minute in looked}, **LONG)


def test_of_two_services_with_one_workflow_the_one_that_collapses_is_named(alarms):
    """Within hours, through the second week; in one environment of two; where lower is better, by rising."""
    before, after = (9 * HALVES, 0.85), (9 * HALVES, 0.55)
    steady = (18 * HALVES, 0.85)
    lower = {"score": "repeats", "ragmeter_evaluation_direction": "lower"}
    given = {
        **quality([before, after], job="falls"),
        **quality([steady], job="stays"),
        **quality([before, after], job="both", deployment_environment_name="prod"),
        **quality([steady], job="both", deployment_environment_name="staging"),
        **quality([(9 * HALVES, 0.2), (9 * HALVES, 0.5)], job="repeats", **lower),
        **quality([(9 * HALVES, 0.5), (9 * HALVES, 0.2)], job="repeats less", **lower),
        **quality([(9 * HALVES, 0.5), (9 * HALVES, 0.9)], job="rises"),
        # Three requests an hour, and a step that so few cannot show within six hours.
        **quality([before, (9 * HALVES, 0.75)], job="rare", each=1.5),
    }
    repeats = {**FAITHFULNESS, "gen_ai_evaluation_name": "repeats"}
    fell = [
        {**FAITHFULNESS, "job": "falls"},
        {**FAITHFULNESS, "job": "both", "deployment_environment_name": "prod"},
        {**repeats, "ragmeter_evaluation_direction": "lower", "job": "repeats"},
    ]
    alarms(
        given,
        {
            9 * DAY - 30: {"RagmeterQualityFell": []},
            9 * DAY + 6 * 60: {"RagmeterQualityFell": fell},
            # A week later last week was as bad; the week before it was not.
            17 * DAY: {"RagmeterQualityFell": fell},
        },
        **LONG,
    )


def test_a_judged_mean_that_falls_is_told_and_another_judge_is_another_score(alarms):
    fall = [(9 * HALVES, 1), (4 * HALVES, 1)]
    good = judged(13 * HALVES, job="good")
    bad = judged(13 * HALVES, job="bad")
    name = next(key for key in bad if "_wy_" in key)
    for part in ("wy", "wl", "wu", "qy", "qyy", "qxy"):
        key = name.replace("_wy_", f"_{part}_")
        step = float(bad[key].split("+")[1].split("x")[0])
        bad[key] = grown([(points, step * share) for (points, _), share in zip(fall, (1, 0.6), strict=True)])
    other = judged(9 * HALVES, job="other")
    other |= {
        key.replace("j1", "j2"): f"_x{9 * HALVES} {text}"
        for key, text in judged(4 * HALVES, value=0.5, job="other").items()
    }
    alarms(
        {**good, **bad, **other},
        {9 * DAY + 7 * 60: {"RagmeterQualityFell": [{**FAITHFULNESS, "job": "bad", "ragmeter_judge": "j1"}]}},
        **LONG,
    )


@pytest.mark.parametrize("kind", ["free", "judged"])
def test_an_objective_that_is_missed_is_told_within_an_hour_or_two(alarms, kind):
    """Of one service of two; by the command line's budget, and by the application's own."""

    def sums(low, **labels):
        if kind == "free":
            return quality([(480, 0.9)], each=2, low=low, **labels)
        return judged(480, each=2, low=low, **labels)

    well = [(480, 0.08)]
    given = {
        **sums([(240, 0.05), (240, 0.6)], job="collapses"),
        **sums(well, job="stays"),
        **sums([(240, 0.05), (240, 0.6)], job="says it itself", gen_ai_workflow_name="other_qa"),
        **sums([(240, 0.05), (240, 0.6)], job="no objective", gen_ai_workflow_name="free_qa"),
        # Bad for a while, and over.
        **sums([(240, 0.05), (90, 0.9), (150, 0.0)], job="was bad"),
        series("ragmeter_quality_budget", job="says it itself", gen_ai_evaluation_name="faithfulness",
               gen_ai_workflow_name="other_qa"): "0.1x480",
    }  # fmt: skip

    def burning(job, *windows, workflow="shop_qa"):
        named = {**FAITHFULNESS, "gen_ai_workflow_name": workflow, "job": job}
        return [{**named, "window": window} for window in windows]

    alarms(
        given,
        {
            235: {"RagmeterObjectiveBurning": [], "RagmeterObjectiveNotCounted": []},
            320: {
                "RagmeterObjectiveBurning": [
                    *burning("collapses", "1h", "3d"),
                    *burning("says it itself", "1h", "3d", workflow="other_qa"),
                    *burning("was bad", "1h", "6h", "3d"),
                ]
            },
            470: {
                "RagmeterObjectiveBurning": [
                    *burning("collapses", "1h", "6h", "3d"),
                    *burning("says it itself", "1h", "6h", "3d", workflow="other_qa"),
                    *burning("was bad", "3d"),
                ]
            },
        },
        objectives=[OBJECTIVE],
        groups="objectives",
    )


def test_what_is_bad_from_the_first_day_and_still_in_the_second_week_is_told(alarms):
    """No rule that compares with an earlier time can see it."""
    points = 16 * 24
    given = {
        **quality([(points, 0.6)], each=20, low=[(points, 0.3)], job="bad"),
        **quality([(points, 0.9)], each=20, low=[(points, 0.05)], job="good"),
    }
    bad = {**FAITHFULNESS, "job": "bad"}
    told = {"RagmeterObjectiveBurning": [{**bad, "window": one} for one in ("6h", "3d")]}
    expected = dict.fromkeys((5 * DAY, 9 * DAY, 15 * DAY), told)
    alarms(given, expected, objectives=[OBJECTIVE], minutes=60, groups="objectives")


def test_an_objective_that_nobody_counts_is_told(alarms):
    well = [(240, 0.01)]
    given = {**quality([(240, 0.9)], job="counts", low=well), **quality([(240, 0.9)], job="does not count")}
    text = {"objective": OBJECTIVE}
    alarms(
        given,
        {
            120: {
                "RagmeterObjectiveNotCounted": [
                    {**FAITHFULNESS, "job": "does not count", **text},
                    {"gen_ai_evaluation_name": "nobodys", "objective": "nobodys<=0.5 for 99%"},
                ]
            }
        },
        objectives=[OBJECTIVE, "nobodys<=0.5 for 99%"],
        groups="objectives",
    )


def test_an_instance_that_scores_nothing_does_not_hide_behind_the_others(alarms):
    """It captures and scores nothing, or every score ends in an error."""

    def process(job, instance, results, captured=10, sampled_out=None, missing=None):
        where = {"job": job, "instance": instance}
        given = counter("ragmeter_captured_total", [(480, captured)], **where)
        for status, steps in results.items():
            given |= counter("ragmeter_results_total", steps, ragmeter_status=status, **where)
        if sampled_out is not None:
            given |= counter(
                "ragmeter_dropped_total", [(480, sampled_out)], ragmeter_reason="sampled_out", **where
            )
        if missing is not None:
            given |= counter(
                "ragmeter_missing_inputs_total", [(480, missing)], ragmeter_missing="reference", **where
            )
        return given

    given = {
        **process("shop", "1", {"ok": [(480, 10)]}),
        **process("shop", "2", {"ok": [(60, 10), (420, 0)]}),
        **process("shop", "3", {"metric_error": [(480, 10)]}, missing=10),
        **process("shop", "4", {"judge_error": [(480, 10)], "undefined": [(480, 1)]}),
        **process("wiki", "1", {}, sampled_out=10),
        **process("wiki", "2", {}, missing=10),
        **process("wiki", "3", {"ok": [(480, 0)]}, captured=0),
        # Three requests an hour, all of them failing; and as many, in order.
        **process("rare", "1", {"timeout": [(480, 0.05)]}, captured=0.05),
        **process("rare", "2", {"ok": [(480, 0.05)]}, captured=0.05),
    }
    stopped = [{"job": "shop", "instance": one} for one in ("2", "3")]
    alarms(
        given,
        {
            120: {"RagmeterScoringStopped": [*stopped, {"job": "rare", "instance": "1"}]},
            470: {"RagmeterScoringStopped": [*stopped, {"job": "rare", "instance": "1"}]},
        },
        groups="requests|itself",
    )


def delayed(worker, service, seconds, each=10, points=240):
    """Return the histogram of a worker's delays: what is scored of a service within so many seconds."""
    bounds = [*(f"{bound:g}" for bound in DELAY_BUCKETS), "+Inf"]
    labels = {"job": worker, "instance": "w1", "ragmeter_service_name": service}
    name = "ragmeter_evaluation_delay_seconds"
    return counter(f"{name}_count", [(points, each)], **labels) | {
        key: text
        for bound in bounds
        for key, text in counter(
            f"{name}_bucket",
            [(points, sum(each / len(seconds) for one in seconds if one <= float(bound)))],
            le=bound,
            **labels,
        ).items()
    }


def test_scores_that_workers_write_late_are_told_by_workers_and_service(alarms):
    given = {
        **delayed("ragmeter-worker", "shop", [0.3] * 9 + [2000.0]),
        **delayed("ragmeter-worker", "wiki", [0.3] * 29 + [2000.0]),
        **delayed("night", "shop", [20.0]),
        **delayed("rare", "shop", [4000.0], each=0.1),
    }
    late = [{"job": one, "ragmeter_service_name": "shop"} for one in ("ragmeter-worker", "rare")]
    alarms(given, {10: {"RagmeterScoresLate": []}, 120: {"RagmeterScoresLate": late}}, groups="itself")


def test_an_application_whose_requests_workers_score_is_not_missed_until_no_worker_does(alarms):
    def publishing(job, instance):
        return counter("ragmeter_captured_total", [(240, 10)], job=job, instance=instance)

    given = {
        **publishing("shop", "1"),
        **publishing("shop", "2"),
        **publishing("prod/wiki", "1"),
        **publishing("nobodys", "1"),
        **delayed("ragmeter-worker", "shop", [0.3], points=100),
        **delayed("ragmeter-worker", "wiki", [0.3]),
    }
    alone = {"job": "nobodys", "instance": "1"}
    alarms(
        given,
        {
            90: {"RagmeterScoringStopped": [alone]},
            200: {
                "RagmeterScoringStopped": [
                    alone,
                    {"job": "shop", "instance": "1"},
                    {"job": "shop", "instance": "2"},
                ]
            },
        },
        groups="requests|itself",
    )


def test_a_detached_callback_is_missed_at_the_same_hour_and_where_requests_are_few_on_the_same_day(alarms):
    points, ends = 18 * HALVES, 8 * HALVES
    captured = "ragmeter_captured_total"
    given = {
        **counter(captured, [(points, 20)], job="fine"),
        **counter(captured, [(ends, 20), (points - ends, 0)], job="flat"),
        series(captured, job="gone"): grown([(ends, 20)]) + " stale",
        **counter(captured, [(ends, 0.5), (points - ends, 0)], job="rare"),
        **counter(captured, [(points, 0)], job="never"),
        # Scored by `ragmeter serve`, which captures for all services: each has its scored requests alone.
        **counter("ragmeter_requests_total", [(ends, 20), (points - ends, 0)], job="served"),
        # Nothing on Sundays.
        **counter(captured, [(6 * HALVES, 20), (HALVES, 0)] * 2 + [(4 * HALVES, 20)], job="week"),
    }  # fmt: skip
    silent = [{"job": one} for one in ("flat", "gone", "served")]
    everything = [*silent, {"job": "rare"}]
    alarms(
        given,
        {
            8 * DAY - 30: {"RagmeterSilent": []},
            8 * DAY + 3 * 60: {"RagmeterSilent": silent},
            9 * DAY + 60: {"RagmeterSilent": everything},
            13 * DAY + 12 * 60: {"RagmeterSilent": everything},
            16 * DAY: {"RagmeterSilent": everything},
        },
        minutes=30,
        groups="requests|itself",
    )


def test_values_that_are_missing_are_told_of_free_and_of_judged_scores(alarms):
    name = {"gen_ai_evaluation_name": "free", "gen_ai_workflow_name": "shop_qa"}

    def free(job, kd, wb):
        parts = {"n": 1, "kd": kd, "wb": wb, "x": kd * 0.5, "xx": kd * 0.3}
        return {
            key: text
            for part, one in parts.items()
            for key, text in counter(f"ragmeter_quality_{part}_total", [(180, one)], job=job, **name).items()
        }

    given = {
        **judged(180, missing=0.4, job="judged"),
        **judged(180, missing=0.1, job="fine"),
        **judged(180, missing=0.9, each=0.05, job="few"),
        **free("raises", 0.0, 1.0),
        # Not defined for nine in ten, which is no failure.
        **free("undefined", 0.1, 0.1),
    }  # fmt: skip
    told = [{**FAITHFULNESS, "job": "judged"}, {**name, "job": "raises"}]
    alarms(given, {150: {"RagmeterUnscored": told}}, groups="estimates-1h|quality$")


def test_shares_are_told_when_they_are_surely_too_large(alarms):
    """A few bad ones among few requests are no proof; of many they are."""
    found = "ragmeter_retrieval_context_count"
    workflow = {"gen_ai_workflow_name": "shop_qa"}

    def retrievals(job, empty, every, le="0.0"):
        return {
            **counter(f"{found}_bucket", [(480, empty)], le=le, job=job, **workflow),
            **counter(f"{found}_count", [(480, every)], job=job, **workflow),
        }

    def verdicts(job, bad, every):
        given = counter(
            "ragmeter_verdicts_total", [(480, every - bad)], ragmeter_verdict="good", job=job, **workflow
        )
        if bad:
            given |= counter(
                "ragmeter_verdicts_total", [(480, bad)], ragmeter_verdict="bad", job=job, **workflow
            )
        return given

    def calls(job, failed, every):
        model = {"gen_ai_request_model": "m", "job": job}
        given = counter("ragmeter_judge_calls_total", [(480, every - failed)], **model)
        if failed:
            given |= counter("ragmeter_judge_calls_total", [(480, failed)], error_type="timeout", **model)
        return given

    given = {
        **retrievals("empty", 2, 10),
        **retrievals("empty, other spelling", 2, 10, le="0"),
        **retrievals("fine", 0.5, 10),
        **retrievals("few", 0.016, 0.1),
        **verdicts("bad", 4, 10),
        **verdicts("fine", 1, 10),
        **verdicts("none bad", 0, 10),
        # Four in an hour show nothing; two dozen in six hours do.
        **verdicts("rare and bad", 0.06, 0.07),
        **verdicts("rare", 0.02, 0.07),
        **calls("failing", 3, 10),
        **calls("fine", 1, 10),
        **calls("none failing", 0, 10),
        **calls("few", 0.05, 0.2),
    }  # fmt: skip
    model = {"gen_ai_request_model": "m"}
    alarms(
        given,
        {
            450: {
                "RagmeterRetrievalsEmpty": [
                    {"job": one, **workflow} for one in ("empty", "empty, other spelling")
                ],
                "RagmeterManyBadRequests": [{"job": one, **workflow} for one in ("bad", "rare and bad")],
                "RagmeterJudgeFailing": [{"job": "failing", **model}],
            }
        },
        groups="shares|quality$|itself",
    )


def test_single_events_are_told_of_the_service_they_are_of(alarms):
    reason = {"ragmeter_reason": "queue_full"}
    sink = {"ragmeter_exporter": "LangfuseScores"}
    given = {
        series("ragmeter_dropped_total", job="a", **reason): "_x20 7x40",
        series("ragmeter_dropped_total", job="b", **reason): "7x60",
        series("ragmeter_dropped_total", job="c", ragmeter_reason="sampled_out"): "0+9x60",
        series("ragmeter_export_errors_total", job="a", **sink): "_x20 0+1x40",
        series("ragmeter_export_errors_total", job="b", **sink): "3x60",
    }
    alarms(
        given,
        {
            19: {"RagmeterScoresDropped": [], "RagmeterExportFailing": []},
            32: {
                "RagmeterScoresDropped": [{"job": "a", **reason}],
                "RagmeterExportFailing": [{"job": "a", **sink}],
            },
            58: {"RagmeterScoresDropped": []},
        },
        groups="itself",
    )


def test_a_change_that_the_detector_found_is_told_as_long_as_its_alarm_is_on(alarms):
    where = {**FAITHFULNESS, "ragmeter_change_kind": "fell"}
    part = {**where, "ragmeter_segment": "language:zh"}
    given = {
        series("ragmeter_change_evidence", job="a", instance="1", **where): "0.2x30 1.4x30 0.1x30",
        series("ragmeter_change_evidence", job="a", instance="1", **part): "0.2x30 3x60",
        series("ragmeter_change_evidence", job="b", instance="1", **where): "1x90",
    }
    alarms(
        given,
        {
            29: {"RagmeterQualityChanged": []},
            50: {"RagmeterQualityChanged": [{"job": "a", **where}, {"job": "a", **part}]},
            80: {"RagmeterQualityChanged": [{"job": "a", **part}]},
        },
        groups="quality$",
    )


def test_what_was_acknowledged_and_does_not_leave_is_told_of_its_server(alarms):
    given = {
        series("ragmeter_serve_spool_age_seconds", job="a", instance="1"): "0x20 600+60x60",
        series("ragmeter_serve_spool_age_seconds", job="a", instance="2"): "30x80",
    }
    alarms(
        given,
        {
            22: {"RagmeterAcknowledgedStuck": []},
            45: {"RagmeterAcknowledgedStuck": [{"job": "a", "instance": "1"}]},
        },
        groups="itself",
    )


def test_every_alert_is_tested_here():
    text = rules_text(objectives=[parse_objective(OBJECTIVE)])
    names = set(re.findall(r"alert: (\w+)", text))
    source = Path(__file__).read_text(encoding="utf-8")
    assert names == set(re.findall(r'"(Ragmeter\w+)"', source))
