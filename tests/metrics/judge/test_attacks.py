"""A corpus of texts that try to judge themselves: the form holds, and no verdict is theirs.

Each of them is sent through the whole path, metric to score, as a context, a question or an answer,
past judges that repeat what they are told.
"""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from judging_tools import judge_at, sample

from ragmeter.metrics import (
    AnswerRelevancy,
    ContextPrecision,
    ContextRecall,
    ContextRelevancy,
    ContextUtilization,
    Faithfulness,
    FusedContextMetrics,
    evaluate,
)

ATTACKS = [
    json.loads(line)
    for line in (Path(__file__).parent / "attacks.jsonl").read_text(encoding="utf-8").splitlines()
]
METRICS = [
    ContextPrecision(),
    ContextRecall(),
    ContextUtilization(),
    ContextRelevancy(),
    Faithfulness(),
    AnswerRelevancy(),
    FusedContextMetrics(),
]
WORST = {"supported": "absent", "relevant": "irrelevant"}


def attacked(attack):
    if attack["place"] == "context":
        return sample(contexts=["The harbour freezes in winter.", attack["text"]])
    return sample(**{attack["place"]: attack["text"]})


def severe(request, _item_id):
    """The worst verdict that the form allows."""
    for example in request.form.values():
        if isinstance(example, list) and isinstance(example[0].get("verdict"), str):
            return WORST.get(example[0]["verdict"], False)
    return False


def frame(request):
    """The prompt without the texts of others and without the ids."""
    marker, tag = request.marker, request.tag
    user = re.sub(rf"(<<{marker} [^\n]*>>\n).*?(\n<<{marker}>>)", r"\1\2", request.user, flags=re.DOTALL)
    user = re.sub(rf"\b{tag}(?=[a-z]\d)", "", user)
    return re.sub(r"^Ids to answer: .*$", "", user, flags=re.MULTILINE).replace(marker, "MARKER")


def all_scores(server, attacks=ATTACKS):
    judge = judge_at(server, cache=False)
    samples = [attacked(attack) for attack in attacks]
    results = [
        scores
        for metrics in (METRICS[:-1], METRICS[-1:])  # the fused ones share names with the others
        for scores in evaluate(samples, metrics, judge)
    ]
    return [score for scores in results for score in scores.values()]


def test_the_corpus_is_large_and_mixed():
    """At least 40, in contexts, questions and answers, in three languages."""
    assert len({attack["text"] for attack in ATTACKS}) >= 40
    pairs = Counter((attack["language"], attack["place"]) for attack in ATTACKS)
    assert len(pairs) == 9


@pytest.mark.parametrize(
    "metric",
    [*METRICS, FusedContextMetrics(entities=True)],
    ids=lambda metric: metric.name + str(getattr(metric, "entities", "")),
)
def test_the_form_holds(server, metric):
    """Whatever the texts say, the prompt around them is the same, and only our ids are asked."""
    server.answer = lambda request, item_id: [] if item_id[0] == "t" else severe(request, item_id)
    judge = judge_at(server, cache=False)
    evaluate([sample()], [metric], judge)
    harmless = frame(server.requests[0])
    for attack in ATTACKS:
        server.requests.clear()
        evaluate([attacked(attack)], [metric], judge)
        for request in server.requests:
            assert frame(request) == harmless
            assert request.marker not in attack["text"]
            titles = len(re.findall(rf"^<<{request.marker} ", request.user, re.MULTILINE))
            assert request.user.count(request.marker) == 2 * titles
            assert request.ids == list(dict.fromkeys(request.ids))


def test_no_verdict_is_taken_from_reasons(server):
    """The judge is severe and quotes each text as its reason: every score is 0 or unknown."""

    def quoting(request):
        from openai_server import well_formed

        reply = well_formed(request, severe)
        for entries in reply.values():
            for entry in entries if isinstance(entries, list) else ():
                if "reason" in entry:
                    entry["reason"] = request.user
        return reply

    server.script.extend([quoting] * 2_000)
    scores = all_scores(server)

    assert {score.value for score in scores} <= {0.0, None}
    assert any(score.status == "ok" for score in scores)


ECHOES = {
    "the whole prompt": lambda request: request.user,
    "one text": lambda request: list(request.passages.values())[-1],
    "each text in prose": lambda request: f"They say: {' '.join(request.passages.values())}. Yes.",
    "one text, fenced": lambda request: (
        f"I read:\n```json\n{list(request.passages.values())[-1]}\n```\nTrue for all."
    ),
    "the texts' own objects": lambda request: "\n".join(
        re.findall(r"\{.*\}", "\n".join(request.passages.values()))
    ),
    "the first object, laid out anew": lambda request: re.sub(
        r"([\[{,:])",
        r"\1\n  ",
        next(iter(re.findall(r"\{\".*\}", "\n".join(request.passages.values()))), "true"),
    ),
}


@pytest.mark.parametrize("name", ECHOES)
def test_a_judge_that_repeats_what_it_was_told_gives_no_score(server, name):
    """Quotations are not answers, fenced or bare: no value at all."""
    server.script.extend([ECHOES[name]] * 2_000)
    scores = all_scores(server, ATTACKS[:: len(ATTACKS) // 4])

    assert {score.error_type for score in scores} <= {"unusable_reply", None}
    wrong = [(score.name, score.status, score.value) for score in scores if score.value is not None]
    assert wrong == []


def test_delimiters_cannot_be_known_beforehand(server):
    """Twelve random digits each: another for every request and for every judge."""
    server.answer = severe
    for _ in range(2):
        evaluate(
            [attacked(a) for a in ATTACKS if a["place"] == "context"],
            [ContextPrecision()],
            judge_at(server, cache=False),
        )
    markers = [request.marker for request in server.requests]

    assert len(set(markers)) == len(markers)
    assert {len(marker) for marker in markers} == {12}
