"""What all embedders do: one call for many requests, nothing twice, limits."""

import asyncio
import threading

import pytest
from embedding_server import vector_of

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics.embedder import Embedder, InProcessEmbedder
from ragmeter.metrics.judge import JudgeBudget, JudgeError


class Recorder(Embedder):
    """Embeds by words, and remembers what it was asked."""

    def __init__(self, **options):
        self.asked = []
        self.gate = None
        self.breaks = {}
        super().__init__("recorder", **options)

    async def embed(self, texts, *, query):
        self.asked.append(list(texts))
        if self.gate is not None:
            await self.gate.wait()
        for text, error in self.breaks.items():
            if text in texts:
                raise error
        return [vector_of(text) for text in texts]


def vectors(embedder, *texts, query=False):
    return asyncio.run(embedder.vectors(texts, query=query))


def test_a_text_is_embedded_once():
    embedder = Recorder()
    first = vectors(embedder, "one", "two", "one")
    again = vectors(embedder, "two", "one")

    assert embedder.asked == [["one", "two"]]
    assert again == [first[1], first[0]]
    assert (embedder.stats.calls, embedder.stats.texts, embedder.stats.remembered) == (1, 2, 3)


def test_a_question_is_another_text_than_a_chunk_of_the_same_words():
    embedder = Recorder(query_prefix="query: ", passage_prefix="passage: ")
    vectors(embedder, "one", query=True)
    vectors(embedder, "one")

    assert embedder.asked == [["query: one"], ["passage: one"]]
    assert embedder.definition == "model=recorder;prefixes=query: |passage: "
    assert Recorder().definition == "model=recorder"


def test_requests_share_a_call():
    """What is asked at the same time, or while a call is under way, goes out together."""

    async def ask():
        embedder = Recorder()
        embedder.gate = asyncio.Event()
        asked = [
            asyncio.ensure_future(embedder.vectors([f"chunk {n}", "common"], query=False)) for n in range(3)
        ]
        await asyncio.sleep(0)
        while not embedder.asked:
            await asyncio.sleep(0)
        asked += [asyncio.ensure_future(embedder.vectors([f"late {n}"])) for n in range(3)]
        await asyncio.sleep(0)
        embedder.gate.set()
        await asyncio.gather(*asked)
        return embedder.asked

    assert asyncio.run(ask()) == [["chunk 0", "common", "chunk 1", "chunk 2"], ["late 0", "late 1", "late 2"]]


def test_a_call_has_at_most_so_many_texts():
    embedder = Recorder(batch_size=2)
    assert len(vectors(embedder, *"abcde")) == 5
    assert embedder.asked == [["a", "b"], ["c", "d"], ["e"]]


def test_memory_is_bounded():
    embedder = Recorder(max_vectors=2)
    vectors(embedder, "a", "b", "c")
    vectors(embedder, "c", "b", "a")

    assert embedder.asked == [["a", "b", "c"], ["a"]]


def test_what_is_wrong_with_a_text_costs_no_other():
    """The model takes all but one: the batch is divided until that stands alone."""
    embedder = Recorder()
    embedder.breaks["bad"] = ValueError("a secret text")

    async def ask():
        return await asyncio.gather(
            embedder.vectors(["good", "fine", "well", "right"]),
            embedder.vectors(["bad", "other"]),
            return_exceptions=True,
        )

    good, bad = asyncio.run(ask())

    assert len(good) == 4
    assert isinstance(bad, JudgeError)
    assert (bad.error_type, "secret" in str(bad)) == ("ValueError", False)
    assert vectors(embedder, "other")  # known by now
    assert [texts for texts in embedder.asked if "other" in texts and "bad" not in texts] == [["other"]]


def test_a_zero_vector_costs_only_its_text():
    def embed(texts):
        return [[0.0, 0.0] if text == "zero" else [1.0, 2.0] for text in texts]

    embedder = InProcessEmbedder(embed)
    assert vectors(embedder, "one")
    with pytest.raises(JudgeError, match="a vector that is none") as caught:
        vectors(embedder, "two", "zero")
    assert caught.value.error_type == "unusable_vector"
    assert embedder.stats.texts == 2


def test_rows_are_counted():
    embedder = InProcessEmbedder(lambda texts: [[1.0]] * (len(texts) + 1), name="one too many")
    with pytest.raises(JudgeError, match="3 vectors for 2 texts"):
        vectors(embedder, "a", "b")


@pytest.mark.contains_errors
def test_an_embedder_that_keeps_failing_is_left_alone():
    calls = []

    def broken(texts):
        calls.append(texts)
        raise OSError("no")

    embedder = InProcessEmbedder(broken)
    said = []
    for number in range(8):
        with pytest.raises(JudgeError) as caught:
            vectors(embedder, f"text {number}")
        said.append(str(caught.value))

    assert len(calls) == 5
    assert said[-1] == "the embedder is not asked for now, after: OSError"


def test_a_budget_holds_calls_back():
    embedder = Recorder(budget=JudgeBudget(calls_per_minute=1))
    vectors(embedder, "a")
    with pytest.raises(JudgeError) as caught:
        vectors(embedder, "b")

    assert (caught.value.status, caught.value.error_type) == ("skipped", "budget")
    assert vectors(embedder, "a")  # what is known costs nothing
    assert embedder.asked == [["a"]]


def test_a_call_that_hangs_is_given_up():
    gate = threading.Event()

    def hangs(texts):
        gate.wait(30)
        return [[1.0]] * len(texts)

    embedder = InProcessEmbedder(hangs, timeout_s=0.05)
    with pytest.raises(JudgeError, match=r"did not answer within 0\.05 s") as caught:
        vectors(embedder, "a")
    gate.set()

    assert caught.value.status == "timeout"


def test_a_measurement_that_is_given_up_leaves_the_call_to_the_others():
    async def ask():
        embedder = Recorder()
        embedder.gate = asyncio.Event()
        one = asyncio.ensure_future(embedder.vectors(["a"]))
        other = asyncio.ensure_future(embedder.vectors(["a"]))
        while not embedder.asked:
            await asyncio.sleep(0)
        one.cancel()
        embedder.gate.set()
        return await other, embedder.asked

    found, asked = asyncio.run(ask())

    assert len(found) == 1
    assert asked == [["a"]]


def test_closing_ends_what_is_under_way_and_it_can_be_used_again():
    async def ask():
        embedder = Recorder()
        embedder.gate = asyncio.Event()
        one = asyncio.ensure_future(embedder.vectors(["a"]))
        while not embedder.asked:
            await asyncio.sleep(0)
        await embedder.aclose()
        with pytest.raises(JudgeError, match="given up"):
            await one
        embedder.gate.set()
        return await embedder.vectors(["a"])

    assert len(asyncio.run(ask())) == 1


def test_lone_surrogates_are_sent_as_marks():
    embedder = Recorder()
    vectors(embedder, "a \udfff b", "ж")

    assert embedder.asked == [["a ? b", "ж"]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"timeout_s": 0}, "timeout_s is 0"),
        ({"concurrency": -1}, "concurrency is -1"),
        ({"max_vectors": -1}, "max_vectors is -1"),
    ],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(ConfigurationError, match=words):
        Recorder(**options)
