"""Parts of the requests: what they are made of, that they sum to the whole, and how many there may be."""

import random
from dataclasses import replace

import pytest
from fakes_quality import Runs, make_score
from moved_clock import MovedClock

from ragmeter import ConfigurationError, RagMeter, RagSample, Reference, Retrieval, Scoring
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.semconv import PAIR_SUMS
from ragmeter.quality._parts import MOST_REMEMBERED, MOST_VALUES
from ragmeter.quality.estimates import QualityKey
from ragmeter.quality.manner import PARTS
from ragmeter.quality.objectives import Objective, Objectives
from ragmeter.quality.population import JudgedScore
from ragmeter.quality.segments import Segments
from ragmeter.quality.sums import MAX_SERIES, MAX_SERVICES, QualityTable
from ragmeter.quality.sums_by_time import SLOT_S
from ragmeter.quality.verdict_shares import VERDICT_BAD, VERDICT_NOT_GOOD

HOUR_S = 3600.0
FAITHFULNESS = JudgedScore("faithfulness", "hash", 0.0, 1.0)


@pytest.fixture
def clock():
    return MovedClock(1e6)


@pytest.fixture
def runs():
    return Runs()


def _free(value=0.5):
    return {"lexical_groundedness": make_score(value)}


def _table(clock, *names, **options):
    return QualityTable(clock, segments=Segments(names), **options)


def _counts(table, name="n", score="lexical_groundedness"):
    return {one.segment: one.sums[name] for one in table.totals() if one.score == score and one.sums[name]}


def _retrieval(**fields):
    return Retrieval(started_ns=1, ended_ns=2, **fields)


@pytest.mark.parametrize(
    "given", ["language", [""], ["a:b"], ["a b"], [1], 3, ["metadata."], ["a", "a"], list("abcdefghi")]
)
def test_names_that_are_none_are_refused(given):
    with pytest.raises(ConfigurationError, match="segments"):
        RagMeter(segments=given, exporters=[InMemoryExporter()])


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("language", {"question": "Что такое поиск?"}, "ru"),
        ("language", {"question": "什么是检索？"}, "zh"),
        ("language", {"question": "What is a retriever?"}, "en"),
        ("language", {"question": "42"}, "unknown"),
        ("language", {"question": "What?", "metadata": {"language": "pt-BR"}}, "pt-BR"),
        ("retriever", {"retrievals": (_retrieval(name="r", data_source_id="docs"),)}, "docs"),
        ("retriever", {"retrievals": (_retrieval(name="r"),)}, "r"),
        ("retriever", {"retrievals": tuple(_retrieval(data_source_id=name) for name in "bab")}, "a+b"),
        ("retriever", {}, "unknown"),
        ("metadata.tenant", {"metadata": {"tenant": "acme"}}, "acme"),
        ("metadata.tenant", {"framework_metadata": {"tenant": "acme"}}, "acme"),
        ("tenant", {"metadata": {"tenant": "a"}, "framework_metadata": {"tenant": "b"}}, "a"),
        ("metadata.user.plan", {"metadata": {"user": {"plan": "free"}}}, "free"),
        ("metadata.user.plan", {"metadata": {"user.plan": "free"}}, "free"),
        ("index_version", {"metadata": {"index_version": 7}}, "7"),
        ("index_version", {"resource": {"index_version": "7"}}, "7"),
        ("beta", {"metadata": {"beta": True}}, "true"),
        ("framework", {}, "manual"),
        ("top_k", {"retrievals": (_retrieval(top_k=4),)}, "4"),
        ("tenant", {"metadata": {"tenant": 10**5000}}, "other"),
        ("tenant", {"metadata": {"tenant": float("nan")}}, "nan"),
        ("tenant", {"metadata": {"tenant": 0.5}}, "0.5"),
        ("tenant", {"metadata": {"tenant": ["a"]}}, "unknown"),
        ("tenant", {"metadata": {"tenant": " "}}, "unknown"),
        ("tenant", {"metadata": {"tenant": "what is a very long text " * 3}}, "other"),
        ("tenant", {"metadata": {"tenant": "two\nlines"}}, "other"),
    ],
)
def test_what_a_segment_is_made_of(runs, name, fields, expected):
    assert Segments([name]).of(runs(**fields)) == ((name, expected),)


