"""`context_precision` and `context_utilization`, through the whole judge path."""

import pytest
from judging_tools import judge_at, only, oracle, sample, verdicts
from openai_server import OpenAIServer

from ragmeter.metrics import ContextPrecision, ContextUtilization, RagSample, evaluate


def chunks(count):
    return [f"Chunk number {number} says something of its own." for number in range(count)]


@pytest.mark.parametrize(
    ("v", "expected"),
    [
        pytest.param([1, 0, 0], 1.0, id="(1/1)/1"),
        pytest.param([0, 0, 1], 1 / 3, id="(1/3)/1"),
        pytest.param([1, 0, 1], (1 + 2 / 3) / 2, id="(1+2/3)/2"),
        pytest.param([0, 0, 0], 0.0, id="none useful"),
    ],
)
@pytest.mark.parametrize("kind", [ContextPrecision, ContextUtilization])
def test_worked_examples(server, kind, v, expected):
    """The average precision of the verdicts, whoever the usefulness is judged by."""
    server.answer = verdicts(*map(bool, v))

    result = only(server, kind(), sample(contexts=chunks(len(v))))

    assert result.value == pytest.approx(expected, abs=1e-12)
    assert (result.status, result.judge_calls, result.method) == ("ok", 1, "llm")
    assert [item.verdict for item in result.items] == [bool(x) for x in v]
    assert result.items[0].reason == "about c1"


def test_agrees_with_exact_fractions_and_with_ragas():
    """Every vector of exact average precision, and ragas' up to its epsilon, through one judge."""
    cases = [
        (r["input"]["v"], r["expected"], 1e-12) for r in oracle("exact_ap", metric="context_precision_at_k")
    ]
    for record in oracle("ragas_llm_arithmetic"):
        values = record["input"].get("verdicts")
        if "Precision" in record["metric"] and values and set(values) <= {0, 1}:
            cases.append((values, record["expected"], 2e-9))
    deep = {"yes": 1, "no": 0, "Yes.": 1, "NO": 0}
    for record in oracle("deepeval_contextual", metric="ContextualPrecisionMetric"):
        words = record["input"]["verdicts"]
        if words and set(words) <= set(deep):
            cases.append(([deep[w] for w in words], record["expected"], 1e-12))

    def answer(request, item_id):
        case = int(request.passages["question"].split()[1])
        return bool(cases[case][0][int(item_id[1:]) - 1])

    with OpenAIServer(answer) as server:
        samples = [
            sample(question=f"case {number} ?", contexts=[f"{number} {x}" for x in chunks(len(v))])
            for number, (v, _, _) in enumerate(cases)
        ]
        results = evaluate(samples, [ContextPrecision()], judge_at(server))

    assert len(cases) > 180
    for result, (v, expected, tolerance) in zip(results, cases, strict=True):
        assert result["context_precision"].value == (None if not v else pytest.approx(expected, abs=tolerance))


def test_nothing_retrieved_is_undefined_without_a_call(server):
    result = only(server, ContextPrecision(), sample(contexts=[]))

    assert (result.value, result.status, len(server.requests)) == (None, "undefined", 0)


def test_blank_chunks_are_useless_and_never_sent(server):
    """v = 0 for a blank chunk; with only blank ones the value is 0.0 without a call."""
    result = only(server, ContextPrecision(), sample(contexts=["  ", "The tower.", "\n"]))
    blank = only(server, ContextPrecision(), sample(contexts=["  ", "\n"]))

    assert result.value == 1 / 2
    assert [item.verdict for item in result.items] == [False, True, False]
    assert (blank.value, blank.status, len(server.requests)) == (0.0, "ok", 1)


def test_identical_chunks_are_judged_once_and_counted_at_every_rank(server):
    server.answer = lambda request, item_id: "tall" in request.text_of(item_id)
    result = only(server, ContextPrecision(), sample(contexts=["tall", "short", "tall"]))

    assert result.value == pytest.approx((1 + 2 / 3) / 2)
    assert server.requests[0].ids == ["c1", "c2"]
    assert result.items[2].evidence == "same text as chunk-1"


def test_unknown_verdicts_give_exact_bounds_and_no_value(server):
    """[?, 0, ?] lies in 0.0 to 1.0: filling all alike would say 0.8333."""
    server.answer = verdicts(None, False, None)
    result = only(server, ContextPrecision(), sample(contexts=chunks(3)))

    assert (result.value, result.status) == (None, "partial")
    assert (result.lower, result.upper) == (0.0, 1.0)
    assert (result.judge_calls, server.requests[1].ids) == (2, ["c1", "c3"])


def test_a_repeated_unknown_chunk_is_one_unknown(server):
    """The same chunk at ranks 1 and 3 is useful at both or at none: 0.0 or 0.8333, never 1.0."""
    server.answer = verdicts(None, False)
    one, two = chunks(2)
    result = only(server, ContextPrecision(), sample(contexts=[one, two, one]))

    assert (result.value, result.status) == (None, "partial")
    assert (result.lower, result.upper) == pytest.approx((0.0, 5 / 6))


def test_unknown_as_zero_gives_a_value(server):
    server.answer = verdicts(None, True, None)
    result = only(server, ContextPrecision(unknown_as=0), sample(contexts=chunks(3)))

    assert (result.value, result.status) == (0.5, "partial")


def test_the_judge_reads_reference_or_answer_but_never_both(server):
    """Precision is judged by the reference answer, utilization by the answer."""
    only(server, ContextPrecision(), sample())
    only(server, ContextUtilization(), sample())

    assert "reference answer" in server.requests[0].passages
    assert "answer" not in server.requests[0].passages
    assert server.requests[1].passages["answer"] == "It is 31 metres tall."
    assert "reference answer" not in server.requests[1].passages


def test_chunks_keep_their_verdicts_whatever_order_and_company(server):
    """A chunk judged before for the same question and reference is not sent again."""
    judge = judge_at(server)
    metric = [ContextPrecision()]
    one, two, three = chunks(3)
    server.answer = lambda request, item_id: "number 1" in request.text_of(item_id)
    evaluate([sample(contexts=[one, two])], metric, judge)
    [scores] = evaluate([sample(contexts=[three, two, one])], metric, judge)

    assert [list(request.ids) for request in server.requests] == [["c1", "c2"], ["c1"]]
    assert next(iter(server.requests[1].passages)) == "chunk c1"
    assert "number 0" not in server.requests[1].user
    assert scores["context_precision"].value == 0.5
    assert scores["context_precision"].cache_hits == 2


def test_a_wrong_option_is_refused_at_construction():
    with pytest.raises(ValueError, match="unknown_as"):
        ContextPrecision(unknown_as=1)


def test_every_language_goes_out_as_it_is(server):
    """Russian and Chinese texts reach the judge unchanged."""
    asked = RagSample(
        question="Какой высоты маяк?",
        contexts=["Высота маяка — 31 метр.", "灯塔高三十一米。"],
        reference={"answer": "31 метр"},
    )
    result = only(server, ContextPrecision(), asked)

    assert server.requests[0].passages["chunk c1"] == "Высота маяка — 31 метр."
    assert server.requests[0].passages["chunk c2"] == "灯塔高三十一米。"
    assert result.value == 1.0
