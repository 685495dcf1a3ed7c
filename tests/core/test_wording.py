"""The sentence of a change in three languages."""

import re

import pytest
from fakes_quality import make_change, make_mean

from ragmeter.exporters.change_words import LANGUAGES, _texts, change_words
from ragmeter.exporters.changes import ChangeNote, NewSince
from ragmeter.watch.wording import word_change

NOTES = sorted(key.removeprefix("note_") for key in _texts()["en"] if key.startswith("note_"))
SINCE = 1_763_812_800.0


def change(kind, *, rises=False, **fields):
    before, now = (make_mean(value, 0.05) for value in ((0.55, 0.86) if rises else (0.86, 0.55)))
    given = {"workflow": "", "service": "shop", "since": SINCE, "at": SINCE, **fields}
    return make_change("support", kind=kind, before=before, now=now, **given)


def test_every_language_has_the_same_texts():
    assert {*_texts()} == {*LANGUAGES}
    assert all(one.keys() == _texts()["en"].keys() for one in _texts().values())


@pytest.mark.parametrize("language", ["ru", "zh"])
@pytest.mark.parametrize("code", NOTES)
def test_a_note_has_no_english_word(code, language):
    note = ChangeNote(code, (0.5, 0.25, -0.5, 0.5))

    assert str(note)
    assert not re.search("[A-Za-z]", note.text(language))


@pytest.mark.parametrize("language", ["ru", "zh"])
@pytest.mark.parametrize("kind", ["fell", "mix", "judge", "recovered", "version"])
@pytest.mark.parametrize("rises", [False, True])
def test_a_sentence_has_no_english_word_but_names(kind, language, rises):
    sentence = word_change(change(kind, rises=rises, earlier="2.4.1"), language)

    assert set(re.findall("[A-Za-z]+", sentence)) <= {"support", "shop", "UTC"}


def test_a_version_in_russian_and_chinese():
    one = change(
        "version",
        segment="metadata.service.version:2.5.0",
        earlier="2.4.1",
        notes=(ChangeNote("bad", (0.08, 0.4)),),
        new=(NewSince(name="index_version", value="i2", at=SINCE, requests=4),),
    )

    assert word_change(one, "ru") == (
        "shop 2.5.0 хуже, чем 2.4.1, с 2025-11-22 12:00 UTC: support 0,86 → 0,55 [-0,36; -0,26]; "
        "плохие ответы: 8\N{NO-BREAK SPACE}% → 40\N{NO-BREAK SPACE}%; "
        "в тот же момент изменилось: index_version = i2 (2025-11-22 12:00 UTC)"
    )
    assert word_change(one, "zh").startswith("shop 2.5.0 自 2025-11-22 12:00 UTC 起比 2.4.1 差：")


def test_names_are_left_as_they_are():
    assert change_words("ru", "version", "a.b", "1.2", "t", "x", 0.5, 0.25, 0.1, 0.2).startswith(
        "a.b хуже, чем 1.2, с t: x 0,50"
    )
