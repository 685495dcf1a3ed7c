"""The first sentence over whole days: where nothing changes it says so, and where one score falls it names that one."""

import random
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from types import SimpleNamespace

import pytest
from frozen_page import OVERVIEW, FrozenReader, client
from received_traffic import Traffic, Weeks, one, watching
from stored import store

from ragmeter.exporters.protocol import QualitySums
from ragmeter.quality.sums import SlotSums
from ragmeter.serve._watch import standing_of
from ragmeter.serve.store.views import JudgeUse
from ragmeter.watch.watch import Watch

MONDAY = 1_799_625_600.0  # 2027-01-11 00:00 UTC
SLOT, HOUR, DAY = 300.0, 3_600.0, 86_400.0
LEARNING_D = 3
SCORES = (
    "lexical_groundedness",
    "lexical_query_coverage",
    "lexical_context_precision",
    "faithfulness",
    "toxicity",
)
SERVICES = ("library", "bank", "museum", "shop")
LANGUAGES = ("en", "ru", "zh", "de")


def told_by(pages):
    """The sentences at the top of the overview, and its title."""
    text = pages.get("/", params={"range": "24h"}).text
    headings = re.findall(
        r'<section class="sentence[^"]*"[^>]*>\s*<div>\s*<h[12][^>]*>(.*?)</h[12]>', text, re.DOTALL
    )
    words = [" ".join(re.sub(r"<[^>]*>", " ", heading).split()) for heading in headings]
    return words, re.search("<title>(.*?)</title>", text)[1], text


def assert_quiet(pages):
    words, title, text = told_by(pages)
    assert words == ["Nothing is clearly worse"]
    assert "Nothing changed beyond chance" in text
    assert "▼" not in title
    assert "got worse" not in text


@dataclass
class Quality:
    """Scores of 0 to 1 with the mean that each part of each service has, by the clock and by chance of a seed."""

    rng: random.Random
    means: dict

    def values(self, key, count):
        mean = self.means[key]
        if key[1] in ("faithfulness", "toxicity"):  # as judges are: mostly one end or the other
            return [float(self.rng.random() < mean) for _ in range(count)]
        return [min(1.0, max(0.0, self.rng.gauss(mean, 0.2))) for _ in range(count)]


class FedDay:
    """100 series: 4 services × 5 scores × (the whole and 4 languages), counted in five minutes as a meter does."""

    def __init__(self, seed):
        keys = list(product(SERVICES, SCORES, LANGUAGES))
        rng = random.Random(seed)
        self.quality = Quality(rng, {key: rng.choice((0.55, 0.7, 0.8, 0.93)) for key in keys})
        self.watch = Watch()
        self.now = MONDAY

    def pass_(self, seconds, per_slot=2, step=SLOT):
        """Let time pass; of a longer step the five minutes at its beginning hold all that came in it."""
        for _ in range(round(seconds / step)):
            slots = []
            for service, score in product(SERVICES, SCORES):
                whole = []
                for language in LANGUAGES:
                    count = self.quality.rng.randint(0, round(2 * per_slot * step / SLOT))
                    values = self.quality.values((service, score, language), count)
                    whole += values
                    slots.append(self._slot(service, score, f"language:{language}", values))
                slots.append(self._slot(service, score, "", whole))
            self.watch.take(slots)
            self.now += step
            yield

    def _slot(self, service, score, segment, values):
        count = float(len(values))
        sums = {"n": count, "kd": count, "wb": count, "x": sum(values), "xx": sum(v * v for v in values)}
        counted = QualitySums(
            score=score, workflow="qa", segment=segment, resource={"service.name": service}, sums=sums,
            direction="lower" if score == "toxicity" else "higher",
        )  # fmt: skip
        return SlotSums(self.now, counted)

    def pages(self):
        reader = FrozenReader(replace(OVERVIEW, judge=JudgeUse()))
        meter = SimpleNamespace(watch=self.watch)
        return client(
            reader, changes=self.watch.changes, standing=lambda: standing_of(meter), clock=lambda: self.now
        )