def test_the_own_resource_is_that_of_requests_of_this_process(runs, monkeypatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "index_version=v%201,service.name=shop")
    segments = Segments(["index_version"])
    assert segments.of(runs()) == (("index_version", "v 1"),)
    elsewhere = runs(resource={"service.name": "other"})
    assert segments.of(elsewhere) == (("index_version", "unknown"),)


def test_segments_of_a_name_sum_to_the_whole(clock, runs):
    """Every sum of every score, over requests of every kind, in any order, with verdicts that come later."""
    chance = random.Random(5)
    table = _table(
        clock, "tenant", "language",
        objectives=Objectives([Objective(score="faithfulness", at_least=0.5)]),
    )  # fmt: skip
    waiting = []
    for _ in range(3000):
        run = runs(
            tenant=chance.choice([None, *(f"t{int(chance.expovariate(0.1))}" for _ in range(3))]),
            question=chance.choice(["what is it", "что это", "это", "1"]),
            workflow=chance.choice(["a", "b"]),
        )
        free = _free(chance.choice([None, 0.25, 0.5, 1.0]))
        waiting.append((table.count_request(run, free, [FAITHFULNESS]), free))
        if chance.random() < 0.5:
            counted, free = waiting.pop(chance.randrange(len(waiting)))
            verdict = make_score(chance.choice([None, 0.0, 0.5, 1.0]), "faithfulness", method="llm")
            known = {**free, verdict.name: verdict}
            table.count_judged(counted, known, [FAITHFULNESS], 0.25, by_chance=chance.random() < 0.9)
        clock.now += 3.0
    wholes, parts = {}, {}
    for one in table.totals():
        for name, value in one.sums.items():
            if name in PAIR_SUMS:
                continue  # a conversation that changes its language is one of the whole alone
            if not one.segment:
                wholes[one.workflow, one.score, name] = value
            else:
                key = (one.workflow, one.score, name, one.segment.partition(":")[0])
                parts[key] = parts.get(key, 0.0) + value
    assert len(wholes) == 2 * (5 + 24)
    assert {key[3] for key in parts} == {"tenant", "language"}
    for (*key, _), value in parts.items():
        assert value == pytest.approx(wholes[tuple(key)])
    assert len(parts) == 2 * len(wholes)
    # The same in every window.
    for window in (600.0, HOUR_S, 3 * HOUR_S):
        found = table.estimates("a", window)
        whole = found[QualityKey("faithfulness", "a")]
        each = [value for key, value in found.items()
                if key.score == "faithfulness" and key.segment.startswith("tenant:")]  # fmt: skip
        assert sum(one.n_requests for one in each) == whole.n_requests
        assert sum(one.n_judged for one in each) == whole.n_judged


def test_a_verdict_counts_where_its_request_did(clock, runs):
    """Also when meanwhile its segment got a place of its own."""
    table = _table(clock, "tenant")
    for number in range(MOST_VALUES):
        table.count_request(runs(tenant=f"small{number}"), _free(), [FAITHFULNESS])
    early = table.count_request(runs(tenant="big"), _free(), [FAITHFULNESS])
    for _ in range(100):
        table.count_request(runs(tenant="big"), _free(), [FAITHFULNESS])
    clock.now += SLOT_S
    table.count_request(runs(tenant="big"), _free(), [FAITHFULNESS])
    verdict = _free() | {"faithfulness": make_score(1.0, "faithfulness", method="llm")}
    table.count_judged(early, verdict, [FAITHFULNESS], 1.0)
    assert _counts(table, "k", "faithfulness") == {"": 1, "tenant:other": 1}
    assert _counts(table)["tenant:big"] == 1


