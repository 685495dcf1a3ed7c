"""One text, however it is encoded and laid out: no score depends on what no reader sees."""

import html
import json
import re
import unicodedata
from string import ascii_letters

import pytest

from ragmeter.metrics import RagSample, Reference, RetrievedContext, evaluate, resolve_metrics
from ragmeter.metrics.text import analyse
from ragmeter.metrics.text.cleaning import clean
from ragmeter.metrics.text.named_entities import named_entities

METRICS = (
    "precision_recall_f1 answer_overlap lexical_context_precision lexical_context_recall "
    "lexical_entity_recall lexical_groundedness lexical_context_relevance "
    "lexical_context_utilization lexical_query_coverage refusal retrieval_health citations support fact_conflict"
).split()

SAMPLES = {
    "en": RagSample(
        question="When was the Eiffel Tower finished, and how tall is it?",
        contexts=[
            "The Eiffel Tower was finished in March 1889. Gustave Eiffel's company built it for the fair.",
            "It is 330 metres tall and weighs 10,100 tonnes. The café René opened later.",
            "The harbour of Kolka has a lighthouse. It was lit in 1884, they say.",
        ],
        answer="The Eiffel Tower was finished in 1889 [1]. It is 330 metres tall [2]. "
        "I don't know who lit the lighthouse.",
        reference=Reference(
            answer="Gustave Eiffel finished it in March 1889. The Eiffel Tower is 330 metres tall.",
            contexts=["It is 330 metres tall and weighs 10,100 tonnes. The café René opened later."],
        ),
    ),
    "ru": RagSample(
        question="Когда построил башню Гюстав Эйфель и какой она высоты?",
        contexts=[
            "Гюстав Эйфель построил башню в 1889 году. Её ёлка стояла в Париже, рядом жил Сергей Йовкин.",
            "Высота башни — 330 метров, масса — 10 100 тонн. Позже открылось кафе.",
            "В гавани Колки стоит маяк. Его зажгли в 1884 году.",
        ],
        answer="Гюстав Эйфель построил башню в 1889 году [1]. Её высота 330 метров [2]. "
        "К сожалению, я не знаю, кто зажёг маяк.",
        reference=Reference(
            answer="Башню построил Гюстав Эйфель в 1889 году, рядом жил Сергей Йовкин. Высота 330 метров.",
            contexts=["Высота башни — 330 метров, масса — 10 100 тонн. Позже открылось кафе."],
        ),
    ),
    "zh": RagSample(
        question="科尔卡灯塔是什么时候点亮的？有多高？",
        contexts=[
            "科尔卡灯塔于1884年点亮。它由古斯塔夫·埃菲尔设计，位于拉脱维亚。",
            "灯塔高21米，重10100吨。后来有了咖啡馆。",
            "北京大学位于北京。港口在南边。",
        ],
        answer="科尔卡灯塔于1884年点亮[1]。灯塔高21米[2]。抱歉，我不知道是谁设计的。",
        reference=Reference(
            answer="科尔卡灯塔于1884年点亮，由古斯塔夫·埃菲尔设计。高21米。",
            contexts=["灯塔高21米，重10100吨。后来有了咖啡馆。"],
        ),
    ),
}


def _inside_words(mark):
    return lambda text: re.sub(r"(?<=[^\W\d_])(?=[^\W\d_])", mark, text)


def _between_words(mark):
    return lambda text: text.replace(" ", mark)


def _digits(zero):
    return lambda text: re.sub("[0-9]", lambda one: chr(zero + int(one[0])), text)


def _wrapped(text):
    """Break lines at 40 columns, as prose is wrapped."""
    lines, line = [], ""
    for word in re.findall(r"[\u3000-\uffef]|[^\u3000-\uffef\s]+|\s", text):
        if len(line) + len(word) > 40:
            lines.append(line.rstrip())
            line = "" if word.isspace() else word
        else:
            line += word
    return "\n".join([*lines, line])


def _wide(text):
    return re.sub("[!-~]", lambda one: chr(ord(one[0]) + 0xFEE0), text).replace(" ", "\u3000")


def _wide_letters(text):
    return re.sub("[0-9A-Za-z]", lambda one: chr(ord(one[0]) + 0xFEE0), text)


def _bold(text):
    return re.sub("[A-Za-z]", lambda one: chr(0x1D400 + ascii_letters.swapcase().index(one[0])), text)


def _emphasis(mark):
    return lambda text: re.sub(r"\b([^\W\d_]{4,})\b", rf"{mark}\1{mark}", text, count=3)


def _elements(text):
    bold = re.sub(r"([^\W\d_]{5,})", r"<b class='x'>\1</b>", text, count=2)
    return f"<div><p>{bold}</p><!-- none --></div>"


