"""The recorded means and intervals against every single request, in promtool, with restarts."""

import random
import re
import subprocess

import pytest
import yaml

from ragmeter.cli.dashboards import RuleSettings, rules_text
from ragmeter.exporters.semconv import PAIR_SUMS
from ragmeter.quality.conversations import ConversationSums
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
    "conversations": ([[START]] * 3, False, 0.3),
}
SAMPLE = re.compile(r'\{__name__="ragmeter:quality_(\w+):1h", ([^}]*)\} (\S+?)(?:,|$)')


class Process:
    """The requests of one process from its start to its end, and what it has counted at any time."""

    def __init__(self, chance, start, end, per_s, *, perfect=False, turns=1):
        self.start, self.end = start, end
        self.requests = []
        at = start + chance.expovariate(per_s)
        usual = {}
        while at < end:
            # Every so many requests begin a conversation; its turns come in between those of others.
            conversation = (self, len(self.requests) // (10 * turns), len(self.requests) % 10)
            good = usual.setdefault(conversation, chance.random() < 0.6)
            share = 0.995 if perfect else 0.6 if turns == 1 else 0.9 if good else 0.1
            y = 1.0 if chance.random() < share else chance.choice((0.0, 0.5))
            x = min(1.0, max(0.0, 0.3 + 0.5 * y + chance.gauss(0, 0.2)))
            probability = 0.25 if at % 7200 < 3600 else 0.125
            kind = "ok" if chance.random() > 0.05 else chance.choice(("failed", "undefined"))
            chosen = chance.random() < probability
            self.requests.append((at, x, y, probability, chosen, kind, conversation))
            at += chance.expovariate(per_s)

    @staticmethod
    def count(requests):
        """Return the sums of requests, of the judged and of the free score."""
        judged, free = JudgedMoments(), FreeMoments()
        Process.add(requests, judged, free, {})
        return judged, free

    @staticmethod
    def add(requests, judged, free, conversations):
        for at, x, y, probability, chosen, kind, name in requests:
            conversation = conversations.setdefault(name, ConversationSums())
            judged.add_request(x)
            free.add_value(x)
            conversation.add("all", 0, free, 1.0, x, at)
            if chosen:
                judged.judged(x, probability, y if kind == "ok" else None, undefined=kind == "undefined")
                if kind == "ok":
                    conversation.add("all", 1, judged, 1 / probability, y, at)

    def scrapes(self):
        """Return when it is scraped and what it says then."""
        judged, free = JudgedMoments(), FreeMoments()
        left, conversations = iter(self.requests), {}
        coming = next(left, None)
        first = -(-(self.start - START) // SCRAPE_S) * SCRAPE_S + START
        for at in range(first, min(self.end, END) + 1, SCRAPE_S):
            new = []
            while coming is not None and coming[0] <= at:
                new.append(coming)
                coming = next(left, None)
            self.add(new, judged, free, conversations)
            if judged.n:  # a counter begins with its first request
                yield at, judged, free


@pytest.fixture(scope="module")
def processes():
    chance = random.Random(31)
    found = {}
    for workflow, (plan, _, per_s) in PLAN.items():
        found[workflow] = [
            [
                Process(
                    chance,
                    start,
                    stop - 20,
                    per_s,
                    perfect=workflow == "nearly perfect",
                    turns=5 if workflow == "conversations" else 1,
                )
                for start, stop in zip(starts, [*starts[1:], END + 20], strict=True)
            ]
            for starts in plan
        ]
    return found


def _series(processes):
    """Return the scrapes of all processes as promtool reads them, by series."""
    points = {}
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
                            if value or name not in PAIR_SUMS:  # as they are exported
                                series = f"ragmeter_quality_{name}_total{{{labels}}}"
                                points.setdefault(series, {})[(at - START) // SCRAPE_S] = value
    return [
        {"series": series, "values": " ".join(repr(at[n]) if n in at else "_" for n in range(max(at) + 1))}
        for series, at in points.items()
    ]


@pytest.fixture(scope="module")
def ask(processes, promtool, tmp_path_factory):
    """A function that asks for a recorded series as of `AT`, by workflow and score."""
    directory = tmp_path_factory.mktemp("estimates")
    groups = yaml.safe_load(rules_text(SETTINGS))["groups"]
    (group,) = [one for one in groups if one["name"] == "ragmeter-estimates-1h"]
    at = f"{round((AT - START) * 1000)}ms"
    group["interval"] = at
    (directory / "rules.yml").write_text(yaml.safe_dump({"groups": [group]}))
    names = [rule["record"] for rule in group["rules"]]
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": at,
        "tests": [
            {
                "interval": f"{SCRAPE_S}s",
                "input_series": _series(processes),
                # Nothing is expected, so what there is is told.
                "promql_expr_test": [{"expr": name, "eval_time": at} for name in names],
            }
        ],
    }
    (directory / "test.yml").write_text(yaml.safe_dump(test, width=10**9))
    told = subprocess.run(
        [promtool, "test", "rules", str(directory / "test.yml")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    found = {}
    for line in told.stderr.splitlines() + told.stdout.splitlines():
        for name, labels, value in SAMPLE.findall(line):
            known = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            key = known["gen_ai_workflow_name"], known["gen_ai_evaluation_name"]
            found.setdefault(name, {})[key] = float(value)
    assert found, told.stdout + told.stderr
    return lambda name: found.get(name, {})


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
            assert (exact.n_conversations is None) == (workflow != "conversations")
            assert (exact.design_effect > 1.1) == (workflow == "conversations")
    assert seen == {"regression", "wilson", "all"}


def test_whatever_is_asked_has_no_value_that_is_no_number(ask):
    for name in ("mean", "lower", "upper", "half", "design_effect"):
        assert all(0.0 <= value <= 10.0 for value in ask(name).values())
