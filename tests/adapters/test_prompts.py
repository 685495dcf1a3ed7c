"""`adapters/reading/prompts.py`: which retrieved texts were seen is read from what the model was sent."""

import html
import json
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmeter.adapters.reading.align import MIN_CUT
from ragmeter.adapters.reading.prompts import Prompt, prompt_of, seen_in_prompts, shown_in_prompts

EN = (
    'Refunds take five days & are paid to the "original" card.\nShipping <b>is</b> not refunded.',
    "The warranty of a {product} covers two years; it's void when opened.\n\n- Batteries: one year.",
    "Deliveries to islands cost 12.50 EUR and take up to nine working days in winter.",
)
RU = (
    "Возврат денег занимает пять дней.\nСумма поступает на «ту же» карту.",
    "Гарантия на товар действует два года, если корпус не вскрывали.",
)
ZH = ("退款需要五个工作日，款项将退回原支付卡。", "商品保修期为两年，私自拆开后保修失效，请联系客服。")
TEXTS = EN + RU + ZH

TEMPLATES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "whitespace collapsed": lambda text: " ".join(text.split()),
    "line breaks removed": lambda text: text.replace("\n", ""),
    "line breaks as tags": lambda text: text.replace("\n", "<br />\n"),
    "wrapped": lambda text: textwrap.fill(text, 20),
    "indented": lambda text: textwrap.indent(text, "    "),
    "quoted": lambda text: textwrap.indent(text, "> ", lambda _line: True),
    "commented": lambda text: textwrap.indent(text, "# "),
    "JSON": json.dumps,
    "JSON, readable": lambda text: json.dumps({"page_content": text}, ensure_ascii=False),
    "JSON in JSON": lambda text: json.dumps(json.dumps([text])),
    "repr": repr,
    "ascii": ascii,
    "HTML": html.escape,
    "XML": lambda text: f"<doc>{escape(text)}</doc>",
    "XML twice": lambda text: escape(escape(text)),
    "numeric entities": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "XML with numbers": lambda text: text.encode("ascii", "xmlcharrefreplace").decode(),
    "doubled braces": lambda text: text.replace("{", "{{").replace("}", "}}"),
    "small letters": str.lower,
    "cut": lambda text: text[:-8],
    "cut, with dots": lambda text: text[:-8] + "...",
    "cut at the beginning": lambda text: "..." + text[8:],
}


def stuffed(parts: Sequence[str], question: str = "How long do refunds take?") -> list[Prompt]:
    text = "Answer by the context.\n\n" + "\n\n".join(parts) + f"\n\nQuestion: {question}"
    return [Prompt([text])]


@pytest.mark.parametrize("template", TEMPLATES)
def test_texts_are_found_after_what_templates_do(template: str) -> None:
    change = TEMPLATES[template]
    chosen = [4, 0, 6, 1]
    prompts = stuffed([change(TEXTS[index]) for index in chosen])
    assert seen_in_prompts(TEXTS, prompts) == tuple(chosen)


def test_an_escaped_text_is_found_in_what_was_escaped_with_all_around_it() -> None:
    body = json.dumps({"context": [TEXTS[3], TEXTS[5]], "question": "?"})
    assert seen_in_prompts(TEXTS, [Prompt([body])]) == (3, 5)


def test_backslashes_and_entities_of_the_text_itself_stay_its_own() -> None:
    texts = [
        r"Copy C:\new\table\backup to \\server\users before you go.",
        "AT&amp;T sells &lt;old&gt; telephones & cables; 10&20 of them are left.",
    ]
    for name, change in TEMPLATES.items():
        if "entities" not in name:
            seen = seen_in_prompts(texts, stuffed([change(texts[1]), change(texts[0])]))
            assert seen == (1, 0), name


def test_long_texts_are_read_in_parts() -> None:
    """Cut at a space, or within a word where there is none."""
    texts = ["word " * 40_000 + "end of the first", "б" * 130_000, "\n".join(["line"] * 60_000)]
    for shift in range(7):
        shown = ["-" * shift + json.dumps(texts[2]), texts[1], html.escape("&".join(texts[0].split()))]
        assert seen_in_prompts(texts, [Prompt([part]) for part in shown]) == (2, 1, 0)


