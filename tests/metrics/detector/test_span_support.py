"""`SpanSupport` with detectors as people have them: a function, an address, a model file."""

import asyncio
import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_server import JsonServer
from onnx_model import lookup_model

from ragmeter import RagMeter, RagSample
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import ConfigurationError, evaluate
from ragmeter.metrics.detector import HttpSpanDetector, InProcessSpanDetector, OnnxSpanDetector, SpanSupport
from ragmeter.metrics.detector.detector import spans_of
from ragmeter.metrics.judge import JudgeBudget

ANSWER = "The bridge was opened in 1932 by Ann."
SAMPLE = RagSample(question="When?", contexts=["The bridge was opened in 1932."], answer=ANSWER)
BY_ANN = ANSWER.index("by Ann")


def words_that_no_chunk_has(question, contexts, answer):
    """A detector: each word that is in no chunk, and each is certain."""
    known = set(" ".join(contexts).replace(".", " ").split())
    found, place = [], 0
    for word in answer.replace(".", " ").split():
        place = answer.index(word, place)
        if word not in known:
            found.append((place, place + len(word), 0.9))
        place += len(word)
    return found


def measured(detector, *samples, **options):
    found = evaluate(list(samples or (SAMPLE,)), [SpanSupport(detector, **options)])
    return [one["span_support"] for one in found]


def test_the_share_without_marked_spans_is_the_value_and_the_spans_are_the_evidence():
    (score,) = measured(words_that_no_chunk_has)
    assert (score.status, score.method, score.target) == ("ok", "detector", "answer")
    assert score.value == pytest.approx(1 - 5 / 30)
    assert [(one.text, one.verdict, one.value) for one in score.items] == [
        ("by", False, 0.9),
        ("Ann", False, 0.9),
    ]
    assert score.items[0].reason == f"characters {BY_ANN} to {BY_ANN + 2}"
    assert "Ann" not in score.summary
    assert "model=words_that_no_chunk_has" in score.definition
    (unmarked,) = measured(words_that_no_chunk_has, at_least=0.95)
    assert (unmarked.value, unmarked.summary) == (1.0, "no unsupported span")
    assert unmarked.definition != score.definition


def test_what_cannot_be_measured_says_why():
    blank, empty = measured(
        words_that_no_chunk_has,
        RagSample(question="q", contexts=["a"], answer=" "),
        RagSample(question="q", contexts=[], answer="b"),
    )
    assert blank.status == "undefined"
    assert empty.value == 0.0  # nothing was retrieved: nothing has support
    (missing,) = measured(words_that_no_chunk_has, RagSample(question="q", contexts=["a"]))
    assert (missing.status, missing.missing) == ("missing_input", "answer")


@pytest.mark.parametrize(
    "said",
    [None, "text", {"start": 0}, [(0, 99, 0.5)], [(3, 3, 0.5)], [(0, 1, 1.5)], [(0, 1, float("nan"))],
     [(-1, 1, 0.5)], [(0.5, 1, 0.5)], [("a", 1, 0.5)], [{"start": 0}], [5]],
)  # fmt: skip
def test_what_is_no_list_of_spans_is_no_score(said):
    (score,) = measured(lambda *_: said)
    assert (score.value, score.status, score.error_type) == (None, "metric_error", "unusable_reply")


def test_a_detector_that_raises_costs_only_the_answers_it_raises_for_and_quotes_nothing():
    def detector(question, contexts, answer):
        if "odd" in answer:
            raise ValueError(answer)
        return []

    samples = [
        RagSample(question="q", contexts=["c"], answer=f"{'odd' if n == 2 else 'fine'} {n}") for n in range(5)
    ]
    found = measured(InProcessSpanDetector(detector), *samples)
    assert [one.status for one in found] == ["ok", "ok", "metric_error", "ok", "ok"]
    assert found[2].error_type == "ValueError"
    assert "odd 2" not in found[2].explanation


def test_an_async_function_an_object_and_a_budget():
    async def detector(question, contexts, answer):
        await asyncio.sleep(0)
        return [{"start": 0, "end": 3, "hallucination_score": 0.75}]

    (score,) = measured(detector)
    assert score.items[0].value == 0.75

    class Model:
        name = "mine"

        def detect(self, question, contexts, answer):
            return []

    (score,) = measured(Model())
    assert "model=mine" in score.definition
    budget = JudgeBudget(calls_per_minute=1)
    limited = InProcessSpanDetector(detector, budget=budget, batch_size=1)
    assert limited.budget is budget


def test_equal_answers_are_asked_about_once():
    calls = []

    def detector(question, contexts, answer):
        calls.append(answer)
        return []

    measured(InProcessSpanDetector(detector), *[SAMPLE] * 20)
    assert calls == [ANSWER]


@pytest.mark.parametrize("wrong", [3, None, str, "not an address"])
def test_what_is_no_detector_is_refused_at_construction(wrong):
    with pytest.raises(ConfigurationError):
        SpanSupport(wrong)


def test_numbers_out_of_range_are_refused(tmp_path):
    for options in ({"batch_size": 0}, {"timeout_s": 0}, {"concurrency": -1}):
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            InProcessSpanDetector(words_that_no_chunk_has, **options)
    with pytest.raises(ConfigurationError, match="at_least"):
        SpanSupport(words_that_no_chunk_has, at_least=0.0)
    with pytest.raises(ConfigurationError, match="no file"):
        OnnxSpanDetector(tmp_path / "model.onnx", tmp_path / "tokenizer.json")


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.floats(0, 1)), max_size=12))
def test_spans_are_sorted_disjoint_and_cover_the_same_characters(given_spans):
    spans = [(min(a, b), max(a, b) + 1, p) for a, b, p in given_spans]
    found = spans_of(spans, "x" * 21)
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))
    assert {n for a, b, _ in spans for n in range(a, b)} == {
        n for one in found for n in range(one.start, one.end)
    }
    for one in found:
        inside = [p for a, b, p in spans if a >= one.start and b <= one.end]
        assert one.probability == max(inside)


