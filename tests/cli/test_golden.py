"""ragmeter golden check: labels are sorted by where their text stands now, and only what is sure is repaired."""

import csv
import gzip
import json

import pytest
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.metrics import IdPrecisionRecall, RagSample, RankedRetrieval, Reference, evaluate
from ragmeter.requests.references import load_references

EN = (
    "The lighthouse at Kolka stands six kilometres off the cape, on an artificial island of stone.",
    "It was lit for the first time in June 1884, after twelve years of building in the surf.",
    "Its tower of iron is twenty-one metres high and carries a lamp that is seen for ten miles.",
    "Keepers lived on the island with their families until 1979, when the light was made automatic.",
)
RU = (
    "Маяк Колка стоит в шести километрах от мыса, на искусственном острове, сложенном из камня.",
    "Впервые его зажгли в июне 1884 года, после двенадцати лет строительства среди прибоя и льда.",
    "Железная башня маяка поднимается на двадцать один метр, и лампу видно за десять морских миль.",
    "Смотрители жили на острове вместе с семьями до 1979 года, когда свет стал автоматическим.",
)
ZH = (
    "科尔卡灯塔位于海角外六公里处，建在一座用石头堆成的人工岛上。",
    "经过十二年在海浪中的施工，灯塔于一八八四年六月首次点亮。",
    "铁制的塔身高二十一米，塔上的灯光在十海里之外都能看到。",
    "守塔人和家人一直住在岛上，直到一九七九年灯塔改为自动运行。",
)
LANGUAGES = pytest.mark.parametrize("texts", [EN, RU, ZH], ids=["en", "ru", "zh"])


