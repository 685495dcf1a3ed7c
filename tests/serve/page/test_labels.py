"""What somebody says of a request: labels, right answers, the golden set, and whose forms are taken."""

import json
import stat
from dataclasses import replace

import pytest
from frozen_page import SPAN, TRACE, VIEW, FrozenReader, client, row

from ragmeter.metrics import ConfigurationError
from ragmeter.quality.labels import Label, append_label, read_labels
from ragmeter.requests.references import load_references
from ragmeter.serve.page import GoldenEntry, GoldenSet, Labels

ADDRESS = f"/request/{TRACE}/{SPAN}"
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def labels(tmp_path):
    return Labels(tmp_path / "labels.jsonl", GoldenSet(tmp_path / "golden.jsonl"))


def token(pages):
    return pages.get(ADDRESS).text.partition('name="form" value="')[2].partition('"')[0]


def post(pages, **fields):
    fields.setdefault("form", token(pages))
    return pages.post(f"{ADDRESS}/label", data=fields)


def test_a_right_answer_becomes_a_label_and_a_reference(labels):
    pages = client(labels=labels)
    response = post(pages, word="right", golden="1")

    assert response.status_code == 303
    assert response.headers["location"] == f"{ADDRESS}?saved=1"
    assert "Saved." in pages.get(response.headers["location"]).text
    (label,), bad = read_labels(labels.path)
    assert (label.request, label.value, label.origin, bad) == (TRACE, 1.0, "volunteered", [])
    reference = load_references(labels.golden.path)(VIEW.row.question)
    assert reference.answer == VIEW.answer
    assert reference.context_ids == ("ru-buckwheat#2", "<script>alert(1)</script>")


def test_what_is_decided_of_a_gap_is_kept_and_a_form_of_elsewhere_is_not_taken():
    decided = []
    pages = client(decide_gap=lambda *given: decided.append(given))
    text = pages.get("/gaps?service=library").text
    secret = text.partition('name="form" value="')[2].partition('"')[0]

    def answered(**fields):
        return pages.post("/gaps/0a0b0c0d?service=library", data=fields)

    refused = answered(form="guessed", state="closed")
    assert refused.status_code == 403
    assert "This was not done" in refused.text
    assert "the form is from before the server" in refused.text
    assert decided == []
    response = answered(form=secret, state="closed")
    assert (response.status_code, response.headers["location"]) == (303, "/gaps?service=library#g0a0b0c0d")
    assert decided == [("0a0b0c0d", "closed")]
    assert "Open again" not in text
    assert 'value="accepted"' in text
    assert "Accept" not in client().get("/gaps").text, "nothing is kept there"


def test_saving_keeps_the_filters_of_the_address(labels):
    pages = client(labels=labels)
    filters = "range=6h&seg=language%3Azh"
    text = pages.get(f"{ADDRESS}?{filters}").text
    action = text.partition('method="post" action="')[2].partition('"')[0].replace("&amp;", "&")
    response = pages.post(action, data={"form": token(pages), "word": "right"})

    assert response.headers["location"] == f"{ADDRESS}?{filters}&saved=1"


def test_a_form_sent_to_an_address_that_cannot_be_read_saves_nothing(labels):
    pages = client(labels=labels)
    response = pages.post(f"{ADDRESS}/label?range=x", data={"form": token(pages), "word": "right"})

    assert response.status_code == 400
    assert not labels.path.exists()


def test_a_wrong_one_needs_what_is_right(labels):
    pages = client(labels=labels)
    response = post(pages, word="wrong", golden="1")

    assert response.status_code == 400
    assert "a wrong answer needs the right one" in response.text
    assert not labels.path.exists()
    assert post(pages, word="wrong", golden="1", answer="昆曲", documents="zh-1\r\nzh-2").status_code == 303
    reference = load_references(labels.golden.path)(VIEW.row.question)
    assert (reference.answer, reference.context_ids) == ("昆曲", ("zh-1", "zh-2"))


def test_what_was_typed_stands_there_again_when_it_was_not_saved(labels):
    response = post(client(labels=labels), answer="昆曲 <b>", golden="1")

    assert response.status_code == 400
    assert "choose right or wrong" in response.text
    assert "昆曲 &lt;b&gt;</textarea>" in response.text


def test_a_word_alone_adds_nothing_to_the_golden_set(labels):
    assert post(client(labels=labels), word="wrong").status_code == 303
    assert labels.golden.entries() == []


def test_without_a_question_there_is_a_label_and_no_golden_entry(labels):
    pages = client(FrozenReader(views=(replace(VIEW, row=row(question=None)),)), labels=labels)

    assert post(pages, word="right", golden="1").status_code == 400
    assert post(pages, word="right").status_code == 303


