"""No score changes with the layout of a text: what a line break means, and what it does not."""

import re
import textwrap
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics import (
    AnswerOverlap,
    LexicalContextPrecision,
    LexicalContextRecall,
    LexicalEntityRecall,
    LexicalGroundedness,
    LexicalQueryCoverage,
    MatchingStrategy,
    PrecisionRecallF1,
    RagSample,
    RankedRetrieval,
    Reference,
    RetrievalHealth,
    evaluate,
    sentences,
    tokens,
)
from ragmeter.metrics.text.layout import exact_key, units

ENGLISH = """
    the lighthouse bridge river was built by designed at long-term well-known opened in and of a
    Mara Lund Kolka Riga Dr. U.S. e.g. Latvia 1931 3.5 1,000 metres – - (green) "lamp" keeper's
    harbour, island; which however very tall I The New
""".split()
RUSSIAN = """
    маяк мост построен в и на река Мара Линд Рига Колка — – г. 1931 3,5 км северо-западный ёлка
    «лампа» который, был очень высоким (зелёный) остров; из-за Латвия И. Его
""".split()
SEEDS = st.integers(0, 2**32)
CHINESE = [*"科尔卡灯塔高米一八四年点亮的大桥是绿色罗亚港口，、《》“”", "1931", "GPT"]


def prose(random: Random) -> str:
    """Made-up sentences, in which everything that could be taken for structure stands anywhere."""
    words = random.choice([ENGLISH, RUSSIAN])
    return " ".join(
        f"Then {' '.join(random.choices(words, k=random.randint(5, 24)))} ends{random.choice('...!?')}"
        for _ in range(random.randint(1, 6))
    )


def chinese(random: Random) -> str:
    return "".join(
        "塔" + "".join(random.choices(CHINESE, k=random.randint(12, 40))) + "。"
        for _ in range(random.randint(1, 6))
    )


def texts(random: Random, count: int) -> list[str]:
    make = random.choice([prose, prose, chinese])
    return [make(random) for _ in range(count)]


