"""Why a request is here, what to do about it, and where its documents went: as the store tells them."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from stored import moved, scored, store

from ragmeter.metrics import RagSample, RetrievalStage, RetrievedContext
from ragmeter.serve.store import SameQuestion, evidence
from ragmeter.serve.store._guidance import advice, cause

NOW_S = 1_760_000_400.0
ON_TOPIC = ["The warranty of a battery is two years."]
MARKED = {
    "all": evidence("How long is the battery's warranty?", "The warranty of a battery is two years.", ON_TOPIC),
    "part": evidence(None, "The warranty of a battery is two years. Penguins dance.", ON_TOPIC),
    "none": evidence("How long is the battery's warranty?", "Penguins dance.", ON_TOPIC),
    "declines": evidence("How long?", "I do not know.", ON_TOPIC, declines=True),
}  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "codes", "marked", "given", "code"),
    [
        ("good", (), "all", {}, "all_carried"),
        ("good", (), "part", {}, "partly_carried"),
        ("bad", ("unsupported_answer",), "none", {}, "nothing_carried"),
        ("bad", ("unsupported_answer", "off_topic_context"), "none", {}, "nothing_carried_off_topic"),
        ("suspect", ("refused_off_topic",), "declines", {"refused": True}, "declined_off_topic"),
        ("bad", ("refused_with_context",), "declines", {"refused": True}, "declined"),
        ("bad", ("answered_without_context",), "none", {"nothing_found": True}, "answered_from_nothing"),
        ("suspect", ("refused_without_context",), None, {"refused": True, "nothing_found": True}, "declined_nothing_found"),
        ("bad", ("unsupported_answer",), None, {}, "verdict"),
        ("bad", ("insufficient_context",), "all", {}, "verdict"),
    ],
)  # fmt: skip
def test_the_texts_say_why(verdict, codes, marked, given, code):
    given = {"refused": False, "nothing_found": False, **given}
    assert cause(verdict, codes, MARKED.get(marked), **given).code == code


def gap(diagnosis):
    return SimpleNamespace(id="0a", diagnosis=diagnosis, n_bad=9, n_requests=12)


WORSE = SameQuestion(n=58, n_bad=17, deployment="2.5.0", deployed_ms=5, n_since=21, n_bad_since=12)
CHANCE = replace(WORSE, n_bad=8, n_bad_since=3)


@pytest.mark.parametrize(
    ("verdict", "codes", "gap_is", "same", "refused", "code"),
    [
        ("good", (), "missing_from_corpus", WORSE, False, "nothing"),
        (None, (), None, WORSE, False, "unknown"),
        ("bad", ("unsupported_answer",), "missing_from_corpus", WORSE, False, "write_document"),
        ("suspect", ("refused_off_topic",), "missing_from_corpus", WORSE, True, "right_to_decline"),
        ("bad", ("off_topic_context",), "unclear", WORSE, False, "write_document"),
        ("bad", ("unsupported_answer",), "unclear", WORSE, False, "changed_prompt"),
        ("bad", ("off_topic_context",), "retriever_misses", WORSE, False, "search_index"),
        ("bad", ("refused_with_context",), "refuses_although_found", WORSE, True, "let_answer"),
        ("bad", ("off_topic_context",), None, WORSE, False, "changed_retrieval"),
        ("bad", ("off_topic_context",), None, CHANCE, False, "search_index"),
        ("bad", ("refused_with_context",), None, CHANCE, True, "let_answer"),
        ("bad", ("unsupported_answer",), None, CHANCE, False, "fix_prompt"),
    ],
)  # fmt: skip
def test_the_first_rule_that_applies_says_what_to_do(verdict, codes, gap_is, same, refused, code):
    found = advice(verdict, codes, gap_is and gap(gap_is), same, refused=refused, nothing_found=False)
    assert found.code == code
    assert (found.gap_bad, found.gap_requests) == (
        (9, 12) if gap_is and code not in ("nothing", "unknown") else (0, 0)
    )


def asked(kind, number, *, version, word, value, question="Is it covered?"):
    """A scored request of a service that had one version and then another."""
    found = [RetrievedContext(text=f"Text {each}.", id=f"d{each}") for each in range(4)]
    reranked = (found[2], found[0], found[1])
    sample = RagSample(
        question=question,
        name="help",
        contexts=[found[2], RetrievedContext(text="Text 0, cut.", id="d0")],
        answer="Text 2.",
        stages=(
            RetrievalStage(name="index", kind="retriever", contexts=tuple(found)),
            RetrievalStage(name="rerank", kind="postprocessor", contexts=reranked, inputs=(0,)),
        ),
    )
    return moved(
        kind,
        f"r{number}",
        NOW_S - 7_200 + number * 60,
        scores={"lexical_groundedness": value},
        word=word,
        codes=("unsupported_answer",) if word == "bad" else (),
        sample=sample,
        resource={"service.name": "shop"},
        framework_metadata={"service.version": version},
    )


def test_what_changed_with_the_last_deployment_and_what_was_usual_before_it():
    (kind,) = scored(1)
    before = [asked(kind, n, version="2.4.1", word="good", value=0.9) for n in range(40)]
    after = [asked(kind, 40 + n, version="2.5.0", word="bad", value=0.1) for n in range(40)]
    with store(clock=lambda: NOW_S) as kept:
        kept.export(before + after)
        view = kept.reader().request("r79")

    assert (view.same.n, view.same.n_bad) == (80, 40)
    assert (view.same.deployment, view.same.n_since, view.same.n_bad_since) == ("2.5.0", 40, 40)
    assert view.same.deployed_ms == int((NOW_S - 7_200 + 40 * 60) * 1e3)
    assert view.advice.code == "changed_prompt"
    (score,) = view.scores
    assert score.usual == (0.9, 0.95)


def test_what_spans_most_of_the_scale_is_not_usual():
    (kind,) = scored(1)
    wide = [asked(kind, n, version="1", word="good", value=n % 11 / 10) for n in range(44)]
    with store(clock=lambda: NOW_S) as kept:
        kept.export(wide)
        view = kept.reader().request("r43")

    assert view.scores[0].usual is None
    assert view.same.deployment == ""


def test_documents_are_known_by_stage_without_a_text():
    (kind,) = scored(1)
    with store(clock=lambda: NOW_S, texts=False) as without, store(clock=lambda: NOW_S) as kept:
        for one in (without, kept):
            one.export([asked(kind, 0, version="1", word="good", value=0.9)])
        views = [one.reader().request("r0") for one in (kept, without)]

    for view in views:
        assert [(one.kind, one.documents) for one in view.stages] == [
            ("retriever", 4),
            ("postprocessor", 3),
            ("prompt", 2),
        ]
        assert [(one.id, one.ranks) for one in view.documents] == [
            ("d2", (3, 1, 1)), ("d0", (1, 2, 2)), ("d1", (2, 3, None)), ("d3", (4, None, None)),
        ]  # fmt: skip
    assert [one.in_answer for one in views[0].documents] == [True, False, False, False]
    assert [one.in_answer for one in views[1].documents] == [None] * 4
    assert views[1].evidence is None