@pytest.mark.parametrize("form", ["", "guessed", "ключ"])
def test_a_form_without_the_token_is_refused_and_keeps_what_was_typed(labels, form):
    response = post(client(labels=labels), word="right", answer="typed", form=form)

    assert response.status_code == 403
    assert "typed</textarea>" in response.text
    assert not labels.path.exists()


def test_get_saves_nothing(labels):
    pages = client(labels=labels)

    # No such page: what stands there is taken for a span's id.
    assert pages.get(f"/request/{TRACE}/label?word=right&form={token(pages)}").status_code == 404
    assert pages.get(f"{ADDRESS}/label?word=right&form={token(pages)}").status_code == 405
    assert not labels.path.exists()


def test_only_forms_within_limits_are_read(labels):
    pages = client(labels=labels)

    assert pages.post(f"{ADDRESS}/label", json={}).status_code == 415
    assert pages.post(f"{ADDRESS}/label", content=b"a" * 300_000, headers=FORM).status_code == 413
    many = "&".join(f"f{at}=1" for at in range(50))
    assert pages.post(f"{ADDRESS}/label", content=many, headers=FORM).status_code == 400


def test_a_file_that_cannot_be_written_is_said_on_the_page(labels, tmp_path):
    nowhere = Labels(tmp_path / "gone" / "labels.jsonl", labels.golden)

    assert "Not saved" in post(client(labels=nowhere), word="right").text


def test_without_files_there_is_no_form(labels):
    text = client().get(ADDRESS).text

    assert "<form" not in text
    assert "--store" in text
    assert client().get("/golden.jsonl").status_code == 404


class TestGoldenSet:
    def test_the_later_answer_counts_and_the_earlier_is_kept(self, labels):
        labels.golden.add(GoldenEntry(question="Who?", answer="A"))
        labels.golden.add(GoldenEntry(question="who", answer="B", context_ids=("d",)))

        assert [one.answer for one in labels.golden.entries()] == ["B"]
        assert labels.golden.of("WHO?").answer == "B"
        assert len(labels.golden.content().splitlines()) == 2
        assert load_references(labels.golden.path)("Who?").answer == "B"

    def test_it_is_its_owners_alone(self, labels):
        labels.golden.add(GoldenEntry(question="Who?", answer="A"))

        assert stat.S_IMODE(labels.golden.path.stat().st_mode) == 0o600

    def test_a_file_written_by_hand_goes_on(self, labels):
        labels.golden.path.write_text(
            '{"question": "Q", "answer": "A"}\nnot JSON\n[1]\n{"question": "R", "context_ids": [7]}'
        )
        labels.golden.add(GoldenEntry(question="S", answer="B"))

        assert [one.question for one in labels.golden.entries()] == ["Q", "R", "S"]
        assert json.loads(labels.golden.content().decode().splitlines()[-1])["question"] == "S"

    def test_the_page_shows_it_and_gives_the_file(self, labels):
        labels.golden.add(GoldenEntry(question="<b>Who?", answer="A", context_ids=("d-1",), trace_id=TRACE))
        pages = client(labels=labels)

        text = pages.get("/golden").text
        assert "&lt;b&gt;Who?" in text
        assert f'href="/trace/{TRACE}"' in text
        assert pages.get("/golden.jsonl").text == labels.golden.content().decode()

    def test_another_ending_is_refused(self, tmp_path):
        with pytest.raises(ConfigurationError, match=r"\.jsonl"):
            GoldenSet(tmp_path / "golden.csv")

    def test_a_file_that_cannot_be_read_is_refused(self, tmp_path):
        (tmp_path / "golden.jsonl").mkdir()
        with pytest.raises(ConfigurationError, match="--golden"):
            GoldenSet(tmp_path / "golden.jsonl")


def test_beside_the_verdict_stands_what_people_make_of_the_word(labels):
    pages = client(labels=labels)
    word = VIEW.row.verdict
    assert "RAGTruth" in pages.get(ADDRESS).text
    fields = {"score": "faithfulness", "rater": "anna", "at": "2026-11-22T09:00:00Z"}
    for number in range(50):
        label = Label(request=f"{number}", value=float(number < 10), verdict=word, probability=0.5, **fields)
        append_label(labels.path, label)
    text = pages.get(ADDRESS).text
    assert "RAGTruth" not in text
    assert f"people call 80 % [67, 89] of {word} requests bad (50 labels)" in text
    labels.path.write_text("no label\n")
    assert "RAGTruth" in pages.get(ADDRESS).text
