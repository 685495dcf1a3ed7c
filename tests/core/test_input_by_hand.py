"""Whatever is told by hand at run time, nothing raises: it is contained, counted, and said without any text."""

import asyncio
import logging
import math
from uuid import uuid4

import pytest
from fakes_core import context_tally
from hypothesis import given, settings
from hypothesis import strategies as st

import ragmeter
from ragmeter import Limits, RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample, Reference, RetrievedContext
from ragmeter.requests.size import weight_of

pytestmark = pytest.mark.contains_errors

SECRET = "the-very-text-of-a-user"


class Hostile:
    """Refuses everything that can be asked of an object, quoting what it was given."""

    def _refuse(self, *_: object) -> object:
        raise RuntimeError(SECRET)

    __str__ = __iter__ = __len__ = __eq__ = __hash__ = __bool__ = __float__ = _refuse  # type: ignore[assignment]
    __int__ = __index__ = __call__ = __enter__ = __format__ = __lt__ = _refuse  # type: ignore[assignment]

    def __getattr__(self, name):
        raise RuntimeError(SECRET)


class Lazy:
    """A query that fails while it is read."""

    def __iter__(self):
        yield "first"
        raise OSError(SECRET)


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.just("\ud800"),
    st.builds(object),
    st.builds(Hostile),
    st.builds(Lazy),
    st.builds(uuid4),
    st.just(Hostile),
    st.just(RetrievedContext(text="a")),
    st.just(Reference(answer="a")),
    st.just(RagSample(question="q", contexts=["a"])),
)
anything = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3),
        st.fixed_dictionaries(
            {}, optional={"text": inner, "answer": inner, "contexts": inner, "metadata": inner}
        ),
    ),
    max_leaves=6,
)


@settings(derandomize=True, deadline=None)
@given(st.data())
def test_anything_at_any_verb(data):
    def some():
        return data.draw(anything)

    memory = InMemoryExporter()
    meter = RagMeter(metrics=[context_tally], exporters=[memory])
    with ragmeter.reference(answer=some(), contexts=some(), context_ids=some()):
        with meter.request(
            some(), reference=some(), name=some(), session_id=some(), user_id=some(), tags=some(),
            metadata=some(),
        ) as request:  # fmt: skip
            request.retrieved(
                some(), query=some(), name=some(), data_source_id=some(), top_k=some(),
                started_ns=some(),
            )  # fmt: skip
            request.retrieved(["b"])
            request.answered(some())
        with ragmeter.request(some(), meter=some()):
            pass
        meter.submit(some())
    meter.attach_reference(some(), some())
    meter.feedback(some(), some(), some(), label=some(), explanation=some(), direction=some())
    meter.port.count_lost("evicted", some())
    meter.port.expect_requests(some())
    meter.flush(some() if data.draw(st.booleans()) else 30)
    meter.flush(30)
    stats = meter.stats()
    assert isinstance(stats.captured, int)
    assert memory.results, stats  # what was told rightly is there: the request, and what it retrieved
    assert any("b" in [c.text for c in r.sample.contexts or ()] for r in memory.results)
    meter.shutdown(60)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda meter: meter.submit({"question": SECRET}),
        lambda meter: meter.submit(None),
        lambda meter: meter.attach_reference(7.5, SECRET),
        lambda meter: meter.attach_reference("run", 5),
        lambda meter: meter.attach_reference("run", {"contexts": [None, SECRET]}),
        lambda meter: meter.feedback("run", SECRET, 1.0),
        lambda meter: meter.feedback("run", "thumbs_up", math.nan),
        lambda meter: meter.feedback("run", "thumbs_up", SECRET),
        lambda meter: meter.flush(SECRET),
        lambda meter: meter.request(SECRET, reference=5),
        lambda meter: meter.request(SECRET, tags=5),
        lambda meter: meter.request(SECRET, metadata=[SECRET]),
        lambda meter: meter.request(SECRET).retrieved(None),
        lambda meter: meter.request(SECRET).retrieved(7),
        lambda meter: meter.request(SECRET).retrieved(Lazy()),
        lambda meter: ragmeter.reference(answer=5).__enter__(),
        lambda meter: ragmeter.reference(contexts=[None, SECRET]).__enter__(),
    ],
)
def test_each_misuse_is_counted_once_and_logged_once_without_the_text(misuse, caplog):
    caplog.set_level(logging.DEBUG)
    meter = RagMeter(metrics=[context_tally], exporters=[InMemoryExporter()])

    misuse(meter)
    meter.flush(60)

    assert sum(meter.stats().internal_errors.values()) == 1
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "pass " in errors[0].getMessage() or "is " in errors[0].getMessage()
    assert SECRET not in caplog.text
    meter.shutdown(60)


