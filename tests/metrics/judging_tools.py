"""Small tools for tests of judged metrics: score one sample, script an endpoint, read an oracle."""

import json
from pathlib import Path

from openai_server import OpenAIServer, Request

from ragmeter.metrics import ContextPrecision, RagSample, Reference, Score, evaluate
from ragmeter.metrics.judge import OpenAIJudge

ORACLES = Path(__file__).parent.parent / "oracles"


def oracle(name: str, **wanted: str) -> list[dict]:
    """Read the records of an oracle file whose fields equal `wanted`."""
    # Not splitlines(): a text may have another line break in it.
    lines = (ORACLES / f"{name}.jsonl").read_text(encoding="utf-8").strip().split("\n")
    records = [json.loads(line) for line in lines]
    return [r for r in records if all(r[key] == value for key, value in wanted.items())]


def judge_at(server: OpenAIServer, **options) -> OpenAIJudge:
    """Return a judge at the local endpoint, with timeouts for tests."""
    return OpenAIJudge("fake-model", server.url, "sk-test", **{"max_retries": 0, **options})


def score(server: OpenAIServer, metric, sample: RagSample, **options) -> dict[str, Score]:
    """Score one sample through the whole path: metric, prompt, HTTP, reply, score."""
    [scores] = evaluate([sample], [metric], judge_at(server, **options))
    return dict(scores)


def only(server: OpenAIServer, metric, sample: RagSample, **options) -> Score:
    """Score one sample with a metric of one score."""
    [result] = score(server, metric, sample, **options).values()
    return result


def precision(judge: OpenAIJudge, **fields) -> Score:
    """Score `sample` with these fields by `ContextPrecision`."""
    [scores] = evaluate([sample(**fields)], [ContextPrecision()], judge)
    return scores["context_precision"]


def verdicts(*values):
    """Return the n-th value for the n-th id of a group."""

    def answer(request: Request, item_id: str):
        return values[int(item_id[1:]) - 1]

    return answer


def sample(**fields) -> RagSample:
    """Return a sample with a value in every field; `reference` is the reference answer."""
    reference = fields.pop("reference", "The lighthouse is 31 metres tall. It was lit in 1846.")
    given = {
        "question": "How tall is the lighthouse?",
        "contexts": ["The lighthouse is 31 metres tall.", "The harbour freezes in winter."],
        "answer": "It is 31 metres tall.",
        "reference": None if reference is None else Reference(answer=reference),
    }
    return RagSample(**{**given, **fields})