def wrapped(paragraph: str, width: int) -> str:
    if " " in paragraph:
        return textwrap.fill(paragraph, width, break_long_words=False)
    lines = [""]
    for piece in re.findall("[A-Za-z]+|.", paragraph):  # Chinese is broken anywhere
        if len(lines[-1] + piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def layout(random: Random) -> tuple[int, str, str, str]:
    return (
        random.randint(20, 120),
        random.choice(["", "  ", "    ", "\t", "        "]),
        random.choice(["", "> ", ">> ", "> > "]),
        random.choice(["\n", "\r\n", " \n", "\u2028"]),
    )


def laid_out(paragraphs, how) -> str:
    width, indent, quote, end = how
    text = "\n\n".join(wrapped(paragraph, width) for paragraph in paragraphs)
    lines = textwrap.indent(text, quote + indent, lambda _: True).split("\n")
    return end.join(lines)


METRICS = [
    *(PrecisionRecallF1(strategy).prefixed(f"{strategy.value}_") for strategy in MatchingStrategy),
    RankedRetrieval(),
    RankedRetrieval(MatchingStrategy.EXACT_CHUNK_MATCH).prefixed("exact_"),
    AnswerOverlap(),
    LexicalContextPrecision(),
    LexicalContextRecall(),
    LexicalContextRecall("whole").prefixed("whole_"),
    LexicalEntityRecall(),
    LexicalGroundedness(),
    LexicalQueryCoverage(),
    RetrievalHealth(),
]


def scored(question, contexts, answer, golden):
    sample = RagSample(
        question=question,
        contexts=contexts,
        answer=answer,
        reference=Reference(answer=golden[0], contexts=golden),
    )
    (scores,) = evaluate([sample], METRICS)
    return {name: (score.value, score.status) for name, score in scores.items()}


@given(SEEDS)
def test_sentences_and_tokens_do_not_change_with_the_layout(seed):
    """Wrapped at any width, indented, quoted and with any line end: the same sentences."""
    random = Random(seed)
    paragraphs = texts(random, random.randint(1, 3))
    plain = "\n\n".join(paragraphs)
    moved = laid_out(paragraphs, layout(random))
    assert sentences(moved) == sentences(plain)
    assert tokens(moved) == tokens(plain)
    assert exact_key(moved) == exact_key(plain)
    assert [s for p in paragraphs for s in sentences(p)] == sentences(plain)


@given(SEEDS)
def test_no_score_changes_with_the_layout(seed):
    """Every metric that reads text gives the same value for every layout of every text."""
    random = Random(seed)
    one, two, three, four = texts(random, 4)
    long = f"{three} {four}" if " " in one else three + four
    plain = scored(one, [one, two, long, two], long, [two, three])

    def moved(text):
        return laid_out([text], layout(random))

    again = scored(
        moved(one), [moved(one), moved(two), moved(long), moved(two)], moved(long), [moved(two), moved(three)]
    )
    assert again == plain


@pytest.mark.parametrize("strategy", list(MatchingStrategy))
@pytest.mark.parametrize("width", [20, 40, 72])
@pytest.mark.parametrize(
    "text",
    [
        (
            "The Kolka lighthouse is 21 metres tall. It stands on an island of stone, six "
            "kilometres from the shore. The lamp was first lit in 1884 by the keeper Mara Lund."
        ),
        (
            "Маяк Колка имеет высоту 21 метр. Он стоит на каменном острове в шести километрах от "
            "берега. Лампу впервые зажгла в 1884 г. смотрительница Мара Линд."
        ),
        "科尔卡灯塔高二十一米。它矗立在离岸六公里的石岛上。灯塔于1884年首次点亮，守塔人是玛拉。",
    ],
    ids=["en", "ru", "zh"],
)
def test_wrapped_golden_text_is_found(text, width, strategy):
    """A wrapped chunk holds all the sentences of the golden one, and the other way round."""
    metric = PrecisionRecallF1(strategy)
    for retrieved, golden in ((wrapped(text, width), text), (text, wrapped(text, width))):
        sample = RagSample(question="q", contexts=[retrieved], reference=Reference(contexts=[golden]))
        (scores,) = evaluate([sample], [metric])
        assert [score.value for score in scores.values()] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One line\nof prose goes\non here.", ["One line of prose goes on here."]),
        ("A heading\n\nA paragraph.", ["A heading", "A paragraph."]),
        ("# Kolka Lighthouse\nIt is tall.", ["# Kolka Lighthouse", "It is tall."]),
        ("Kolka Lighthouse\n================\nIt is tall.", ["Kolka Lighthouse", "It is tall."]),
        ("Kolka Lighthouse\nIt is 21 metres tall and made of stone.",
         ["Kolka Lighthouse", "It is 21 metres tall and made of stone."]),
        ("It is tall.\n\n---\n\nIt is old.", ["It is tall.", "It is old."]),
        ("It has:\n- a lamp\n- a keeper\n* a boat", ["It has:", "- a lamp", "- a keeper", "* a boat"]),
        ("It has:\n• a lamp that was lit\n  in 1884\n• a keeper",
         ["It has:", "• a lamp that was lit in 1884", "• a keeper"]),
        ("1. Climb the stairs\n2. Light the lamp\n3. Sleep",
         ["1. Climb the stairs", "2. Light the lamp", "3. Sleep"]),
        ("а) маяк\nб) мост\nв) остров", ["а) маяк", "б) мост", "в) остров"]),
        ("Состав:\n— первый;\n— второй.", ["Состав:", "— первый;", "— второй."]),
        ("一、灯塔\n二、大桥\n三、港口", ["一、灯塔", "二、大桥", "三、港口"]),
        ("（1）灯塔\n（2）大桥", ["（1）灯塔", "（2）大桥"]),
        ("①灯塔\n②大桥", ["1) 灯塔", "2) 大桥"]),
        ("i) lamp\nii) keeper", ["i) lamp", "ii) keeper"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |", ["| a | b |", "| 1 | 2 |", "| 3 | 4 |"]),
        ("name | metres\n--- | ---\nKolka | 21", ["name | metres", "Kolka | 21"]),
        ("name\tmetres\nKolka\t21", ["name metres", "Kolka 21"]),
        ("Run it:\n```python\nx = 1\n\nprint(x)\n```\nDone.", ["Run it:", "x = 1", "print(x)", "Done."]),
        ("Run it:\n\n    pip install kolka\n    kolka demo\n\nDone.",
         ["Run it:", "pip install kolka", "kolka demo", "Done."]),
        ("He wrote:\n> The lamp\n> was lit.\nI agree.", ["He wrote:", "The lamp was lit.", "I agree."]),
        ("Mara Lund\nHarbour 12\nRoja", ["Mara Lund", "Harbour 12", "Roja"]),
        ("Name: Kolka lighthouse\nHeight: 21 metres\nFirst lit: 1884",
         ["Name: Kolka lighthouse", "Height: 21 metres", "First lit: 1884"]),
        ("北京市\n朝阳区\n建国路", ["北京市", "朝阳区", "建国路"]),
        ("The bridge was built by\nMara Lund in Riga", ["The bridge was built by Mara Lund in Riga"]),
        ("Столица России Москва\n— это её крупнейший\nгород.", ["Столица России Москва — это её крупнейший город."]),
        ("It opened in\n1931. It is green.", ["It opened in 1931.", "It is green."]),
        ("灯塔高二十一米，\n点亮于1884年。", ["灯塔高二十一米，点亮于1884年。"]),
        ("a well-\nknown lamp", ["a well-known lamp"]),
        ("The light-\nhouse is tall. A lighthouse!", ["The lighthouse is tall.", "A lighthouse!"]),
        ("an auto\u00ad\nmatic lamp", ["an automatic lamp"]),
        ("pre- and\npost-war, or pre-\nand post-war", ["pre- and post-war, or pre- and post-war"]),
        ("It  is\t tall\xa0and old.", ["It is tall and old."]),
        ("--- * ***\n```\n```\n!!!", []),
        ("particles of size\n> 5 mm are big", ["particles of size > 5 mm are big"]),
        ("    It began there and went on to\nthe shore.\n    The next one began here and\nended.",
         ["It began there and went on to the shore.", "The next one began here and ended."]),
    ],
)  # fmt: skip
def test_what_a_line_break_means(text, expected):
    """Prose goes on; lists, headings, rows, code, addresses and entries do not."""
    assert sentences(text) == expected


def test_units_have_letters_or_digits():
    """A rule, a fence, a frame or a row of dots counts nowhere; a text of them has no unit."""
    assert units("A b\n~~~~\n\n+---+\n|||\n … \n\n★ ★ ★") == ["A b"]
    sample = RagSample(question="q", contexts=["***"], reference=Reference(contexts=["A b c."]))
    (scores,) = evaluate([sample], [PrecisionRecallF1()])
    assert scores["precision"].status == "undefined"


def test_equal_but_for_the_layout():
    """Case, words and marks count; line breaks, indentation and spaces beside Han do not."""
    assert exact_key("使用 LangChain 构建") == exact_key("使用\nLangChain构建")
    assert exact_key("> A  b\r\n> c.") == exact_key("A b c.")
    assert exact_key("e\u0301t\u00e9") == exact_key("\u00e9te\u0301")
    assert exact_key("!!!") != exact_key("!!")
    assert exact_key("A b.") != exact_key("a b.")
    assert exact_key("A b.") != exact_key("A b")