def written(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def compute(metric, sample):
    """Return the scores of one sample."""
    [scores] = evaluate([sample], [metric])
    return dict(scores)


def golden(path, *labels, **more):
    """One question with labels of (id, text)."""
    ids, texts = zip(*labels, strict=True)
    row = {"question": "How high?", "context_ids": list(ids), "contexts": list(texts), **more}
    return written(path / "golden.jsonl", [row])


def index(path, chunks, name="chunks.jsonl"):
    return written(path / name, [{"id": id_, "text": text} for id_, text in chunks.items()])


def checked(*arguments):
    """Run the command; return exit code and JSON."""
    done = CliRunner().invoke(app, ["golden", "check", *map(str, arguments), "--json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, json.loads(done.stdout) if done.exit_code in {0, 1, 5} else done.output


def outcome(tmp_path, label, chunks):
    """Return kind, ids and whether that is sure, of one label."""
    _, said = checked(golden(tmp_path, label), "--against", index(tmp_path, chunks))
    if not said["changed"]:
        return "valid", [label[0]], True
    [one] = said["changed"]
    return one["kind"], one["ids"], one["sure"]


@LANGUAGES
def test_labels_are_sorted_by_where_their_text_stands(tmp_path, texts):
    a, b, c, d = texts
    rest = {"other-1": "Something else entirely, with nothing to share.", "other-2": "别的东西。"}
    assert outcome(tmp_path, ("1", a), {"1": a, **rest}) == ("valid", ["1"], True)
    assert outcome(tmp_path, ("1", a), {"9": a, **rest}) == ("re-anchorable", ["9"], True)
    wrapped = "  " + a.upper().replace(" ", "\n") + " !"
    assert outcome(tmp_path, ("1", a), {"9": wrapped, **rest}) == ("re-anchorable", ["9"], True)
    merged = {"9": f"{a} {b} {c} {d}", **rest}
    assert outcome(tmp_path, ("1", b), merged) == ("merged", ["9"], True)
    parts = {"7": b, "8": a, "9": f"{c} {d}", **rest}
    assert outcome(tmp_path, ("1", f"{a} {b}"), parts) == ("split", ["8", "7"], True)
    assert outcome(tmp_path, ("1", a), {"9": c, **rest}) == ("orphaned", [], False)


@LANGUAGES
def test_an_id_that_now_names_another_text_is_not_valid(tmp_path, texts):
    """Ids that count the chunks of a document are given anew."""
    a, b, c, _ = texts
    chunks = {"1": c, "2": a, "3": b}
    assert outcome(tmp_path, ("1", a), chunks) == ("re-anchorable", ["2"], True)


def test_what_stands_in_two_chunks_is_left_to_a_person(tmp_path):
    a, b, c, _ = EN
    chunks = {"8": f"{b} {a} {c}", "9": f"{a} {c} {b}"}
    assert outcome(tmp_path, ("1", a), chunks) == ("merged", ["8", "9"], False)
    assert outcome(tmp_path, ("1", a), {"8": a, "9": a}) == ("re-anchorable", ["8", "9"], False)
    # The same text is meant before a longer one that has it, too.
    assert outcome(tmp_path, ("1", a), {"8": a, "9": f"{a} {b}"}) == ("re-anchorable", ["8"], True)


def test_other_numbers_and_names_are_another_text(tmp_path):
    text = EN[1]
    other = text.replace("1884", "1894")
    assert outcome(tmp_path, ("1", text), {"9": other}) == ("re-anchorable", ["9"], False)
    assert outcome(tmp_path, ("1", text), {"1": other})[2] is False
    sibling = EN[0].replace("Kolka", "Akmensrags")
    assert outcome(tmp_path, ("1", EN[0]), {"9": sibling})[2] is False
    sibling = RU[0].replace("Колка", "Акменьрагс")
    assert outcome(tmp_path, ("1", RU[0]), {"9": sibling})[2] is False
    edited = text.replace("twelve", "a dozen")
    assert outcome(tmp_path, ("1", text), {"1": edited})[0] == "valid"


def test_a_text_of_a_few_words_needs_all_of_them_in_a_row(tmp_path):
    assert outcome(tmp_path, ("1", "Thirty euros"), {"9": "Thirty, euros!"})[:2] == (
        "re-anchorable", ["9"],
    )  # fmt: skip
    assert outcome(tmp_path, ("1", "Thirty euros"), {"9": "Euros: thirty"})[0] == "orphaned"
    merged = outcome(tmp_path, ("1", "Thirty euros"), {"9": "It costs thirty euros a night."})
    assert merged == ("merged", ["9"], True)


def test_several_chunks_may_have_the_id_of_their_document(tmp_path):
    chunks = [{"id": "doc", "text": text} for text in EN]
    path = written(tmp_path / "chunks.jsonl", chunks)
    code, said = checked(golden(tmp_path, ("doc", EN[2])), "--against", path)
    assert (code, said["kinds"]["valid"]) == (0, 1)


@LANGUAGES
def test_the_repaired_set_scores_as_the_old_one_did(tmp_path, texts):
    """Recall stays when the chunks are cut anew, or is undefined; it never falls for that alone."""
    a, b, c, d = texts
    references = golden(tmp_path, ("1", a), ("2", f"{b} {c}"))
    new = {"x": f"{d} {a} {d}", "y": b, "z": c}
    out = tmp_path / "repaired.jsonl"
    code, said = checked(references, "--against", index(tmp_path, new), "--out", out)
    assert (code, said["to_repair"], said["unsure"], said["repaired"]) == (0, 2, 0, True)
    reference = load_references(out)("how high")
    assert reference.context_ids == ("x", "y", "z")
    sample = RagSample(
        question="How high?",
        contexts=[{"id": id_, "text": text} for id_, text in new.items()],
        reference=reference,
    )
    assert compute(IdPrecisionRecall(), sample)["id_recall"].value == 1.0
    # Checked again it is valid, by the anchors that were written.
    code, said = checked(out, "--against", index(tmp_path, new))
    assert (code, said["kinds"]["valid"], said["labels"]) == (0, 3, 3)


def test_scores_of_an_orphaned_label_say_so_and_are_never_0(tmp_path):
    references = golden(tmp_path, ("1", EN[0]), ("2", EN[1]))
    out = tmp_path / "repaired.jsonl"
    chunks = {"7": EN[0], "8": EN[3]}
    code, said = checked(references, "--against", index(tmp_path, chunks), "--out", out)
    assert (code, said["unsure"], said["to_repair"]) == (5, 1, 1)
    [row] = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert row["context_ids"] == ["7"]
    assert row["orphaned_ids"] == ["2"]
    reference = load_references(out)("how high")
    sample = RagSample(
        question="How high?",
        contexts=[{"id": "8", "text": EN[3]}],
        reference=reference.model_copy(update={"contexts": ()}),
    )
    for metric in (IdPrecisionRecall(), RankedRetrieval()):
        for score in compute(metric, sample).values():
            assert (score.value, score.status) == (None, "undefined")
            assert score.explanation == "1 golden id orphaned: no chunk has its text now"
    # By text they are measured as before, and when the text comes back, so is the label.
    assert compute(RankedRetrieval(by="contexts"), sample.model_copy(update={"reference": reference}))
    code, said = checked(out, "--against", index(tmp_path, {"7": EN[0], "3": EN[1]}), "--out",
                         tmp_path / "again.jsonl")  # fmt: skip
    assert code == 0
    assert "orphaned_ids" not in json.loads((tmp_path / "again.jsonl").read_text("utf-8"))


def test_labels_without_a_text_take_it_from_the_old_index(tmp_path):
    references = written(tmp_path / "golden.jsonl", [{"question": "q", "context_ids": ["1", "2"]}])
    new = index(tmp_path, {"1": EN[1], "5": EN[0]})
    code, said = checked(references, "--against", new)
    assert code == 5  # of "2" nothing is known; "1" is there
    assert [one["id"] for one in said["changed"]] == ["2"]
    old = index(tmp_path, {"1": EN[0], "2": EN[1]}, "old.jsonl")
    code, said = checked(references, "--against", new, "--from", old)
    assert (code, [one["ids"] for one in said["changed"]]) == (1, [["5"], ["1"]])


@pytest.mark.parametrize(
    "row",
    [
        {"question": "q", "reference": {"answer": "a", "context_ids": ["1"], "contexts": [EN[0]]}},
        {"question": "q", "reference_context_ids": ["1"], "reference_contexts": [EN[0]], "k": 1},
        {"question": "q", "reference": "a", "reference_context_ids": "1",
         "anchors": [{"id": "1", "text": EN[0]}]},
    ],
)  # fmt: skip
def test_rows_of_data_sets_are_repaired_where_their_labels_stand(tmp_path, row):
    references = written(tmp_path / "golden.jsonl", [row, {"question": "without labels", "x": 1}])
    out = tmp_path / "repaired.jsonl"
    code, _ = checked(references, "--against", index(tmp_path, {"9": EN[0]}), "--out", out)
    first, second = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert code == 0
    assert first["reference"]["context_ids"] == ["9"]
    assert first["anchors"] == [{"id": "9", "text": EN[0]}]
    assert "reference_context_ids" not in first
    assert first.get("k") == row.get("k")
    assert second == {"question": "without labels", "x": 1}
    Reference.model_validate(first["reference"])


def test_csv_is_read_as_well(tmp_path):
    references = tmp_path / "golden.csv"
    references.write_text('question,context_ids,contexts\nq,"[""1""]","[""Thirty euros""]"\n')
    chunks = tmp_path / "chunks.csv"
    chunks.write_text("chunk_id,page_content\n9,Thirty euros.\n")
    code, said = checked(references, "--against", chunks)
    assert (code, said["changed"][0]["ids"]) == (1, ["9"])


def test_a_person_reads_what_to_do(tmp_path):
    references = golden(tmp_path, ("1", EN[0]), ("2", EN[1]), ("3", EN[2]))
    new = index(tmp_path, {"7": EN[0], "8": EN[1], "9": EN[1]})
    done = CliRunner().invoke(
        app, ["golden", "check", str(references), "--against", str(new)], env={"COLUMNS": "100"}
    )
    assert done.exit_code == 5
    assert "line 1, 2: re-anchorable: 2 chunks hold its text" in done.stdout
    assert "(perhaps 8, 9)" in done.stdout
    assert "line 1, 3: orphaned: 0% of its text stands in the chunks" in done.stdout
    assert "1 can be repaired for sure: --out REPAIRED.jsonl" in done.stdout
    assert EN[1] not in done.stdout


@pytest.mark.parametrize(
    ("rows", "chunks", "message"),
    [
        ([{"question": "q"}], [{"id": 1, "text": "t"}], "has no labels"),
        ([{"question": "q", "context_ids": ["1"]}], [], "has no chunks"),
        ([{"question": "q", "context_ids": ["1"]}], [{"id": 1}], "line 1: a chunk has an id"),
        ([{"question": "q", "context_ids": {"1": 2}}], [{"id": 1, "text": "t"}], "lists of texts"),
        ([{"context_ids": ["1"], "anchors": ["x"]}], [{"id": 1, "text": "t"}], "an anchor is"),
    ],
)
def test_what_cannot_be_checked_is_refused(tmp_path, rows, chunks, message):
    references = written(tmp_path / "golden.jsonl", rows)
    new = written(tmp_path / "chunks.jsonl", chunks)
    code, said = checked(references, "--against", new)
    assert code == 2
    assert message in said


def test_nothing_of_the_users_is_overwritten(tmp_path):
    references = golden(tmp_path, ("1", EN[0]))
    new = index(tmp_path, {"1": EN[0]})
    for out in (references, new, tmp_path / "x.csv"):
        assert checked(references, "--against", new, "--out", out)[0] == 2


@pytest.mark.parametrize("ending", [".json", ".jsonl.gz", ".csv", ".parquet"])
def test_sets_and_chunks_come_in_every_format_that_data_sets_have(tmp_path, ending):
    rows = [{"question": "How high?", "context_ids": ["old"], "contexts": [EN[2]]}]
    chunks = [{"id": "new", "text": EN[2]}, {"id": "other", "text": EN[0]}]
    files = []
    for name, content in (("golden", rows), ("chunks", chunks)):
        path = tmp_path / f"{name}{ending}"
        if ending == ".json":
            path.write_text(json.dumps(content))
        elif ending == ".jsonl.gz":
            path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in content).encode()))
        elif ending == ".csv":
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, content[0])
                writer.writeheader()
                writer.writerows(
                    {k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()} for row in content
                )
        else:
            pa = pytest.importorskip("pyarrow")
            parquet = pytest.importorskip("pyarrow.parquet")
            parquet.write_table(pa.Table.from_pylist(content), path)
        files.append(path)
    code, said = checked(files[0], "--against", files[1])
    assert (code, said["kinds"]["re-anchorable"]) == (1, 1)
    out = tmp_path / "repaired.json"
    code, _ = checked(files[0], "--against", files[1], "--out", out)
    assert code == 0
    assert json.loads(out.read_text())[0]["context_ids"] == ["new"]
    assert checked(out, "--against", files[1])[0] == 0
