"""Knowledge gaps of what the server keeps: the same topics as a meter that scored it lists."""

import threading
from dataclasses import asdict, replace

import httpx
import pytest
from served import served
from stored import moved, scored, store

from ragmeter.metrics import RagSample
from ragmeter.quality.gaps.memory import GapMemory
from ragmeter.serve._digest import digest_of
from ragmeter.serve.page import words_in
from ragmeter.serve.store import Store, StoreOptions
from ragmeter.serve.store import reader as reader_module
from ragmeter.serve.store.views import Filters

NOW_S = 1_760_000_400.0
PLACES = (
    "roof barn garage shed porch terrace balcony hangar boat caravan bridge tower church school hotel stadium"
).split()
SUBJECTS = (
    "invoice refund delivery password account voucher newsletter address phone warranty tax discount "
    "parcel subscription basket receipt catalogue branch courier deposit"
).split()


def request(number, question, word, *, chunk="A text about something else.", workflow="shop"):
    (kind,) = scored(1)
    at_s = NOW_S - 86_400 * (number % 9) - 60 - number
    sample = RagSample(question=question, contexts=[chunk], answer="Nobody knows.", name=workflow)
    relevance = {"lexical_context_relevance": 0.1 if word == "bad" else 0.9}
    return moved(kind, f"r{number}", at_s, scores=relevance, word=word, sample=sample, metadata={})


@pytest.fixture(scope="module")
def traffic():
    """Sixteen bad requests about solar panels among 200 others, of which one in twelve is bad."""
    topic = [
        request(n, f"How are solar panels on the {place} cleaned?", "bad") for n, place in enumerate(PLACES)
    ]
    others = [
        request(
            100 + n,
            f"Where is the {SUBJECTS[n % 20]} of my {SUBJECTS[(n * 7 + n // 20) % 20]}?",
            "good" if n % 12 else "bad",
            workflow="office",
        )
        for n in range(200)
    ]
    return topic + others


@pytest.fixture
def kept(traffic, fresh):
    with store(fresh(), clock=lambda: NOW_S) as made:
        made.export(traffic)
        yield made


FORTNIGHT = Filters(range_s=14 * 86_400.0)


def test_the_store_lists_what_a_meter_lists(traffic, kept):
    memory = GapMemory()
    for one in traffic:
        memory.add_run(one)
    [of_meter] = memory.gaps().gaps
    found = kept.reader().gaps(FORTNIGHT)
    [gap] = found.gaps

    assert asdict(gap).items() >= asdict(of_meter).items()
    assert {"solar", "panels"} <= set(gap.name.split())
    assert all("solar" in one for one in gap.examples)
    assert (gap.relevance, gap.n_refused, gap.n_empty) == (pytest.approx(0.1), 0, 0)
    assert sum(map(sum, gap.bins)) == gap.n_bad
    assert kept.reader().requests(replace(FORTNIGHT, gap=gap.id)).total == gap.n_bad
    assert (found.n_requests, found.complete, found.why_empty) == (216, True, "")


@pytest.mark.parametrize(
    ("language", "heading", "said", "none"),
    [
        ("en", "Knowledge gaps", f"{len(PLACES)} requests that went badly", "None."),
        ("ru", "Пробелы в знаниях", f"{len(PLACES)} неудачных запросов", "Нет."),
        ("zh", "知识缺口", f"{len(PLACES)} 个不佳请求", "无。"),
    ],
)
def test_a_digest_names_open_gaps_in_the_words_of_the_page(kept, language, heading, said, none):
    def lines():
        text = digest_of(kept.reader(), (), (), NOW_S - 14 * 86_400, NOW_S, language)
        return text.partition(f"## {heading}\n\n")[2].partition("\n\n")[0]

    [gap] = kept.reader().gaps(FORTNIGHT).gaps
    assert lines().startswith(f"- {gap.name}: {said}")
    assert lines().endswith(words_in(language)[f"lacks_{gap.diagnosis}"])
    kept.decide_gap(gap.id, "accepted")
    assert lines() == none