def test_prompts_beyond_all_measure_are_not_compared() -> None:
    assert seen_in_prompts(EN, stuffed([*EN, "a " * 2_000_000])) is None


def test_surrogate_pairs_are_one_character() -> None:
    text = "𠀀𠀁𠀂 is written with rare characters of the second plane 𠀃𠀄"
    other = "𠀀𠀁𠀅 is written with rare characters of the second plane 𠀃𠀄"
    assert seen_in_prompts([other, text], stuffed([json.dumps(text)])) == (1,)


def test_no_more_copies_than_the_prompt_shows() -> None:
    candidates = [EN[0], EN[1], EN[0], EN[0]]
    assert seen_in_prompts(candidates, stuffed([EN[1], EN[0]])) == (1, 0)
    assert seen_in_prompts(candidates, stuffed([EN[0], EN[1], EN[0]])) == (0, 1, 2)


def test_never_more_copies_than_were_retrieved() -> None:
    assert seen_in_prompts([EN[0]], stuffed([EN[0], EN[0]])) == (0,)


def test_of_more_places_than_copies_the_last_ones_tell_the_order() -> None:
    """A document that an earlier turn of a plain-text history shows, too."""
    assert seen_in_prompts(EN[:2], stuffed([EN[0], "Human: and now?", EN[1], EN[0]])) == (1, 0)


def test_nothing_found_is_no_answer() -> None:
    assert seen_in_prompts(TEXTS, stuffed(["Money comes back within a week."])) is None
    assert seen_in_prompts(TEXTS, []) is None
    assert seen_in_prompts([], stuffed(EN)) is None
    assert seen_in_prompts(["", "***"], stuffed(["*** ***"])) is None


def test_a_part_of_another_text_is_not_a_copy_of_its_own() -> None:
    part = "Shipping is free of charge for members."
    whole = f"Members pay nothing. {part} Others pay five euros."
    assert seen_in_prompts([part, whole], stuffed([whole])) == (1,)
    assert seen_in_prompts([part, whole], stuffed([part, whole])) == (0, 1)
    assert seen_in_prompts([part, whole], stuffed([part])) == (0,)


def test_neighbours_that_overlap_are_told_apart() -> None:
    """Splitters repeat the end of a chunk at the beginning of the next one."""
    shared = "The second paragraph is repeated so that no sentence loses its context. "
    first = "The first paragraph tells how an order is placed. " + shared
    second = shared + "The third paragraph tells how an order is cancelled."
    assert seen_in_prompts([first, second], stuffed([first])) == (0,)
    assert seen_in_prompts([first, second], stuffed([second])) == (1,)
    assert seen_in_prompts([first, second], stuffed([second, first])) == (1, 0)


def test_chunks_with_one_heading_are_told_apart_when_cut() -> None:
    heading = "ACME employee handbook, edition of 2024, chapter seven: "
    texts = [heading + "travel is booked by the office only, six weeks ahead.",
             heading + "leave is asked for in writing, and granted by the line manager.",
             heading + "laptops are returned on the last day of work at the latest."]  # fmt: skip
    cut = [text[:85] for text in texts]
    assert seen_in_prompts(texts, stuffed([cut[2], cut[0]])) == (2, 0)
    assert seen_in_prompts(texts, stuffed([cut[1]])) == (1,)


def test_a_cut_must_leave_a_reasonable_length() -> None:
    text = "abcdefghij klmnopqrst uvwxyzabcd efghijklmn opqrstuvwx yz and so on until the end"
    letters = [place for place, letter in enumerate(text) if letter.isalnum()]
    enough = text[: letters[MIN_CUT - 1] + 1]
    assert seen_in_prompts([text], stuffed([enough])) == (0,)
    assert seen_in_prompts([text], stuffed([enough[:-1]])) is None