def test_of_100_series_that_stay_as_they_are_the_page_says_nothing_for_a_day_and_names_the_one_that_falls():
    day = FedDay(seed=41)
    for _ in day.pass_(LEARNING_D * DAY, step=1_800.0):
        pass
    pages = day.pages()
    for number, _ in enumerate(day.pass_(DAY)):
        assert day.watch.changes() == ()
        if number % 6 == 0:
            assert_quiet(pages)
    assert "100 series are watched" in told_by(pages)[2]
    assert {one.status for one in day.watch.series()} == {"watching"}

    fell_at = day.now
    day.quality.means["bank", "lexical_groundedness", "zh"] = 0.2
    for _ in day.pass_(6 * HOUR):
        if day.watch.changes():
            break
    words, title, text = told_by(pages)
    assert len(words) == 1
    assert words[0].startswith("▼ bank · qa · zh got worse since")
    assert "▼" in title
    (reading,) = re.findall(r"<p>([\w’ ]+) <b>(0\.\d\d) → (0\.\d\d)</b>", text)
    assert reading[0] == "Shared words"
    assert float(reading[1]) > float(reading[2]) + 0.2
    (change,) = [each for each in day.watch.changes() if each.segment]
    assert abs(change.since - fell_at) <= HOUR


class Recent(Traffic):
    """Traffic whose requests ran when they were sent, by the clock of some weeks."""

    def __init__(self, weeks, example, service):
        super().__init__(example, service)
        self._weeks = weeks

    def _stamp(self, request, value):
        super()._stamp(request, value)
        now_ns = int(self._weeks.now * 1e9)
        for group in getattr(request, "resource_spans", ()):
            for scoped in group.scope_spans:
                for span in scoped.spans:
                    span.start_time_unix_nano, span.end_time_unix_nano = now_ns - 10**9, now_ns


@contextmanager
def served(weeks, kept):
    """A server's watch over what comes to a store, and its page."""
    with watching(weeks, kept) as seen:
        seen.pages = client(
            kept.reader(), changes=seen.watch.changes, standing=lambda: standing_of(seen), clock=weeks.clock
        )
        yield seen


@pytest.mark.parametrize(
    ("services", "scores", "languages", "quiet_h"),
    [(1, 2, 2, 24), pytest.param(4, 5, 4, 24, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])],
)
def test_a_quiet_day_of_what_applications_scored_and_then_one_part_falls(services, scores, languages, quiet_h):
    """From what a store receives to what a browser is sent, with sums of the store's own."""
    weeks = Weeks(MONDAY)
    traffic = {
        key: Recent(weeks, one(key[1], run_id="-".join(key), segments={"language": key[2]}), service=key[0])
        for key in product(SERVICES[:services], SCORES[:scores], LANGUAGES[:languages])
    }
    steady = {key: (made, 8, 0.75) for key, made in traffic.items()}
    with store(clock=weeks.clock, keep_s=30 * DAY, max_bytes=10**9) as kept, served(weeks, kept) as seen:
        weeks.pass_(24 * LEARNING_D, kept, list(steady.values()))
        seen.look()
        assert len(seen.watch.series()) == services * scores * (languages + 1)
        for _ in range(quiet_h):
            weeks.pass_(1, kept, list(steady.values()), seen.look)
            assert_quiet(seen.pages)
        worse = (SERVICES[0], SCORES[1], LANGUAGES[1])
        steady[worse] = (traffic[worse], 20, 0.2)
        for _ in range(8):
            weeks.pass_(1, kept, list(steady.values()), seen.look)
            if seen.watch.changes():
                break
        words, _, text = told_by(seen.pages)
    assert len(words) == 1
    assert words[0].startswith("▼ library · qa · ru got worse since")
    assert re.findall(r"<p>([\w’ ]+) <b>0\.\d\d → 0\.\d\d</b>", text) == ["Question’s words found"]
