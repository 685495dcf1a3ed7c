"""Which requests are chosen: a function of trace and purpose, independent of the head sampler."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

from ragmeter.pipeline.sampling import Candidate, place, within

PURPOSES = ("sample", "judge", "label")


def _traces(count, seed=7):
    chance = random.Random(seed)
    return [chance.getrandbits(128) for _ in range(count)]


def _head(trace_id, rate=0.1):
    return TraceIdRatioBased(rate).should_sample(None, trace_id, "r").decision is not Decision.DROP


def _consistent(trace_id, rate=0.1):
    """Keep the high values of the low 56 bits, as consistent probability sampling does."""
    return trace_id & (2**56 - 1) >= round((1 - rate) * 2**56)


@pytest.mark.parametrize("head", [_head, _consistent], ids=["ratio", "consistent"])
@pytest.mark.parametrize("rate", [0.1, 0.05, 0.02])
def test_behind_a_head_sampler_the_share_is_the_rate(head, rate):
    """Choosing by the trace id itself would judge 100, 50 and 20 % behind a 10 % sampler."""
    kept = [trace for trace in _traces(100_000) if head(trace)]
    judged = [trace for trace in kept if within(place("judge", trace, ""), rate)]

    assert 9_000 < len(kept) < 11_000
    assert len(judged) / len(kept) == pytest.approx(rate, rel=0.12)


@pytest.mark.parametrize("first", PURPOSES)
@pytest.mark.parametrize("then", PURPOSES)
def test_a_draw_for_one_purpose_says_nothing_about_another(first, then):
    """The judged are a random share of the sampled, not the first of them."""
    if first == then:
        return
    chosen = [trace for trace in _traces(50_000) if within(place(first, trace, ""), 0.1)]
    again = [trace for trace in chosen if within(place(then, trace, ""), 0.1)]

    assert len(again) / len(chosen) == pytest.approx(0.1, rel=0.15)


@settings(derandomize=True)
@given(
    st.integers(1, 2**128 - 1),
    st.text(),
    st.text(),
    st.sampled_from(PURPOSES),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_the_same_trace_is_chosen_in_every_service_and_shares_nest(trace_id, run_id, other, purpose, a, b):
    """Whatever the run's own id; who is within a share is within every larger one."""
    assert place(purpose, trace_id, run_id) == place(purpose, trace_id, other)
    at = place(purpose, None, run_id)
    assert 0 <= at < 2**64
    assert not within(at, min(a, b)) or within(at, max(a, b))
    assert within(at, 1.0)
    assert not within(at, 0.0)


def test_places_are_the_same_in_every_release():
    """Services of different versions see one trace: a change here must be told."""
    assert place("judge", 0xA1, "") == 273132677212492594
    assert place("sample", None, "run-1") == 12232976005302623299


def test_runs_without_a_trace_are_chosen_by_their_id():
    chosen = sum(Candidate(f"run-{n}", None).within("sample", 0.25) for n in range(20_000))

    assert chosen == pytest.approx(5_000, rel=0.05)
