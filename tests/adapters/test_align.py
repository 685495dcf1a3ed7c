"""`adapters/reading/align.py`: what of a passage stands in a prompt, and what it costs to look."""

import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmeter.adapters.reading.align import MIN_CUT, MIN_MIDDLE, align
from ragmeter.adapters.reading.letters import letters_of

WORDS = [f"{first}{last}" for first in "badefikomul" for last in ("rento", "lim", "vasti", "ko", "ne")]
CHANCE = random.Random(4)


def _text(words, chance=CHANCE):
    return " ".join(f"{chance.choice(WORDS)}{chance.randint(0, 99)}" for _ in range(words))


def _shown(passages, *texts, **options):
    return [(one.passage, one.text) for one in align(passages, [texts], **options)]


def test_what_stands_whole_has_no_text_of_its_own():
    passage = _text(40)

    assert _shown([passage], f"Context: > {passage.upper()}") == [(0, None)]


@settings(derandomize=True, deadline=None)
@given(st.integers(5, 34), st.booleans(), st.integers(0, 1_000))
def test_what_was_cut_at_an_end_is_shown_to_the_word(kept, at_the_end, seed):
    words = _text(40, random.Random(seed)).split()
    part = " ".join(words[:kept] if at_the_end else words[-kept:])
    if len(letters_of(part)) < MIN_CUT:
        return

    assert _shown([" ".join(words)], f"Use this!\n{part}\n\nQuestion: why?") == [(0, part)]


def test_a_cut_through_a_word_shows_the_whole_word():
    words = _text(40).split()

    assert _shown([" ".join(words)], " ".join(words[:20])[:-2]) == [(0, " ".join(words[:20]))]


def test_the_mark_that_ends_a_part_belongs_to_it():
    first, second = f"{_text(20)}.", f"{_text(20)}."

    assert _shown([f"{first} {second}"], f"<doc>{first}</doc>") == [(0, first)]


def test_a_part_from_the_middle_is_shown_from_sixty_letters_on():
    words = _text(60).split()
    enough, little = " ".join(words[20:40]), " ".join(words[20:24])
    assert len(letters_of(little)) < MIN_MIDDLE < len(letters_of(enough))

    assert _shown([" ".join(words)], f"Notes: {enough}. Answer!") == [(0, enough)]
    assert _shown([" ".join(words)], f"Notes: {little}. Answer!") == []


def test_a_text_whose_middle_is_cut_out_shows_both_ends():
    words = _text(60).split()
    first, last = " ".join(words[:15]), " ".join(words[-15:])

    assert _shown([" ".join(words)], f"{first} [...] {last}") == [(0, f"{first} … {last}")]


def test_strips_of_a_passage_are_joined_in_the_passages_order():
    words = _text(90).split()
    one, other = " ".join(words[10:30]), " ".join(words[50:70])

    assert _shown([" ".join(words)], f"- {other}\n- {one}") == [(0, f"{one} … {other}")]


def test_what_was_hardly_changed_is_whole():
    words = _text(80).split()
    changed = [*words[:40], "XX", *words[41:]]

    assert _shown([" ".join(words)], " ".join(changed)) == [(0, None)]


def test_passages_that_repeat_one_word_are_all_found():
    passages = [f"Text {place}. " + "word " * 150 for place in range(4)]

    assert _shown(passages, *passages) == [(place, None) for place in range(4)]


def test_parts_of_chinese_texts_are_found():
    passage = "".join(chr(0x4E00 + CHANCE.randint(0, 3_000)) for _ in range(200))

    assert _shown([passage], f"资料:{passage[60:120]}。问题:?") == [(0, passage[60:120])]


def test_an_overlap_with_a_neighbour_is_claimed_by_who_stands_there_whole():
    words = _text(120).split()
    first, second = " ".join(words[:70]), " ".join(words[40:])

    assert _shown([first, second], first) == [(0, None)]


@pytest.mark.parametrize("way", ["whole", "half", "none", "one head"])
def test_twice_as_much_costs_no_more_than_twice_as_many_steps(way):
    """Counted in calls, those into C among them: from so many passages on no look-up reads the whole prompt."""

    def steps(count):
        chance = random.Random(8)
        head = _text(12, chance)
        passages = [f"{head if way == 'one head' else ''} {_text(30, chance)}" for _ in range(count)]
        shown = {
            "whole": passages,
            "half": [one[: len(one) // 2] for one in passages],
            "none": [_text(30, chance) for _ in passages],
            "one head": [head] * count,
        }[way]
        counted = [0]

        def count_one(*_):
            counted[0] += 1

        before = sys.getprofile()
        sys.setprofile(count_one)
        try:
            align(passages, [["\n\n".join(shown)]])
        finally:
            sys.setprofile(before)
        return counted[0]

    assert steps(400) <= 2.2 * steps(200)


@pytest.mark.parametrize("edge", ["beginning", "end"])
def test_passages_that_begin_or_end_alike_are_each_found(edge):
    """More of them than places of one text are looked at."""
    alike = _text(40)
    both = [(alike, _text(30)) for _ in range(150)]
    passages = [" ".join(one if edge == "beginning" else one[::-1]) for one in both]

    assert _shown(passages, "\n\n".join(reversed(passages))) == [
        (place, None) for place in reversed(range(150))
    ]