def test_a_wrong_part_loses_itself_and_nothing_else():
    memory = InMemoryExporter()
    meter = RagMeter(metrics=[context_tally], exporters=[memory])

    with ragmeter.reference(answer="right", contexts=[None]):
        with meter.request(b"\xd0\xbf?", tags=["x", 5], user_id=7) as request:
            request.retrieved(None)
            request.retrieved({"text": "one alone"})
            request.retrieved([Hostile(), "b"])
            request.answered(Hostile())
    meter.submit({})
    assert meter.flush(60)

    [result] = memory.results
    assert result.sample.question == "п?"
    assert [c.text for c in result.sample.contexts] == ["one alone", "b"]
    assert result.sample.reference == Reference(answer="right")
    assert (result.run.tags, result.run.user_id) == (("x", "5"), "7")
    assert meter.stats().dropped == {"error": 1}
    meter.shutdown(60)


def test_a_request_left_in_another_context_than_it_was_entered_in_raises_nothing():
    """As when a server closes an abandoned stream in a task of its own."""
    memory = InMemoryExporter()
    meter = RagMeter(metrics=[context_tally], exporters=[memory])

    async def stream():
        with ragmeter.reference(answer="a"), ragmeter.suppress():
            pass
        with ragmeter.reference(answer="a"):
            async with meter.request("q") as request:
                request.retrieved(["a"])
                yield 1

    async def app():
        abandoned = stream()
        await asyncio.create_task(anext(abandoned))
        await asyncio.create_task(abandoned.aclose())

    asyncio.run(app())
    assert meter.flush(60)

    assert len(memory.results) == 1
    assert meter.stats().internal_errors == {}
    meter.shutdown(60)


def test_weights_are_bytes_of_everything_a_request_holds_on_to():
    big = "ж" * 1_000_000
    for value in (big, [big], {"a": {"b": [big]}}, RetrievedContext(text="", metadata={"k": big})):
        assert 2_000_000 <= weight_of(value) < 2_100_000
    assert 8_000 <= weight_of([0.5] * 1_000) < 100_000
    assert weight_of(None) == 0
    circle: list[object] = []
    circle.append(circle)
    assert weight_of(circle) < 10_000
    assert weight_of(Hostile()) < 10_000


@pytest.mark.parametrize("where", ["question", "answer", "reference", "metadata", "context"])
def test_queue_bytes_counts_every_text_of_a_request(where):
    """4 MB each, 20 MB may wait: no more than that is ever held, wherever the bytes stand."""
    import threading

    gate, entered = threading.Event(), threading.Event()

    from ragmeter.metrics import metric

    @metric
    def waiting(sample):
        entered.set()
        gate.wait(60)
        return 1.0

    big = "x" * 4_000_000
    context = {"text": "a", "metadata": {"raw": [big]} if where == "metadata" else {}}
    sample = RagSample(
        question=big if where == "question" else "q",
        contexts=[{**context, "text": big} if where == "context" else context],
        answer=big if where == "answer" else "a",
        reference={"answer": big} if where == "reference" else None,
    )
    meter = RagMeter(metrics=[waiting], exporters=[InMemoryExporter()], limits=Limits(queue_bytes=20_000_000))
    meter.submit(sample)
    assert entered.wait(30)
    for _ in range(20):
        meter.submit(sample)

    stats = meter.stats()
    assert 16_000_000 <= stats.queue_bytes <= 20_000_000
    assert stats.queue_size == 4
    assert stats.dropped == {"queue_full": 16}
    gate.set()
    meter.shutdown(30)