def test_parts_are_listed_alone_and_an_empty_list_says_why(kept):
    reader = kept.reader()
    assert reader.gaps(replace(FORTNIGHT, workflow="shop")).why_empty == "too_many_bad"
    assert reader.gaps(replace(FORTNIGHT, workflow="office")).gaps == ()
    assert reader.gaps(Filters(range_s=1.0)).why_empty == "no_requests"


def test_what_was_decided_stays_and_a_closed_gap_opens_with_its_next_bad_request(traffic):
    now = [NOW_S]
    store = Store(clock=lambda: now[0])
    store.export(traffic)

    def gap():
        [found] = store.reader().gaps(FORTNIGHT).gaps
        return found

    assert (gap().state, gap().last_ms) == ("open", max(one.run.started_ns for one in traffic[:16]) // 10**6)
    for state in ("accepted", "open", "closed"):
        store.decide_gap(gap().id, state)
        assert gap().state == state
    now[0] += 3_600
    later = request(500, "How are solar panels on the castle cleaned?", "bad")
    store.export([moved(later, "r500", NOW_S + 1_800)])
    assert (gap().state, gap().n_bad) == ("open", 17)
    for name, state in (("not an id", "closed"), (gap().id, "gone")):
        with pytest.raises(ValueError, match="8 hex digits"):
            store.decide_gap(name, state)
    store.close()


@pytest.mark.parametrize("keeps", [True, False])
def test_the_api_writes_what_is_decided_where_requests_are_kept(traffic, keeps):
    def post(client, gap, state):
        answer = client.post("/api/gaps/state", json={"gap": gap, "state": state})
        return answer.status_code, answer.json()

    with (
        served(store=StoreOptions() if keeps else None) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        if not keeps:
            assert post(client, "0" * 8, "closed")[0] == 409
            return
        server.store.export(traffic)
        window = {"since": int(NOW_S - 14 * 86_400) * 1000, "until": int(NOW_S) * 1000}
        for state in ("accepted", "closed", "open"):
            [gap] = client.get("/api/gaps", params=window).json()["gaps"]
            assert post(client, gap["id"], state) == (200, {"state": state})
            [gap] = client.get("/api/gaps", params=window).json()["gaps"]
            assert gap["state"] == state


def test_a_list_is_kept_for_a_minute(traffic):
    now = [NOW_S]
    store = Store(clock=lambda: now[0])
    store.export(traffic[16:])
    reader = store.reader()
    assert reader.gaps(FORTNIGHT).gaps == ()
    store.export(traffic[:16])
    assert reader.gaps(FORTNIGHT).gaps == ()
    now[0] += 61.0
    assert len(reader.gaps(FORTNIGHT).gaps) == 1
    store.close()


def test_in_a_large_store_nobody_waits_for_gaps_that_are_not_asked_for(traffic, monkeypatch):
    """What was found before is shown while they are looked for again."""
    monkeypatch.setattr(reader_module, "_SMALL", 1)
    now, free, read = [NOW_S], threading.Event(), reader_module.gaps

    def slow(*given):
        assert free.wait(60)
        return read(*given)

    monkeypatch.setattr(reader_module, "gaps", slow)
    with store(clock=lambda: now[0]) as made:
        made.export(traffic)
        reader = made.reader()
        assert (reader.known_gaps(None), reader.request("r1").advice.gap) == ([], None)
        free.set()
        (gap,) = reader.gaps(Filters(range_s=14 * 86_400.0)).gaps
        assert [one.id for one in reader.known_gaps(None)] == [gap.id]
        assert reader.request("r1").advice.gap == gap.id
        free.clear()
        now[0] += 61
        assert [one.id for one in reader.known_gaps(None)] == [gap.id]
        assert reader.gaps(Filters(range_s=14 * 86_400.0)).gaps[0].id == gap.id
        free.set()
