"""The recorded means and intervals against every single request, on a real Prometheus with restarts."""

import random
import re
import subprocess

import httpx
import pytest
import yaml
from processes import free_port, running

from ragmeter.cli.dashboards import RuleSettings, rules_text
from ragmeter.quality.estimate import estimate
from ragmeter.quality.moments import FreeMoments, JudgedMoments

SCRAPE_S = 15
START = 1_760_000_000 // 60 * 60
END = START + 3 * 3600
AT = END - 3.5
"""When it is asked, between two scrapes."""
SETTINGS = RuleSettings(estimates=(("1h", "1m"),))
JUDGED, FREE = "faithfulness", "lexical_groundedness"
# Workflow: when its processes start, one list for each; whether a start has a new instance id; requests
# a second.
RESTARTS = [list(range(START + 300 * process, END, 2400)) for process in range(3)]
PLAN = {
    "steady": ([[START]] * 3, False, 0.3),
    "restarts": (RESTARTS, False, 0.3),
    "new instances": (RESTARTS, True, 0.3),
    "fresh": ([[END - 1200]] * 3, False, 0.3),
    "nearly perfect": ([[START]] * 3, False, 0.3),
    "rare": ([[START]] * 3, False, 0.004),
}


class Process:
    """The requests of one process from its start to its end, and what it has counted at any time."""

    def __init__(self, chance, start, end, per_s, *, perfect=False):
        self.start, self.end = start, end
        self.requests = []
        at = start + chance.expovariate(per_s)
        while at < end:
            y = 1.0 if chance.random() < (0.995 if perfect else 0.6) else chance.choice((0.0, 0.5))
            x = min(1.0, max(0.0, 0.3 + 0.5 * y + chance.gauss(0, 0.2)))
            probability = 0.25 if at % 7200 < 3600 else 0.125
            kind = "ok" if chance.random() > 0.05 else chance.choice(("failed", "undefined"))
            self.requests.append((at, x, y, probability, chance.random() < probability, kind))
            at += chance.expovariate(per_s)

    @staticmethod
    def count(requests):
        """Return the sums of requests, of the judged and of the free score."""
        judged, free = JudgedMoments(), FreeMoments()
        for _, x, y, probability, chosen, kind in requests:
            judged.seen(x)
            free.measured(x)
            if chosen:
                judged.judged(
                    x, probability, y if kind == "ok" else None, undefined=kind == "undefined"
                )
        return judged, free

    def scrapes(self):
        """Return when it is scraped and what it says then."""
        judged, free = JudgedMoments(), FreeMoments()
        left = iter(self.requests)
        coming = next(left, None)
        first = -(-(self.start - START) // SCRAPE_S) * SCRAPE_S + START
        for at in range(first, min(self.end, END) + 1, SCRAPE_S):
            new = []
            while coming is not None and coming[0] <= at:
                new.append(coming)
                coming = next(left, None)
            for sums, more in zip((judged, free), self.count(new), strict=True):
                sums.add(more.values())
            if judged.n:  # a counter begins with its first request
                yield at, judged, free


@pytest.fixture(scope="module")
def processes():
    chance = random.Random(31)
    found = {}
    for workflow, (plan, _, per_s) in PLAN.items():
        found[workflow] = [
            [
                Process(chance, start, stop - 20, per_s, perfect=workflow == "nearly perfect")
                for start, stop in zip(starts, [*starts[1:], END + 20], strict=True)
            ]
            for starts in plan
        ]
    return found


def _series(processes):
    """Return the scrapes of all processes as OpenMetrics text."""
    lines = {}
    for workflow, machines in processes.items():
        for machine, lives in enumerate(machines):
            for life, process in enumerate(lives):
                instance = f"{machine}-{life}" if PLAN[workflow][1] else machine
                for at, judged, free in process.scrapes():
                    for score, judge, sums in ((JUDGED, "a", judged), (FREE, "", free)):
                        labels = (
                            f'job="app",instance="{instance}",gen_ai_workflow_name="{workflow}",'
                            f'gen_ai_evaluation_name="{score}",ragmeter_judge="{judge}"'
                        )
                        for name, value in zip(sums.names, sums.values(), strict=True):
                            lines.setdefault((name, labels), []).append((at, value))
    text = []
    for name in JudgedMoments.names:
        series = f"ragmeter_quality_{name}"
        text.append(f"# TYPE {series} counter")
        for (each, labels), points in lines.items():
            if each == name:
                text += [f"{series}_total{{{labels}}} {value!r} {at}" for at, value in points]
    return "\n".join([*text, "# EOF", ""])


@pytest.fixture(scope="module")
def ask(processes, prometheus_program, promtool, tmp_path_factory):
    """A function that asks for a recorded series as of `AT`, by workflow and score."""
    directory = tmp_path_factory.mktemp("estimates")
    (directory / "scrapes.txt").write_text(_series(processes))
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics",
         str(directory / "scrapes.txt"), str(directory / "data")],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    (directory / "prometheus.yml").write_text("global: {scrape_interval: 1m}\n")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        prometheus_program,
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/data",
        "--storage.tsdb.retention.time=10y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    groups = yaml.safe_load(rules_text(SETTINGS))["groups"]
    (recorded,) = [one["rules"] for one in groups if one["name"] == "ragmeter-estimates-1h"]
    # A rule reads what the rules before it have just recorded: here it is put in its place.
    known = {}
    for rule in recorded:
        expr = re.sub(r"ragmeter:quality_\w+:1h", lambda found: known[found[0]], rule["expr"])
        known[rule["record"]] = f"({expr})"

    def asked(name):
        reply = httpx.post(
            f"{url}/api/v1/query",
            data={"query": known[f"ragmeter:quality_{name}:1h"], "time": AT},
            timeout=120,
        ).json()
        assert reply["status"] == "success", reply
        return {
            (one["metric"]["gen_ai_workflow_name"], one["metric"]["gen_ai_evaluation_name"]): float(
                one["value"][1]
            )
            for one in reply["data"]["result"]
        }

    with running(command, directory / "log", f"{url}/-/ready", timeout_s=60):
        yield asked


def test_recorded_means_and_intervals_are_those_of_every_single_request(ask, processes):
    """Mean within .003, width within 3 %, of the last hour; counters that begin anew included."""
    mean, lower, upper = (ask(name) for name in ("mean", "lower", "upper"))
    seen = set()
    for workflow, machines in processes.items():
        requests = [
            one
            for lives in machines
            for process in lives
            for one in process.requests
            if AT - 3600 < one[0] <= AT
        ]
        for score, sums in zip((JUDGED, FREE), Process.count(requests), strict=True):
            exact = estimate(sums)
            key = workflow, score
            if workflow == "rare":
                # A handful: what the scrapes cut off at the edges is a good part of it.
                if exact.mean is None:
                    assert key not in mean
                continue
            seen.add(exact.method)
            assert mean[key] == pytest.approx(exact.mean, abs=0.003), key
            width = exact.upper - exact.lower
            assert upper[key] - lower[key] == pytest.approx(width, rel=0.03), key
            assert lower[key] <= mean[key] <= upper[key]
    assert seen == {"regression", "wilson", "all"}


def test_whatever_is_asked_has_no_value_that_is_no_number(ask):
    for name in ("mean", "lower", "upper", "half", "design_effect"):
        assert all(0.0 <= value <= 10.0 for value in ask(name).values())