@pytest.mark.parametrize("short", ["Yes", "42", "Overview", "WHO", "退款"])
def test_a_short_text_is_seen_only_beside_others(short: str) -> None:
    instructions = f"{short} is a possible answer. See {short}: the rules. " + "Be brief. " * 20
    assert seen_in_prompts([short], [Prompt([instructions + EN[2]])]) is None
    assert seen_in_prompts([short, EN[2]], [Prompt([instructions + EN[2]])]) == (1,)
    beside = [Prompt([instructions + f"\n\n{short}\n\n{EN[2]}"])]
    assert seen_in_prompts([short, EN[2]], beside) == (0, 1)
    between = [Prompt([f"{EN[1]}\n[2] {short} (faq.md, page 3, seen 2024)\n{EN[2]}\n{instructions}"])]
    assert seen_in_prompts([EN[1], EN[2], short], between) == (0, 2, 1)


def test_a_short_text_is_not_seen_within_a_word() -> None:
    assert seen_in_prompts(["cat", EN[1]], stuffed([EN[1], "concatenate"])) == (1,)
    assert seen_in_prompts(["costs 5 euros"], stuffed(["It costs 5 eurosomething"])) is None


def test_signs_decide_between_texts_of_equal_letters() -> None:
    texts = ["It is 5 degrees in Oslo today.", "It is -5 degrees in Oslo today."]
    for index in (0, 1):
        assert seen_in_prompts(texts, stuffed([texts[index]])) == (index,)
        assert seen_in_prompts(texts, stuffed([json.dumps(texts[index])])) == (index,)


def test_what_the_user_asked_is_no_context() -> None:
    question = "Tell me, please: how do I reset my password?"
    chunk = "How do I reset my password?"
    part = "how do I reset my password"
    prompts = stuffed([EN[0]], question)
    assert seen_beside(question, [part, EN[0]], prompts) == (1,)
    assert seen_beside(chunk, [chunk, EN[0]], stuffed([EN[0]], chunk)) == (1,)
    assert seen_beside(chunk, [chunk, EN[0]], stuffed([EN[0], chunk], chunk)) == (1, 0)


def seen_beside(question: str | None, texts: list[str], prompts: list[Prompt]) -> tuple[int, ...]:
    return tuple(one.passage for one in shown_in_prompts(texts, prompts, question) or ())


def test_several_calls_add_up() -> None:
    """Map-reduce asks once per document; refine shows them one after the other."""
    calls = [prompt for text in (EN[2], EN[0], EN[0]) for prompt in stuffed([text])]
    assert seen_in_prompts([EN[0], EN[1], EN[2], EN[0]], calls) == (2, 0, 3)


def test_a_call_that_shows_the_same_again_adds_nothing() -> None:
    """A draft and its revision; the state had been rid of the duplicates before."""
    draft, revision = stuffed([EN[0], EN[1]]), stuffed(["My draft", EN[1], EN[0], EN[2]])
    assert seen_in_prompts([EN[0], EN[0], EN[1], EN[2]], [*draft, *revision]) == (2, 0, 3)


def test_batches_of_documents_add_up() -> None:
    calls = [*stuffed([EN[0], EN[1]]), *stuffed([EN[0], EN[2]])]
    assert seen_in_prompts([EN[0], EN[0], EN[1], EN[2]], calls) == (0, 2, 1, 3)


def test_a_text_whose_middle_is_cut_out_is_one_copy() -> None:
    text = EN[0] + " " + EN[1] + " " + EN[2]
    cut = text[:70] + " [...] " + text[-70:]
    assert seen_in_prompts([text, text], stuffed([cut])) == (0,)


def test_a_conversation_is_this_turn_and_what_was_before() -> None:
    messages = [
        ("system", "Be brief."), ("human", "first"), ("ai", "said"), ("tool", "old"),
        ("human", "context"), ("human", "second"), ("ai", "calls"), ("tool", "a"), ("tool", "b"),
    ]  # fmt: skip
    prompt = prompt_of(messages)
    assert list(prompt.texts) == ["Be brief.", "context", "second", "a", "b"]
    assert list(prompt.history) == ["first", "said", "old", "calls"]


def test_a_document_of_an_earlier_turn_is_not_seen_again() -> None:
    """Retrieved again, filtered out this time: that the history has it says nothing."""
    old = [("user", "first?"), ("tool", EN[0]), ("assistant", EN[2])]
    prompt = prompt_of([*old, ("user", "second?"), ("tool", EN[1])])
    assert seen_in_prompts(EN, [prompt]) == (1,)