def test_values_that_come_late_and_are_large_get_in_and_no_counter_falls(clock, runs):
    table = _table(clock, "tenant")
    for number in range(100):
        table.count_request(runs(tenant=f"small{number}"), _free(), ())
    before = _counts(table)
    assert len(before) == 1 + MOST_VALUES + 1
    for _ in range(3):
        clock.now += SLOT_S
        for number in range(20):
            for _ in range(50):
                table.count_request(runs(tenant=f"big{number}"), _free(), ())
    after = _counts(table)
    assert all(after[key] >= count for key, count in before.items())
    assert {after[f"tenant:big{number}"] for number in range(20)} == {100}
    assert sum(count for key, count in after.items() if key) == after[""]
    # Those whose places were taken count with the others from now on.
    table.count_request(runs(tenant="small0"), _free(), ())
    now = _counts(table)
    assert now["tenant:other"] == after["tenant:other"] + 1
    assert now.get("tenant:small0") == after.get("tenant:small0")


def test_values_of_about_the_same_traffic_keep_their_places(clock, runs):
    table = _table(clock, "tenant")
    for _ in range(50):
        for number in range(30):
            for _ in range(3):
                table.count_request(runs(tenant=f"t{number}"), _free(), ())
        clock.now += SLOT_S
    assert len(_counts(table)) == 1 + MOST_VALUES + 1


def test_what_is_known_of_values_without_end_is_bounded(clock, runs):
    table = _table(clock, "tenant")
    for number in range(3 * MOST_REMEMBERED):
        table.count_request(runs(tenant=f"t{number}"), _free(), ())
        table.count_request(runs(tenant="often"), _free(), ())
    (parts,) = table._services[()]._workflows["qa"].parts.values()
    assert len(parts._traffic) <= MOST_REMEMBERED
    assert _counts(table)["tenant:often"] == 3 * MOST_REMEMBERED


def test_scores_workflows_and_segments_together_are_bounded(clock, runs):
    """Whatever comes, workflows have room of their own, and what has no place is counted together."""
    table = _table(clock, "tenant", "language", "retriever")
    free = {f"score{number}": make_score(0.5, f"score{number}") for number in range(11)}
    for number in range(400):
        run = runs(
            tenant=f"t{number % 37}",
            workflow=f"w{number % 17}",
            question=("what", "это", "什么")[number % 3],
            retrievals=(_retrieval(name=f"r{number % 29}"),),
        )
        table.count_request(run, free, [FAITHFULNESS])
        clock.now += 60.0
    totals = table.totals()
    assert len(totals) <= MAX_SERIES
    wholes = {one.workflow: one.sums["n"] for one in totals if one.score == "score0" and not one.segment}
    assert len(wholes) == 17
    assert sum(wholes.values()) == 400
    assert any(one.segment for one in totals)


def test_scores_that_have_no_mean_take_up_no_room(clock, runs):
    """Counts, ranks and the like are most of a request's scores."""
    table = _table(clock, "metadata.a", "metadata.b", "metadata.c", "metadata.d")
    free = {f"count{number}": make_score(3.0, f"count{number}", range=(0.0, None)) for number in range(40)}
    free |= {f"score{number}": make_score(0.5, f"score{number}") for number in range(10)}
    for number in range(100):
        metadata = dict.fromkeys("abcd", f"v{number % 20}")
        table.count_request(runs(metadata=metadata), free, ())
    found = {one.segment for one in table.totals()}
    assert {f"metadata.{name}:v{number}" for name in "abcd" for number in range(20)} <= found


