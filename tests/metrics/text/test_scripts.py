"""In which script a text is written."""

import pytest

from ragmeter.metrics.text import analyse
from ragmeter.metrics.text.scripts import script_of, share_a_script


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("", None),
        ("1884 — 21!", None),
        ("A lighthouse", "latin"),
        ("Élan – “naïve”…", "latin"),
        ("Маяк", "cyrillic"),
        ("灯塔", "han"),
        ("灯台はどこにありますか", "han"),
        ("등대", "hangul"),
        ("φάρος", "greek"),
        ("منارة", "arabic"),
        ("प्रकाशस्तंभ", "devanagari"),
        ("The Маяк hotel is a lighthouse", "latin"),
        ("Установите пакет LangChain через OpenTelemetry", "cyrillic"),
        ("使用 LangChain 组件", "han"),
    ],
)
def test_the_script_of_a_text(text, script):
    """Of most letters; a quarter of the letters is enough beside Latin terms."""
    assert script_of(analyse(text)) == script


def test_what_has_no_letter_can_be_compared_with_anything():
    """Numbers are the same in all scripts."""
    russian, english, number = map(analyse, ("Маяк", "Lighthouse", "1884"))
    assert not share_a_script(russian, [english])
    assert share_a_script(russian, [english, russian])
    assert share_a_script(russian, [english, number]) is False
    assert share_a_script(number, [english])
    assert share_a_script(russian, [number])
    assert share_a_script(russian, [])