def test_documents_that_stand_in_earlier_messages_only_are_found_there() -> None:
    prompt = prompt_of([("human", EN[0]), ("ai", "Understood."), ("human", "And refunds?")])
    assert seen_in_prompts(EN, [prompt]) == (0,)


SENTENCES = st.lists(
    st.text(st.sampled_from("abcdeшжящ退款保修 .,<>&\"'\\{}\n"), min_size=1, max_size=60), max_size=4
).map("".join)


@settings(derandomize=True, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(range(len(TEXTS))), SENTENCES), max_size=6),
    st.lists(st.integers(0, 9), max_size=8),
    st.sampled_from([name for name in TEMPLATES if "cut" not in name]),
)
def test_whatever_is_chosen_and_however_it_is_written_is_what_was_seen(
    parts: list[tuple[int, str]], order: list[int], template: str
) -> None:
    """Texts of many shapes, chosen in any order, once each."""
    candidates = [f"Document {'x' * place} of {TEXTS[base]} {tail} end {'y' * place}."
                  for place, (base, tail) in enumerate(parts)]  # fmt: skip
    chosen = [place for place in dict.fromkeys(order) if place < len(candidates)]
    prompts = stuffed([TEMPLATES[template](candidates[place]) for place in chosen])
    assert seen_in_prompts(candidates, prompts) == (tuple(chosen) or None)


def brute_force(candidates: Sequence[str], prompt: str) -> tuple[int, ...] | None:
    """Plain texts of letters: longest first, from the left, no place twice; the last copies count."""
    taken = [False] * len(prompt)
    found: list[tuple[int, str]] = []
    for text in sorted(set(candidates), key=lambda text: (-len(text), candidates.index(text))):
        places = []
        place = 0
        while place + len(text) <= len(prompt):
            span = slice(place, place + len(text))
            if prompt[span] == text and not any(taken[span]):
                places.append(place)
                taken[span] = [True] * len(text)
                place += len(text)
            else:
                place += 1
        found += [(place, text) for place in places[-candidates.count(text) :]]
    waiting = {text: iter([i for i, one in enumerate(candidates) if one == text]) for text in candidates}
    return tuple(next(waiting[text]) for _, text in sorted(found)) or None


@settings(derandomize=True, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("ab"), min_size=24, max_size=31), min_size=1, max_size=5),
    st.lists(st.one_of(st.integers(0, 4), st.text(st.sampled_from("ab"), max_size=8)), max_size=12),
)
def test_claims_are_those_of_a_brute_force_search(texts: list[str], recipe: list[int | str]) -> None:
    """Texts that repeat and overlap each other, none long enough to be recognised when cut."""
    candidates = [*texts, *texts[:2]]
    prompt = "".join(part if isinstance(part, str) else texts[part % len(texts)] for part in recipe)
    assert seen_in_prompts(candidates, [Prompt([prompt])]) == brute_force(candidates, prompt)


@settings(derandomize=True, deadline=None)
@given(st.lists(SENTENCES, max_size=6), st.lists(SENTENCES, max_size=4), st.none() | SENTENCES)
def test_copies_never_exceed_what_was_retrieved(
    candidates: list[str], texts: list[str], question: str | None
) -> None:
    seen = seen_beside(question, candidates, [Prompt(texts)])
    assert max(Counter(seen).values(), default=1) == 1
    assert set(seen) <= set(range(len(candidates)))


@pytest.mark.parametrize(
    "prompt",
    ["ab" * 250_000, "a" * 500_000, "\\" * 500_000, "&amp;" * 100_000, "a " * 250_000],
    ids=["alternating", "one letter", "backslashes", "entities", "words"],
)
def test_hostile_prompts_cost_no_more_than_a_moment(prompt: str) -> None:
    """Work grows with the prompt, not with its square: that would take hours here, not seconds."""
    candidates = ["a" * length for length in range(1, 100)] + ["ab" * 40 + "c"] * 3
    started = time.process_time()
    seen_in_prompts(candidates, [Prompt([prompt])])
    assert time.process_time() - started < 60
