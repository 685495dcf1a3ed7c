"""Knowledge gaps: groups that are there, groups that are not, what they lack, and that no order plays a part."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_points import points_of
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ragmeter import RagMeter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.protocol import RagRun, ScoredRun
from ragmeter.metrics import ConfigurationError, LexicalContextRelevance, RagSample, Verdict
from ragmeter.quality.gaps.chunks import ChunkSearch, read_chunk, topic_hashes
from ragmeter.quality.gaps.exporter import LOOK_EVERY_S, GapExporter
from ragmeter.quality.gaps.gap import TOO_MANY
from ragmeter.quality.gaps.grouping import MOST_GROUPS, find_groups
from ragmeter.quality.gaps.memory import DAYS, GapMemory, is_bad
from ragmeter.quality.gaps.sample import WHOLE, Asked, Sample, rank_of

DAY = 86_400.0
TOPICS = {
    "en": ("How are solar panels on the {} cleaned?", "{} panels solar cleaned"),
    "ru": ("Как чистить солнечные панели на {}?", "солнечные панели чистить"),
    "zh": ("{}的太阳能电池板怎么清洗？", "太阳能电池板清洗"),
}
PLACES = (
    "roof barn garage shed porch terrace balcony hangar boat caravan bridge tower church school hotel "
    "stadium library museum airport harbour"
).split()
SUBJECTS = (
    "invoice refund delivery password account voucher newsletter address phone warranty tax discount "
    "parcel subscription basket receipt catalogue branch courier deposit"
).split()


def _asked(number, question, *, at=0.0, **known):
    known = {"relevance": 0.1, "language": "en", **known}
    return Asked(rank_of(f"run-{number}"), at, topic_hashes(question), question, **known)


def _traffic(language="en", **known):
    """Sixteen bad requests about one topic among 240 of which one in twelve is bad."""
    question, _ = TOPICS[language]
    topic = [
        (_asked(n, question.format(place), language=language, **known), True)
        for n, place in enumerate(PLACES[:16])
    ]
    rest = [
        (
            _asked(100 + n, f"Where is the {SUBJECTS[n % 20]} of my {SUBJECTS[(n * 7 + n // 20) % 20]}?"),
            n % 12 == 0,
        )
        for n in range(240)
    ]
    return topic + rest


def _memory(traffic, chunks=()):
    memory = GapMemory()
    for asked, bad in traffic:
        memory.add(asked, bad=bad)
    memory.add_chunks(chunks)
    return memory


@pytest.mark.parametrize("language", TOPICS)
def test_a_topic_that_goes_badly_is_a_group_with_what_is_known_of_it(language):
    gaps = _memory(_traffic(language), ["Parcels are sent every day."]).gaps()

    [gap] = gaps.gaps
    assert (gap.n_bad, gap.n_requests, gap.share, gap.language) == (16, 16, 1.0, language)
    assert gap.lower == pytest.approx(16 / (16 + 1.959964**2))  # Wilson's, of 16 of 16
    assert gap.elsewhere == pytest.approx(20 / 240)
    assert gap.diagnosis == "missing_from_corpus"
    assert all(word in TOPICS[language][0] for word in gap.name.split()[:1])
    assert set(gap.examples) <= {asked.question for asked, _ in _traffic(language)}
    assert (gaps.n_bad, gaps.n_requests, gaps.why_empty) == (36, 256, "")


@pytest.mark.parametrize(
    ("known", "chunks", "diagnosis"),
    [
        ({}, ["Where parcels are."], "missing_from_corpus"),
        ({}, [], "unclear"),
        ({}, ["Solar panels are cleaned on each roof barn garage."], "retriever_misses"),
        ({"refused": True, "relevance": 0.8}, ["Where parcels are."], "refuses_although_found"),
        ({"refused": True, "relevance": 0.2}, ["Where parcels are."], "missing_from_corpus"),
        ({"refused": True, "relevance": None}, ["Where parcels are."], "missing_from_corpus"),
        ({"relevance": 0.9}, ["Solar panels are cleaned on each roof barn garage."], "missing_from_corpus"),
    ],
)
def test_a_group_says_what_it_lacks(known, chunks, diagnosis):
    [gap] = _memory(_traffic(**known), chunks).gaps().gaps

    assert gap.diagnosis == diagnosis


def test_a_refusal_had_what_it_needed_where_its_chunks_suit_as_well_as_those_of_answered_requests():
    answered = [
        (_asked(500 + n, TOPICS["en"][0].format(place), relevance=0.4), False)
        for n, place in enumerate(PLACES[:4])
    ]
    refused = _traffic(refused=True, relevance=0.45)
    [gap] = _memory(refused + answered, ["Where parcels are."]).gaps().gaps

    assert gap.diagnosis == "refuses_although_found"


def test_some_of_the_chunks_are_no_proof_that_a_document_is_missing(monkeypatch):
    monkeypatch.setattr("ragmeter.quality.gaps.memory.CHUNKS", 2)
    memory = _memory(_traffic(), ["Parcels are sent.", "Tax is paid.", "Vouchers are given."])

    assert memory.gaps().gaps[0].diagnosis == "unclear"


def test_without_texts_a_group_is_counted_and_has_no_name():
    traffic = [(asked._replace(question=None), bad) for asked, bad in _traffic()]

    [gap] = _memory(traffic).gaps().gaps
    named = _memory(_traffic()).gaps().gaps[0]
    assert (gap.name, gap.examples, gap.n_bad, gap.id) == ("", (), 16, named.id)


@pytest.mark.parametrize(
    ("questions", "name"), [("{}号X光机坏了怎么修理？", "光机坏 X 修理"), ("{} 光 ?", "光")]
)
def test_a_single_character_names_a_gap_only_where_nothing_else_does(questions, name):
    topic = [(_asked(n, questions.format(place)), True) for n, place in enumerate(PLACES[:16])]

    [gap] = _memory(topic + _traffic()[16:]).gaps().gaps
    assert gap.name == name


@pytest.mark.parametrize("topics", [3, 5])
def test_an_application_of_few_topics_has_gaps_too(topics):
    """A topic may make up a third of all requests; elsewhere one in ten is bad."""
    chance = random.Random(topics)
    names = ("ferry timetable", "bridge tolls", "museum tickets", "tram lines", "market hours")
    traffic = [
        (
            _asked(n, f"Who changed the {names[n % topics]} of the {PLACES[n // topics % 20]}?"),
            chance.random() < (0.1 if n % topics else 0.9),
        )
        for n in range(300)
    ]

    [gap] = _memory(traffic).gaps().gaps
    assert set(gap.name.split()) <= {"ferry", "timetable"}
    assert gap.n_requests == 300 // topics


def _spread(n, bad):
    return [(_asked(i, f"{SUBJECTS[i % 20]} {PLACES[i * 3 % 20]}"), i < bad) for i in range(n)]


@pytest.mark.parametrize(
    ("traffic", "why"),
    [
        ([], "no_requests"),
        ([(one, False) for one, _ in _traffic()], "nothing_stands_out"),
        ([(one._replace(terms=b"", question=None), bad) for one, bad in _traffic()], "no_questions"),
        (_spread(100, int(100 * TOO_MANY)), "too_many_bad"),
        ([(one, n % 7 == 0) for n, (one, _) in enumerate(_spread(280, 0))], "nothing_stands_out"),
    ],
)
def test_a_list_that_is_empty_says_why(traffic, why):
    gaps = _memory(traffic).gaps()

    assert (gaps.gaps, gaps.why_empty, gaps.n_requests) == ((), why, len(traffic))


def test_requests_without_topic_words_are_counted():
    greetings = [(_asked(900 + n, "")._replace(terms=b""), True) for n in range(3)]

    assert _memory(_traffic() + greetings).gaps().without_topic == 3


def test_since_is_when_the_longest_row_of_days_began():
    days = [0, 3, 4, 5, 9, 3, 3, 4, 4, 5, 5, 0, 9, 3, 4, 5]
    traffic = [
        (asked._replace(at=days[n] * DAY + n if n < 16 else asked.at), bad)
        for n, (asked, bad) in enumerate(_traffic())
    ]

    assert _memory(traffic).gaps().gaps[0].since == 3 * DAY + 1


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(3, 40))
def test_no_order_and_no_share_of_the_work_plays_a_part(seed, processes, size):
    """Threads, processes and servers, each with some of the requests: together the list of one, also when full."""
    chance = random.Random(seed)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ragmeter.quality.gaps.memory.REQUESTS", size)
        patched.setattr("ragmeter.quality.gaps.memory.CHUNKS", size)
        traffic = [(asked._replace(at=n % 3 * DAY), bad) for n, (asked, bad) in enumerate(_traffic())]
        chunks = [f"{place} {subject}" for place in PLACES for subject in SUBJECTS[:4]]
        whole = _memory(traffic, chunks)
        chance.shuffle(traffic)
        chance.shuffle(chunks)
        parts = [_memory(traffic[part::processes], chunks[part::processes]) for part in range(processes)]
        chance.shuffle(parts)
        for other in parts[1:]:
            parts[0].merge(other)

        assert parts[0].gaps() == whole.gaps()


class _Item(int):
    @property
    def rank(self):
        return int(self)


@given(st.lists(st.sets(st.integers(0, 500), max_size=60), max_size=6), st.integers(1, 20))
def test_samples_keep_the_smallest_ranks_and_say_up_to_which(parts, size):
    samples = []
    for part in parts:
        sample = Sample(size)
        for rank in part:
            wanted = sample.is_wanted(rank)
            sample.add(_Item(rank))
            assert not sample.is_wanted(rank)
            assert wanted or sample.limit <= rank
        samples.append(sample)
    union = Sample.union(samples, size)

    every = sorted(set().union(*parts))
    assert sorted(union.items()) == every[:size]
    assert union.limit == (every[size] if len(every) > size else WHOLE)


def test_asking_what_a_sample_wants_removes_nothing(monkeypatch):
    """Removing sorts all ranks; a corpus asks for every chunk."""
    sample, shrunk = Sample(4), []
    for rank in range(5):
        sample.add(_Item(rank))
    monkeypatch.setattr(Sample, "shrink", lambda *_: shrunk.append(1))
    asked = [rank for rank in range(9) if sample.is_wanted(rank)]

    assert (asked, shrunk) == ([5, 6, 7, 8], [])


def test_the_memory_is_bounded_by_days_and_requests(monkeypatch):
    monkeypatch.setattr("ragmeter.quality.gaps.memory.REQUESTS", 10)
    traffic = [(_asked(n, "solar panels", at=n % (DAYS + 6) * DAY), n % 4 == 0) for n in range(4_000)]

    gaps = _memory(traffic).gaps()
    assert gaps.n_requests == pytest.approx(4_000 * DAYS / (DAYS + 6), rel=0.3)
    assert gaps == _memory(reversed(traffic)).gaps()


def test_a_filter_counts_what_it_lets_through():
    traffic = [
        (asked._replace(workflow="qa" if n % 2 else "chat", at=n * 60.0), bad)
        for n, (asked, bad) in enumerate(_traffic())
    ]
    memory = _memory(traffic)

    assert memory.gaps(workflow="qa").n_requests == 128
    assert memory.gaps(workflow="none").why_empty == "no_requests"


def test_a_verdict_that_changes_later_moves_its_request():
    memory = _memory(_traffic())
    asked, _ = _traffic()[0]

    memory.add(asked, bad=False)

    assert (memory.gaps().n_bad, memory.gaps().n_requests) == (35, 256)


@pytest.mark.parametrize(
    ("word", "known", "bad"),
    [
        ("bad", {}, True),
        ("suspect", {}, True),
        ("good", {}, False),
        ("good", {"empty": True}, True),
        ("good", {"refused": True}, True),
        (None, {"refused": True}, True),
        (None, {}, None),
    ],
)
def test_what_counts_as_bad(word, known, bad):
    assert is_bad(word, **known) is bad


def _scored(number, word, question="Where is it?"):
    sample = RagSample(question=question, contexts=["Here."], answer="Here.", name="qa")
    [score] = LexicalContextRelevance().compute(sample)
    return ScoredRun(
        run=RagRun(sample=sample, run_id=f"run-{number}", framework="manual", started_ns=1, ended_ns=2),
        scores={score.name: score},
        verdict=None if word is None else Verdict(word=word),
    )


def test_scored_requests_are_kept_when_they_have_a_verdict():
    memory = GapMemory()
    for number, word in enumerate(["bad", "good", None, "suspect"]):
        memory.add_run(_scored(number, word))
    memory.add_run(replace(_scored(1, "bad"), late=True))

    gaps = memory.gaps(workflow="qa")
    assert (gaps.n_bad, gaps.n_requests) == (3, 3)


def test_groups_are_few_and_share_no_request():
    bad = [(10 * topic + 1, 10 * topic + 2) for topic in range(15) for _ in range(8)]
    good = [(1_000 + n,) for n in range(1_000)]

    groups = find_groups(bad, good)
    assert len(groups) == MOST_GROUPS
    assert len({place for group in groups for place in group.bad}) == 8 * MOST_GROUPS


def test_requests_that_stand_for_several_weigh_as_many():
    bad = [(1, 2)] * 20 + [(n + 100,) for n in range(20)]
    good = [(1, 2)] * 2 + [(n + 500,) for n in range(200)]

    [group] = find_groups(bad, good, good_weight=10.0)
    assert group.share == pytest.approx(20 / (20 + 2 * 10))


@pytest.mark.parametrize(
    ("question", "chunk", "relevance"),
    [
        ("solar panels roof", "Solar panels on a roof.", 1.0),
        ("solar panels roof", "Solar. Blank. Panels.", (2 / 3 + 1 / 3) / 2),
        ("太阳能", "太阳能电池", 1.0),
        ("太阳能", "能源来自太阳，阳光。", (1.5 / 2 + 1.5 / 2) / 2),
        ("solar panels", "Nothing.", 0.0),
    ],
)
def test_the_best_known_chunk_has_the_relevance_of_its_words(question, chunk, relevance):
    search = ChunkSearch([read_chunk(chunk), read_chunk("Another chunk.")])

    assert search.best_relevance(question) == pytest.approx(relevance)


def _submit_traffic(meter):
    for asked, bad in _traffic():
        chunks = ["Our office opens at nine."] if bad else [f"{asked.question} It is in the hall."]
        answer = "I do not know." if bad else "It is in the hall."
        meter.submit(RagSample(question=asked.question, contexts=chunks, answer=answer))
    assert meter.flush(60)


def test_a_meter_lists_the_gaps_of_the_requests_that_it_scored():
    with RagMeter(exporters=["gaps"]) as meter:
        _submit_traffic(meter)
        (gap,) = meter.gaps().gaps
        assert not meter.gaps("another workflow").gaps
    assert "solar" in gap.name
    assert gap.n_bad >= 12
    assert gap.share > 0.6 > gap.elsewhere
    assert str(gap.n_bad) in str(gap)


def test_a_meter_that_keeps_no_questions_says_what_to_add():
    with RagMeter(exporters=[]) as meter, pytest.raises(ConfigurationError, match='"gaps"'):
        meter.gaps()


def _points(metrics, name):
    return {tuple(point.attributes.items()): point.value for point in points_of(metrics).get(name, ())}


def test_a_new_gap_is_announced_once():
    now, seen = [0.0], []
    exporter = GapExporter(lambda: now[0])
    exporter.on_gap(seen.append)
    for number, (asked, bad) in enumerate(_traffic()):
        exporter.export([_scored(number, "bad" if bad else "good", asked.question)])
    assert seen == []
    for number in (1000, 1001):
        now[0] += LOOK_EVERY_S
        exporter.export([_scored(number, "bad", "How are solar panels on the pier cleaned?")])
        assert ["solar" in gap.name for gap in seen] == [True]
    exporter.shutdown(5)
    assert len(seen) == 1


@pytest.mark.contains_errors
def test_a_process_announces_its_gaps_at_the_end_and_counts_them():
    seen = []
    metrics = InMemoryMetricReader()
    otel = OpenTelemetryExporter(meter_provider=MeterProvider([metrics]), span_mode="off")
    with RagMeter(exporters=["gaps", "conversations", otel]) as meter:

        @meter.on_gap
        def raises(gap):
            seen.append(gap)
            raise ValueError("of the user's own")

        _submit_traffic(meter)
        assert not seen
        assert meter.flush(60)
        sizes = _points(metrics, "ragmeter.gap.requests")
        lists = _points(metrics, "ragmeter.corpus.chunks")
        assert {dict(of)["ragmeter.gap"]: n for of, n in sizes.items()} == {
            gap.id: gap.n_bad for gap in meter.gaps().gaps
        }
        chunks = meter.chunks()
        assert {dict(of)["ragmeter.corpus.list"]: n for of, n in lists.items()} == {
            "bad": len(chunks.bad), "unused": len(chunks.unused), "conflicts": len(chunks.conflicts)
        }  # fmt: skip
    assert meter.stats().internal_errors["meter.on_gap"] == len(seen) > 0
    counted = {
        (dict(of)["ragmeter.diagnosis"], dict(of)["ragmeter.language"]): value
        for of, value in _points(metrics, "ragmeter.gaps").items()
    }
    assert counted == Counter((gap.diagnosis, gap.language) for gap in seen)


def test_what_is_no_callback_is_refused():
    with RagMeter(exporters=["gaps"]) as meter, pytest.raises(ConfigurationError, match="function"):
        meter.on_gap("name")
