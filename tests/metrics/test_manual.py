"""docs/metrics.md states the values that the metrics give."""

import re
from pathlib import Path

import pytest
from judging_tools import judge_at
from openai_server import OpenAIServer

from ragmeter.metrics import MatchingStrategy, PrecisionRecallF1, default_metrics, evaluate

MANUAL = (Path(__file__).parents[2] / "docs/metrics.md").read_text(encoding="utf-8")

VERDICTS = {
    "context_precision": [True, False, True],
    "context_utilization": [True, False, True],
    "context_recall": [True, True, False],
    "context_relevancy": [True, False, False, True],
    "faithfulness": ["supported", "absent"],
    "answer_relevancy": ["relevant", "relevant"],
}


def judged_as_the_manual_says(request, item_id):
    if "entities" in request.form:
        return ["Kolka", "21 metres", "1884", "Roja"]
    if "questions" in request.form:
        return [("How tall?", "21 metres"), ("Lit when?", "1884"), ("Where did he live?", "Roja")]
    if "sufficiency" in request.form:
        return LIVE[item_id]
    if '"answer"' in str(request.form).replace("'", '"'):
        return ["21 metres", "in 1884", None][int(item_id[1:]) - 1]
    [verdicts] = [v for words, v in TASKS.items() if words in request.user]
    return verdicts[int(item_id[1:]) - 1]


LIVE = {"c1": True, "c2": False, "c3": True, "e1": "yes", "a1": "supported", "a2": "absent"}
TASKS = {
    "at the reference answer": VERDICTS["context_precision"],
    "at the given answer": VERDICTS["context_utilization"],
    "For each numbered claim": VERDICTS["context_recall"],
    "about what the question asks": VERDICTS["context_relevancy"],
    '"contradicted"': VERDICTS["faithfulness"],
    '"noncommittal"': VERDICTS["answer_relevancy"],
}


@pytest.fixture(scope="module")
def scores():
    [block] = re.findall(r"```python\n(from ragmeter.metrics import RagSample.*?)```", MANUAL, re.DOTALL)
    names: dict = {}
    exec(block, names)
    metrics = [m for m in default_metrics(judged=True) if m.name != "precision_recall_f1"]
    metrics.append(PrecisionRecallF1(MatchingStrategy.ROUGE_SENTENCE_MATCH))
    with OpenAIServer(judged_as_the_manual_says) as server:
        [found] = evaluate([names["sample"]], metrics, judge_at(server))
    return found


def row_of(name):
    """Return the row of the metric that has this score; `faithfulness` is of two of them."""
    [metric, *_] = [m for m in default_metrics(judged=True) if name in m.score_names]
    found = [line for line in MANUAL.splitlines() if line.startswith(f"| `{metric.name}`")]
    assert found, f"docs/metrics.md: a row for `{metric.name}`, with the example's value"
    return found[0]


def test_every_value_of_the_example_stands_in_its_row(scores):
    for name, score in scores.items():
        assert score.status == "ok"
        stated = f"**{round(score.value, 4)}**"
        assert stated in row_of(name), f"{name}: {stated}"


def test_the_label_of_the_example(scores):
    assert scores["context_recall"].label == "incomplete"
    assert "`incomplete`." in row_of("context_recall")


def test_the_table_of_failures_is_complete():
    """Every class of failure in the code is named on the judge's page."""
    folder = Path(__file__).parents[2] / "metrics/judge"
    code = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
    classes = re.findall(r'FailedCall\(\s*"(\w+)"|\d{3}: "(\w+)"|error_type = "(\w+)"', code)
    named = {name for found in classes for name in found if name} | {"budget", "bad_request"}

    assert named
    page = (Path(__file__).parents[2] / "docs/judge.md").read_text(encoding="utf-8")
    assert not {name for name in named if f"`{name}`" not in page}