def test_a_meter_tells_means_by_segment():
    memory = InMemoryExporter()
    with RagMeter(
        metrics=["lexical_groundedness"], exporters=[memory], segments=["language", "metadata.tenant"]
    ) as meter:
        for tenant in ("acme", "acme", "umbrella"):
            with meter.request("Что это?", name="qa", metadata={"tenant": tenant}) as request:
                request.retrieved(["кот"])
                request.answered("кот")
        meter.submit(RagSample(question="What is it?", contexts=["a cat"], answer="a dog", name="qa"))
        assert meter.flush(60)
        found = meter.quality("lexical_groundedness", segment="language:ru")
        assert found.n_requests == 3
        assert meter.quality("lexical_groundedness", segment="metadata.tenant:acme").n_requests == 2
        assert meter.quality("lexical_groundedness", segment="language:fr").method == "none"
        assert meter.quality("lexical_groundedness").n_requests == 4
        assert {key.segment: one.n_requests for key, one in meter.quality().items()} == {
            "": 4, "language:ru": 3, "language:en": 1,
            "metadata.tenant:acme": 2, "metadata.tenant:umbrella": 1, "metadata.tenant:unknown": 1,
        }  # fmt: skip
        names = ("lexical_groundedness", VERDICT_BAD, VERDICT_NOT_GOOD, *PARTS)
        for segment in ("", "language:ru"):
            assert set(meter.quality(segment=segment)) == {QualityKey(name, "qa", segment) for name in names}


def test_a_reference_that_comes_late_counts_in_the_segments_of_its_request():
    memory = InMemoryExporter()
    with RagMeter(metrics=["answer_overlap"], exporters=[memory], segments=["language"]) as meter:
        meter.submit(RagSample(question="Что это?", contexts=["кот"], answer="кот", name="qa"))
        assert meter.flush(60)
        assert meter.quality(segment="language:ru") == {}
        for answer in ("кот", "пёс"):
            meter.attach_reference(memory.results[0].run.run_id, Reference(answer=answer))
            assert meter.flush(60)
        assert meter.quality("token_f1", segment="language:ru").n_requests == 1


def test_a_value_is_told_as_the_redaction_hook_leaves_it():
    with RagMeter(metrics=["lexical_groundedness"], exporters=[InMemoryExporter()], segments=["tenant"], scoring=Scoring(redact=lambda text: text.replace("acme", "xxx"))) as meter:  # fmt: skip
        with meter.request("q", metadata={"tenant": "acme"}) as request:
            request.retrieved(["a"])
            request.answered("a")
        assert meter.flush(60)
        assert {key.segment for key in meter.quality()} == {"", "tenant:xxx"}


def test_each_service_has_sums_of_its_own(clock, runs):
    table = QualityTable(clock)
    for name, value in (("shop", 1.0), ("blog", 0.0), (None, 0.5)):
        resource = {} if name is None else {"service.name": name, "service.namespace": "n"}
        for _ in range(5):
            table.count_request(runs(resource=resource), _free(value), ())
    told = {one.resource.get("service.name"): one.sums["x"] for one in table.totals()}
    assert told == {"shop": 5.0, "blog": 0.0, None: 2.5}
    assert {one.counted.resource.get("service.name") for one in table.slots(0, unfinished=True)} == set(told)
    assert table.estimate("lexical_groundedness", None, HOUR_S, service="shop").mean == 1.0
    assert table.estimate("lexical_groundedness", None, HOUR_S).n_requests == 15
    (whole,) = table.estimates(None, HOUR_S).values()
    assert whole.n_requests == 15
    (blog,) = table.estimates(None, HOUR_S, service="blog").values()
    assert blog.mean == 0.0


def test_services_without_end_are_counted_together(clock, runs):
    table = QualityTable(clock)
    for number in range(200):
        table.count_request(runs(resource={"service.name": f"s{number}"}), _free(), ())
    told = {one.resource.get("service.name"): one.sums["n"] for one in table.totals()}
    assert len(told) == MAX_SERVICES + 1
    assert told[None] == 200 - MAX_SERVICES


def test_all_services_share_the_room(clock, runs):
    table = QualityTable(clock, most=30)
    for number in range(2000):
        run = runs(resource={"service.name": f"s{number % 40}"}, workflow=f"w{number}")
        table.count_request(run, _free(), ())
    assert len(table.totals()) <= 30 * 6 + 2 * 40
    assert sum(one.sums["n"] for one in table.totals()) == 2000


def test_a_run_keeps_what_the_framework_was_told(runs):
    assert replace(runs(), framework_metadata={"a": 1}).framework_metadata == {"a": 1}
