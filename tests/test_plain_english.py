"""What people read is plain English: sentences one can follow, words one says, and links that lead somewhere.

Read are the README, the guide, the decisions, the folders' READMEs and the project's own pages; not the
changelog, which is history. Code, tables and headings have no sentences; words and links are looked at
in tables, too.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(ROOT.glob("[!.]*/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINKING = [*PAGES, ROOT / "CHANGELOG.md"]
LONGEST = 40
"""Words from one of ``. ; : ! ?`` to the next, what stands in brackets aside."""

SAY = {
    "additionally": "also",
    "anew": "again",
    "anybody": "anyone",
    "as well as": "and",
    "at this point in time": "now",
    "basically": "",
    "commence": "begin",
    "cutting-edge": "what it does",
    "due to the fact that": "because",
    "e.g.": "for example",
    "etc.": "the others, or nothing",
    "everybody": "everyone",
    "facilitate": "help",
    "furthermore": "and, or a new sentence",
    "i.e.": "that is",
    "in order to": "to",
    "in terms of": "by, or in",
    "it should be noted that": "",
    "leverage": "use",
    "mend": "fix",
    "moreover": "and, or a new sentence",
    "needless to say": "",
    "nobody": "no one",
    "obviously": "",
    "of course": "",
    "of ours": "our own, or ragmeter's",
    "out of the box": "what needs no setting",
    "passed over": "ignored, or skipped",
    "please": "",
    "powerful": "what it does",
    "prior to": "before",
    "really": "",
    "robust": "what it withstands",
    "sanity check": "check",
    "somebody": "someone",
    "seamless": "what it does",
    "simply": "",
    "state of the art": "beside what it was measured",
    "subsequently": "then",
    "tell apart": "separate, or distinguish",
    "tell whether": "whether",
    "thereof": "of it",
    "told apart": "separate",
    "thus": "so",
    "upon": "on",
    "utilise": "use",
    "utilize": "use",
    "whilst": "while",
    "whoever": "anyone who, or name who",
    "world-class": "what it does",
}
"""A word that is not used, and what to say instead; empty: leave it out."""

_CODE = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]*)\)")
_INLINE = re.compile(r"``.*?``|`[^`]*`", re.DOTALL)
_BRACKETS = re.compile(r"\([^()]*\)")
_ITEM = re.compile(r"\n\s*\n|\n\s*(?:[-*>]|\d+\.)\s+")
_STOP = re.compile(r"(?<=[.!?;:])[\"')*]*\s+")


def _words_of(page):
    """Return a page without code and addresses, which are not English."""
    text = _INLINE.sub("X", _COMMENT.sub("", _CODE.sub("", page)))
    return _LINK.sub(lambda found: found[2], text)


def _sentences(page):
    """Return what stands between two marks of punctuation, without tables, headings and brackets."""
    text = re.sub(r"^ *(\||#).*$", "\n", _words_of(page), flags=re.MULTILINE)
    for _ in range(3):
        text = _BRACKETS.sub("", text)
    for part in _ITEM.split(text):
        yield from _STOP.split(" ".join(part.split()))


def _too_long(page):
    return [
        f"{len(words)} words: {sentence}"
        for sentence in _sentences(page)
        if len(words := re.findall(r"[\w'’-]+", sentence)) > LONGEST
    ]


_NOT_SAID = re.compile(
    r"(?<![\w-])(?:" + "|".join(map(re.escape, sorted(SAY, key=len, reverse=True))) + r")(?![\w-])",
    re.IGNORECASE,
)


def _not_said(page):
    text = re.sub(r'"[^"]*"', "", " ".join(_words_of(page).split()))
    return [f"{found[0]!r}: say {SAY[found[0].lower()] or 'nothing'!r}" for found in _NOT_SAID.finditer(text)]


def _twice(page):
    text = re.sub(r"[ \t]+", " ", _words_of(page))
    found = re.finditer(r"\b([a-z]{2,})[ \n]\1\b", text, re.IGNORECASE)
    return [one[0] for one in found if one[1].lower() not in ("had", "that")]


def _anchors(page):
    """Return the anchors of a page's headings that are the same on GitHub and on the site."""
    found = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", page))
    for heading in re.findall(r"^#+ (.+)$", _CODE.sub("", page), re.MULTILINE):
        plain = _LINK.sub(lambda one: one[2], heading).replace("`", "").replace("*", "")
        anchor = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        if anchor == re.sub(r"-+", "-", anchor).strip("-"):
            found.add(anchor)
    return found


def _dead_links(path, page):
    dead = []
    for _, _, target in _LINK.findall(_INLINE.sub("X", _CODE.sub("", page))):
        where, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", where):
            continue
        file = path.parent / where if where else path
        if not file.exists():
            dead.append(f"{target}: no such file")
        elif anchor and file.suffix == ".md" and anchor not in _anchors(file.read_text("utf-8")):
            dead.append(f"{target}: no such heading")
    return dead


def _faults(pages, look):
    """Return what `look` finds on each page that has any."""
    found = {path.relative_to(ROOT).as_posix(): look(path, path.read_text("utf-8")) for path in pages}
    return {name: faults for name, faults in found.items() if faults}


def test_sentences_can_be_followed():
    """At most 40 words without a mark of punctuation that ends a thought."""
    assert _faults(PAGES, lambda _, page: _too_long(page)) == {}


def test_words_are_those_that_people_say():
    """None of the list, and none twice in a row."""
    assert _faults(PAGES, lambda _, page: _not_said(page) + _twice(page)) == {}


def test_links_lead_somewhere():
    """Every relative link names a file that is there, and every anchor a heading, here and on the site."""
    assert _faults(LINKING, _dead_links) == {}


def test_what_is_wrong_is_found(tmp_path):
    """The tests above can fail: each rule, on a page that breaks it, and not on code."""
    long = "A sentence " + "goes on and on " * 10 + "without an end."
    code = f"```text\n{long} utilize the the [x](none.md)\n```\n"
    other = tmp_path / "other.md"
    other.write_text("# A `heading`, with *words*\n\n# An option: `--spool`\n", "utf-8")
    page = tmp_path / "page.md"

    assert [one.split(":")[0] for one in _too_long(f"# {long}\n\nShort. {long}\n\n{code}")] == ["45 words"]
    assert _too_long(long.replace("on and on", "on; and on")) == []
    assert _not_said(f"We utilize it in\norder to win; `just` so.\n{code}") == [
        "'utilize': say 'use'",
        "'in order to': say 'to'",
    ]
    assert _twice(f"Paris in the\nthe spring. {code}") == ["the\nthe"]
    right = "[a](other.md#a-heading-with-words) [c](https://example.org/#x) "
    assert _dead_links(page, right + code) == []
    page.write_text("# Here\n", "utf-8")
    assert _dead_links(page, "[a](#here) [b](#there) [c](other.md#an-option---spool) [d](none.md)") == [
        "#there: no such heading",
        "other.md#an-option---spool: no such heading",
        "none.md: no such file",
    ]