DRESSINGS = {
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "soft hyphens": _inside_words("\u00ad"),
    "zero-width spaces": _inside_words("\u200b"),
    "word joiners": _inside_words("\u2060"),
    "zero-width joiners": _inside_words("\u200d"),
    "byte-order mark": lambda text: f"\ufeff{text}",
    "marks of direction": lambda text: f"\u2067{text}\u2069\u200e",
    "variation selectors": _inside_words("\ufe0e"),
    "stress": lambda text: re.sub("([аоэыу])", "\\1\u0301", text),
    "wide letters": _wide_letters,
    "bold letters of mathematics": _bold,
    "ligatures": lambda text: text.replace("ff", "\ufb00").replace("fi", "\ufb01"),
    "wrapped": _wrapped,
    "wrapped by Windows": lambda text: _wrapped(text).replace("\n", "\r\n"),
    "typographic quotes": lambda text: text.replace("'", "’"),
    "letter apostrophes": lambda text: text.replace("'", "\u02bc"),
    "heading": lambda text: f"### {text}",
    "quotation": lambda text: f"> {text}",
    "no-break spaces": _between_words("\u00a0"),
    "narrow spaces": _between_words("\u202f"),
    "several spaces": _between_words("  "),
    "entities": lambda text: html.escape(text).replace(" ", "&nbsp;", 3),
    "a comment": lambda text: text.replace(". ", ". <!-- a note --> ", 1),
    "escapes of JSON": json.dumps,
    "fonts of LaTeX": lambda text: re.sub(r"\b([^\W_]{4,})\b", r"\\textbf{\1}", text, count=3),
    "entities escaped twice": lambda text: html.escape(html.escape(text)),
    "numeric entities": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "soft hyphens as entities": _inside_words("&shy;"),
    "elements": _elements,
    "Arabic digits": _digits(0x660),
    "Persian digits": _digits(0x6F0),
    "Devanagari digits": _digits(0x966),
    "wide digits": _digits(0xFF10),
    "strong": _emphasis("**"),
    "emphasis": _emphasis("_"),
    "emphasis by stars": _emphasis("*"),
    "strong by underscores": _emphasis("__"),
    "strong and emphasis": _emphasis("***"),
    "struck out": _emphasis("~~"),
    "highlighted": _emphasis("=="),
    "strong inside words": lambda text: re.sub(r"\b([^\W\d_]{3})(?=[^\W\d_]{2})", r"**\1**", text, count=2),
    "links": lambda text: re.sub(r"\b([^\W\d_]{4,})\b", r"[\1](https://example.org/a_(b)?x=1)", text, count=2),
    "controls": lambda text: _inside_words("\x08")(text).replace(" ", " \0"),
    "fillers": _inside_words("\u3164"),
    "raised numbers of notes": lambda text: re.sub(r"([^\W\d_]{4,})\.(?= )", r"\1.¹", text, count=1),
    "dagger": lambda text: re.sub(r"([^\W\d_]{4,})\.", r"\1†.", text, count=1),
    "escapes": lambda text: text.replace(". ", r"\. "),
    "row of a table": lambda text: f"| {text} |",
    "emoji": lambda text: f"✅ {text} 😀",
    "quotes": lambda text: f"«{text}»",
    "fence": lambda text: f"```text\n{text}\n```",
    "letters in circles": lambda text: re.sub(
        "[A-Za-z]", lambda one: chr(0x24B6 + ascii_letters.swapcase().index(one[0])), text
    ),
    "primes": lambda text: text.replace("'", "′"),
    "hyphenated": lambda text: re.sub(r"\b(Eif|fini|Эйф|баш)(fel|shed|ель|ню)", "\\1-\n\\2", text),
    "no space after a stop": lambda text: re.sub(r"(?<=[1-2]\])\. (?=[A-ZА-ЯЁ])", ".", text),
    "spaced out": lambda text: re.sub("(?<=[\u4e00-\u9fff])(?=[\u4e00-\u9fff])", " ", text),
    "dots of katakana": lambda text: text.replace("·", "・"),
    "colours of a terminal": lambda text: f"\x1b[1;31m{text}\x1b[0m",
    "breaks within words": lambda text: re.sub(r"([^\W\d_]{3})(?=[^\W\d_]{3})", r"\1<wbr>", text, count=2),
    "raised notes of HTML": lambda text: re.sub(r"([^\W\d_]{4,})\.(?= )", r"\1.<sup>1</sup>", text, count=1),
    "an image": lambda text: f"![](https://example.org/a.png) {text}",
    "bullet of a symbol font": lambda text: f"\uf0b7 {text}",
    "radicals": lambda text: text.replace("高", "⾼"),
}
CASES = [(name, language) for name in DRESSINGS for language in SAMPLES]
# Chinese keeps its wide punctuation: a full stop of half the width is another mark there.
DRESSINGS["full width"] = _wide
CASES += [("full width", "en"), ("full width", "ru")]
SIDES = ("question answer contexts reference", "contexts", "answer reference", "question")