class Server(JsonServer):
    """Detects as `words_that_no_chunk_has`, in both forms; it may refuse first."""

    def __init__(self, *statuses):
        super().__init__()
        self._statuses = list(statuses)
        self.surplus = {}

    @property
    def address(self):
        return f"{self.url}/lettucedetect/spans"

    def answer_to(self, body):
        found = (
            {"predictions": self._spans(body)}
            if "requests" not in body
            else {"results": [{"spans": self._spans(one)} for one in body["requests"]]}
        )
        return self._statuses.pop(0) if self._statuses else 200, found | self.surplus, {}

    @staticmethod
    def _spans(one):
        return [
            {"start": start, "end": end, "text": "", "hallucination_score": probability}
            for start, end, probability in words_that_no_chunk_has(**one)
        ]


@pytest.fixture
def server(request):
    with Server(*getattr(request, "param", ())) as made:
        yield made


@pytest.mark.parametrize("batch_size", [1, 16])
def test_an_address_says_the_same_one_by_one_and_many_at_a_time(server, batch_size):
    samples = [SAMPLE, *(SAMPLE.model_copy(update={"answer": f"{ANSWER} {n}"}) for n in range(6))]
    detector = HttpSpanDetector(server.address, batch_size=batch_size, api_key="secret-key")
    found = measured(detector, *samples)
    assert [one.value for one in found] == [one.value for one in measured(words_that_no_chunk_has, *samples)]
    paths, headers, bodies = zip(*server.requests, strict=True)
    assert set(paths) == {"/v1/lettucedetect/spans"}
    assert all(one["authorization"] == "Bearer secret-key" for one in headers)
    if batch_size == 1:
        assert len(bodies) == 7
        assert set(bodies[0]) == {"question", "contexts", "answer"}
    else:
        assert len(bodies) < 7
    assert "secret-key" not in repr(detector) + pickle.dumps(detector).decode("latin-1")


def test_an_address_alone_is_enough(server):
    (score,) = measured(server.address)
    assert score.value == pytest.approx(1 - 5 / 30)
    assert "127.0.0.1/v1/lettucedetect/spans" in score.definition


@pytest.mark.parametrize("server", [(503, 429)], indirect=True)
def test_a_passing_refusal_is_tried_again(server):
    (score,) = measured(HttpSpanDetector(server.address))
    assert (score.status, len(server.requests)) == ("ok", 3)


@pytest.mark.parametrize("server", [(401,) * 3], indirect=True)
def test_a_wrong_key_is_no_score(server):
    (score,) = measured(HttpSpanDetector(server.address, api_key="wrong"))
    assert (score.value, score.error_type) == (None, "authentication")


def test_a_reply_without_end_is_not_read_to_its_end(server):
    server.surplus = {"padding": " " * 5 * 2**20}
    (score,) = measured(HttpSpanDetector(server.address))
    assert (score.value, score.error_type) == (None, "reply_too_large")


def test_a_live_meter_asks_off_the_requests_path_and_exports_the_score(server):
    memory = InMemoryExporter()
    with RagMeter(metrics=["lexical_groundedness", SpanSupport(server.address)], exporters=[memory]) as meter:
        meter.submit(SAMPLE)
        assert meter.flush(60)
        assert meter.quality("span_support").n_judged == 1
    (result,) = memory.results
    assert result.scores["span_support"].value == pytest.approx(1 - 5 / 30)


@pytest.fixture
def files(tmp_path):
    """A model of twelve words, four of which have no support, and its tokenizer."""
    pytest.importorskip("onnxruntime")
    tokenizers = pytest.importorskip("tokenizers")
    words = ["[UNK]", "the", "bridge", "was", "opened", "in", "1932", "by", "ann", ".", "мост", "桥"]
    wrong = {"by", "ann", "мост", "桥"}
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str(), "utf-8")
    (tmp_path / "tiny.onnx").write_bytes(
        lookup_model([(0.0, 2.0) if word in wrong else (3.0, 0.0) for word in words])
    )
    return tmp_path / "tiny.onnx", tmp_path / "tokenizer.json"


def test_a_model_file_marks_tokens_of_the_answer_joined_to_spans(files):
    detector = OnnxSpanDetector(*files)
    long = RagSample(question="by ann", contexts=["by ann " * 3000], answer="The bridge был мост, 桥.")
    short, russian = measured(detector, SAMPLE, long)
    (span,) = short.items
    assert (span.text, span.value) == ("by Ann", pytest.approx(0.8808, abs=1e-4))
    assert short.value == pytest.approx(1 - 5 / 30)
    assert [one.text for one in russian.items] == ["мост", "桥"]
    assert "model=tiny" in short.definition
    again = pickle.loads(pickle.dumps(OnnxSpanDetector(files[0])))  # its tokenizer stands beside it
    assert measured(again)[0].value == short.value


def test_a_file_that_is_no_model_is_refused_with_the_fix(files):
    model, tokenizer = files
    with pytest.raises(ConfigurationError, match="cannot be read"):
        OnnxSpanDetector(tokenizer, tokenizer)
    with pytest.raises(ConfigurationError, match=r"no tokenizer\.json"):
        OnnxSpanDetector(model, model)
