"""Without what a metric reads there is no value, a status that says so, and no call."""

import pytest
from judging_tools import sample, score

from ragmeter.metrics import (
    AnswerRelevancy,
    ContextPrecision,
    ContextRecall,
    ContextRelevancy,
    ContextUtilization,
    Faithfulness,
    RagQuestEval,
)

ANSWER = [({"answer": None}, "missing_input"), ({"answer": " "}, "undefined"), ({"status": "error"}, "skipped")]
QUESTION = [({"question": None}, "missing_input")]
BLANK_QUESTION = [({"question": " "}, "undefined")]
CONTEXTS = [({"contexts": None}, "missing_input")]
REFERENCE = [({"reference": None}, "missing_input"), ({"reference": " \n"}, "undefined")]
NO_STATEMENT = [({"contexts": []}, "undefined"), ({"contexts": [" "]}, "undefined")]
CASES = [
    (AnswerRelevancy(), [*ANSWER, *QUESTION, *BLANK_QUESTION, ({"status": "cancelled"}, "skipped")]),
    (ContextPrecision(), [*REFERENCE, *CONTEXTS, *QUESTION]),
    (ContextUtilization(), [*ANSWER, ({"status": "cancelled"}, "skipped")]),
    (ContextRecall(), [*REFERENCE, *CONTEXTS]),
    (ContextRelevancy(), [*NO_STATEMENT, *QUESTION, *BLANK_QUESTION, *CONTEXTS]),
    (Faithfulness(), [*ANSWER, *CONTEXTS, ({"status": "interrupted"}, "skipped")]),
    (RagQuestEval(), [*REFERENCE, ({"answer": None}, "missing_input"), ({"status": "error"}, "skipped")]),
]


@pytest.mark.parametrize(
    ("metric", "fields", "status"),
    [
        pytest.param(metric, fields, status, id=f"{metric.name}-{fields}")
        for metric, cases in CASES
        for fields, status in cases
    ],
)
def test_no_value_without_inputs(server, metric, fields, status):
    scores = score(server, metric, sample(**fields))

    assert {(one.value, one.status) for one in scores.values()} == {(None, status)}
    assert server.requests == []