def dressed(sample, change, side):
    """Return a sample with the texts of one side changed."""
    reference = Reference(
        answer=change(sample.reference.answer), contexts=[change(one) for one in sample.reference.contexts]
    )
    changed = {
        "question": change(sample.question),
        "answer": change(sample.answer),
        "contexts": [RetrievedContext(text=change(one.text)) for one in sample.contexts],
        "reference": reference,
    }
    return sample.model_copy(update={name: changed[name] for name in side.split()})


def values(sample):
    (scores,) = evaluate([sample], resolve_metrics(METRICS))
    return {name: (score.value, score.status) for name, score in scores.items()}


@pytest.mark.parametrize(("name", "language"), CASES)
def test_no_score_sees_how_a_text_is_dressed(name, language):
    """Every metric, in three languages, with all texts or only one side of them dressed."""
    sample, change = SAMPLES[language], DRESSINGS[name]
    for side in SIDES:
        assert values(dressed(sample, change, side)) == values(sample), side
    answer = sample.reference.answer
    assert named_entities(change(answer)) == named_entities(answer)


def test_the_same_decomposed_text_has_the_same_names():
    """The finder of names cuts at no combining mark, on neither side."""
    text = unicodedata.normalize("NFD", "Гюстав Эйфель и Сергей Йовкин построили башню.")
    sample = RagSample(question="?", contexts=[text], reference=Reference(answer=text))
    assert values(sample)["lexical_entity_recall"] == (1.0, "ok")
    assert named_entities(text) == ("Гюстав Эйфель", "Сергей Йовкин")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What does the <br> tag do?", None),
        ("Write `<b>bold</b>` for bold.", None),
        ("Write `<!-- a note -->` for one.", None),
        ("List<String> a; if x <a and b> c", None),
        ("AT&T &notit; R&D; &nbsp", None),
        ("One.<br>Two.<br/>Three", "One.\nTwo.\nThree"),
        ("<td>a</td><td>b</td>", " a  b "),
        ("<p>one</p><P CLASS=x>two</P>", "\n\none\n\n\n\ntwo\n\n"),
        ("a<script>var x = 1;</script><i>b</i>", "ab"),
        ("&amp;amp;lt;b&gt; &#x41;&#1041;", "<b> AБ"),
        ("５％ of ＡＢＣ，中文。Ｑ！", "5% of ABC，中文。Q！"),
        ("１，０００．５元", "1,000.5元"),
        ("automa\u00ad\ntic x\u00ad", "automa\u00ad\ntic x"),
        ("ภาษา\u200bไทย ab\u200bc", "ภาษา\u200bไทย abc"),
        ("е\u0308лка за\u0301мок и\u00ad\u0306од", "ёлка замок йод"),
        ("1\ufe0f\u20e3 👩\u200d💻 ٢٥٫٥٪", "1) 👩💻 25.5%"),
        ("①灯塔 ⑵ ⒊ ❹", "1) 灯塔 2) 3) 4) "),
        ("\u1100\u1161\u11a8 ﬁne 𝐓ea", "각 fine Tea"),
        ('[a b](x.md) [1](https://a.b) ![c](/d "e") f[0](g) [h](i)', "a b [1] c f[0](g) [h](i)"),
        ("word¹ stop.² 10³ m² 面积² don`t `x`", "word stop. 10^³ m² 面积² don’t `x`"),
        ("10<sup>-3</sup> m<sup>2</sup> 1½ №5 ￥7", "10^⁻³ m² 1 ½ № 5 ¥7"),
        ("<ruby>厦门<rp>(</rp><rt>Xiamen</rt><rp>)</rp></ruby>", "厦门"),
        ("你 好 吗 我 很好 。", "你好吗我很好。"),
        ("北京 上海 广州", None),
    ],
)
def test_what_is_cleaned(text, expected):
    """HTML is layout only in a text that has elements; the rest is what no reader sees."""
    assert clean(text) == (text if expected is None else expected)


def test_cleaning_takes_time_linear_in_the_text():
    """Openings without an end, escapes of escapes, marks of emphasis that nothing closes."""
    for piece in ("<!--", "<b ", "&amp;", "<script>", "*a ", "_a", "</b", "a\u0301", "\u00ad\u200b", "<p"):
        known = analyse(piece * 60_000 + "<b>a</b>")
        assert known.sentences is not None


def test_emphasis_inside_an_asking_word_is_no_part_of_the_question():
    plain, strong = (
        RagSample(question=one, contexts=["费用可以退还。"], answer="可以。")
        for one in ("费用可以退吗？", "**费用可**以退吗？")
    )
    assert values(strong) == values(plain)
