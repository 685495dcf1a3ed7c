"""The one reader of JSONL and CSV: what it makes of encodings, line ends, numbers and broken rows."""

import csv
import gzip
import json
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics import ConfigurationError, MissingDependencyError
from ragmeter.metrics._files.rows import BadRow, GoodRow, count_rows, format_of, open_rows, read_rows


def _read(tmp_path, content, name="data.jsonl"):
    path = tmp_path / name
    path.write_bytes(content)
    return list(read_rows(path, {"contexts"}))


@pytest.mark.parametrize(
    ("name", "kind", "zipped"),
    [
        ("a.jsonl", "jsonl", False),
        ("a.NDJSON", "jsonl", False),
        ("a.csv", "csv", False),
        ("a.b.CSV", "csv", False),
        ("a.json", "json", False),
        ("a.jsonl.gz", "jsonl", True),
        ("a.csv.GZ", "csv", True),
        ("a.parquet", "parquet", False),
    ],
)
def test_the_ending_says_what_a_file_is(tmp_path, name, kind, zipped):
    assert format_of(tmp_path / name) == (kind, zipped)


@pytest.mark.parametrize("name", ["data.txt", "data", "data.gz", "data.parquet.gz"])
def test_another_ending_is_refused_whether_the_file_is_there_or_not(tmp_path, name):
    for read in (lambda path: list(read_rows(path, ())), count_rows, format_of):
        with pytest.raises(ConfigurationError, match=rf"{name}' ends in none of .jsonl"):
            read(tmp_path / name)


@pytest.mark.parametrize("name", ["absent.jsonl", "absent.csv"])
def test_a_file_that_cannot_be_opened_is_named(tmp_path, name):
    for read in (lambda path: list(read_rows(path, ())), count_rows):
        with pytest.raises(ConfigurationError, match=rf"cannot read .*{name}.*No such file"):
            read(tmp_path / name)


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_belongs_to_no_row(tmp_path, bom):
    assert _read(tmp_path, bom + b'{"a": 1}\n') == [GoodRow(1, {"a": 1})]
    assert _read(tmp_path, bom + b"a\n1\n", "data.csv") == [GoodRow(2, {"a": "1"})]


def test_blank_lines_are_no_rows_and_are_counted(tmp_path):
    assert _read(tmp_path, b'\n{"a": 1}\r\n \n{"a": 2}') == [GoodRow(2, {"a": 1}), GoodRow(4, {"a": 2})]
    assert [row.line for row in _read(tmp_path, b"a\n\n1\n", "data.csv")] == [3]


def test_separators_of_unicode_end_no_line(tmp_path):
    [row] = _read(tmp_path, '{"a": "x\u2028y\x85z"}'.encode())
    assert row.fields == {"a": "x\u2028y\x85z"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{broken", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        (b'["a"]', "not a JSON object"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7; save the file as UTF-8"),
        (b'{"a": -Infinity}', "not JSON: -Infinity is not JSON"),
        (b"[" * 100_000, "not JSON: "),
        (b'{"a": ' + b"1" * 5_000 + b"}", "not JSON: Exceeds the limit"),
    ],
)
def test_a_bad_line_says_why_and_the_rest_is_read(tmp_path, line, reason):
    bad, good = _read(tmp_path, line + b'\n{"a": 1}')
    assert isinstance(bad, BadRow)
    assert bad.line == 1
    assert bad.reason.startswith(reason)
    assert good == GoodRow(2, {"a": 1})


def test_nan_is_an_empty_cell_as_pandas_writes_it(tmp_path):
    assert _read(tmp_path, b'{"a": NaN, "b": [NaN]}') == [GoodRow(1, {"a": None, "b": [None]})]


def test_csv_cells_are_texts_but_for_lists_and_the_reference(tmp_path):
    rows = b'question,contexts,reference\n7,"[""a"", NaN]","{""answer"": 1}"\n[x],[x] y,{curly\n , ,\nshort\n'
    assert [row.fields for row in _read(tmp_path, rows, "data.csv")] == [
        {"question": "7", "contexts": ["a", None], "reference": {"answer": 1}},
        {"question": "[x]", "contexts": "[x] y", "reference": "{curly"},
        {"question": None, "contexts": None, "reference": None},
        {"question": "short", "contexts": None, "reference": None},
    ]


def test_a_list_that_python_printed_is_read(tmp_path):
    """Which is what pandas writes into CSV."""
    texts = ['It\'s "so", she said.', "two\nlines", "да", "长城"]
    path = tmp_path / "data.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["contexts"], [str(texts)]])
    assert [row.fields for row in read_rows(path, ["contexts"])] == [{"contexts": texts}]


@pytest.mark.parametrize(
    "cell",
    [b"['a' 'b']", b"['a'\n 'b']", b"[open('x')]", b"[1 for _ in 'a']", b"[" * 100_000 + b"]"],
    ids=["numpy", "numpy's lines", "a call", "code", "deep"],
)
def test_any_other_list_is_refused_not_guessed(tmp_path, cell):
    bad, good = _read(tmp_path, b'contexts\n"' + cell + b'"\nplain\n', "data.csv")
    assert bad.line == cell.count(b"\n") + 2
    assert "contexts is not a list of JSON or Python" in bad.reason
    assert good.fields == {"contexts": "plain"}


def test_a_csv_row_that_is_not_utf_8_is_bad_and_the_rest_is_read(tmp_path):
    good, bad, after = _read(tmp_path, "a\nя\n".encode() + b"\xff\nz\n", "data.csv")
    assert (good.fields, after.fields) == ({"a": "я"}, {"a": "z"})
    assert bad == BadRow(3, "not UTF-8; save the file as UTF-8")


def test_csv_that_breaks_off_is_bad_from_there_on(tmp_path):
    surplus, broken = _read(tmp_path, b'a\nb,c\n"open', "data.csv")
    assert surplus == BadRow(2, "more fields than columns")
    assert broken.reason.startswith("not CSV: ")


def test_every_line_end_ends_a_csv_row_and_quoted_ones_stay(tmp_path):
    rows = _read(tmp_path, b'a,b\r\n1,"x\ny"\r\n2,z\r\n', "data.csv")
    assert rows == [GoodRow(3, {"a": "1", "b": "x\ny"}), GoodRow(4, {"a": "2", "b": "z"})]


@pytest.mark.parametrize("name", ["data.jsonl", "data.csv"])
def test_one_row_is_in_memory_at_a_time(tmp_path, name):
    path = tmp_path / name
    text = "x" * 100_000
    row = f"{text}\n" if name.endswith("csv") else json.dumps({"a": text}) + "\n"
    path.write_text(("a\n" if name.endswith("csv") else "") + row * 100)
    tracemalloc.start()
    try:
        assert sum(len(row.fields["a"]) for row in read_rows(path, ())) == 100 * len(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(text)  # the whole file is five times that
    assert count_rows(path) == 100


@given(st.binary(max_size=200), st.sampled_from(["data.jsonl", "data.csv"]))
def test_any_bytes_are_rows_good_or_bad(tmp_path_factory, content, name):
    if b"\0" in content[:2] or content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        with pytest.raises(ConfigurationError, match="is UTF-16; save the file as UTF-8"):
            _read(tmp_path_factory.mktemp("any"), content, name)
        return
    for row in _read(tmp_path_factory.mktemp("any"), content, name):
        assert isinstance(row, (GoodRow, BadRow))
        json.dumps(row)


def test_compressed_files_are_read_as_they_are(tmp_path):
    jsonl, table = tmp_path / "a.jsonl.gz", tmp_path / "a.csv.gz"
    jsonl.write_bytes(gzip.compress(b'{"a": 1}\n\n{"a": 2}'))
    table.write_bytes(gzip.compress("a,b\nü,2\n".encode()))

    assert list(read_rows(jsonl, ())) == [GoodRow(1, {"a": 1}), GoodRow(3, {"a": 2})]
    assert list(read_rows(table, ())) == [GoodRow(2, {"a": "ü", "b": "2"})]
    assert (count_rows(jsonl), count_rows(table)) == (2, 1)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.json.gz", "a.csv.gz"])
@pytest.mark.parametrize("content", [b"plain", gzip.compress(b"[" + b'{"a": 1},\n' * 9000)[:-20]])
def test_a_broken_archive_is_an_error_and_not_the_end(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="cannot read"):
        list(read_rows(path, ()))


def test_a_json_array_is_read_element_by_element(tmp_path):
    rows = [{"a": 1}, {"a": "é\u2028]", "b": [1, {"c": None}]}, {"a": float("nan")}, 3]
    content = json.dumps(rows, indent=1, ensure_ascii=False).encode()
    found = _read(tmp_path, b"\xef\xbb\xbf" + content, "data.json")

    assert [row.line for row in found] == [1, 2, 3, 4]
    assert found[:2] == [GoodRow(1, rows[0]), GoodRow(2, rows[1])]
    assert found[2].fields == {"a": None}
    assert found[3] == BadRow(4, "not a JSON object")


def test_a_large_array_is_never_whole_in_memory(tmp_path):
    path = tmp_path / "data.json"
    text = "x" * 50_000
    path.write_text(json.dumps([{"a": text}] * 400), encoding="utf-8")
    tracemalloc.start()
    try:
        assert sum(len(row.fields["a"]) for row in read_rows(path, ())) == 400 * len(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize(
    ("content", "good", "says"),
    [
        (b'[{"a": 1}, {"a": ', 1, "not JSON"),
        (b'[{"a": 1} {"a": 2}]', 1, "no comma"),
        (b'[{"a": 1}', 1, "no comma"),
        (b'[{"a": 1},', 1, "does not end"),
        (b'[{"a": 1}] x', 1, "follows the end"),
        (b'[{"a": Infinity}]', 0, "Infinity"),
        (b'[{"a": "\xff"}]', 0, "not UTF-8"),
        (b'{"a": 1}\n{"a": 2}', 0, "jsonl"),
        (b"[" * 100_000, 0, "not JSON"),
    ],
)
def test_where_an_array_breaks_is_said(tmp_path, content, good, says):
    found = _read(tmp_path, content, "data.json")

    assert [isinstance(row, GoodRow) for row in found] == [True] * good + [False]
    assert says in found[-1].reason


def test_an_object_is_one_row_or_the_rows_of_its_data(tmp_path):
    assert _read(tmp_path, b'\n{"a": 1}', "data.json") == [GoodRow(1, {"a": 1})]
    answered = b'{"data": [{"a": 1}, {"a": 2}], "meta": {"page": 1}}'
    assert [row.fields for row in _read(tmp_path, answered, "data.json")] == [{"a": 1}, {"a": 2}]
    assert _read(tmp_path, b" ", "data.json") == []


@pytest.mark.parametrize(
    "table",
    [
        {"question": {"0": "a", "1": "b"}, "contexts": {"0": ["x"], "1": []}},
        {"question": ["a", "b"], "contexts": [["x"], []]},
    ],
    ids=["pandas", "lists"],
)
def test_an_object_of_columns_is_a_table(tmp_path, table):
    """As `DataFrame.to_json` writes it, and `json.dump` of what data sets are made from."""
    found = _read(tmp_path, json.dumps(table).encode(), "data.json")
    assert [(row.line, row.fields) for row in found] == [
        (1, {"question": "a", "contexts": ["x"]}),
        (2, {"question": "b", "contexts": []}),
    ]
    uneven = {"question": ["a", "b"], "contexts": [["x"]]}
    assert [row.fields for row in _read(tmp_path, json.dumps(uneven).encode(), "data.json")] == [uneven]


def test_times_in_nanoseconds_are_read_without_pandas(tmp_path):
    """Which is how pandas writes them; nested ones, too."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    when = pa.array([10**18 + 1, None], pa.timestamp("ns", "UTC"))
    table = pa.table(
        {
            "question": ["a", "b"],
            "when": when,
            "took": pa.array([1_001, 2_002], pa.duration("ns")),
            "contexts": pa.ListArray.from_arrays(
                [0, 1, 2], pa.StructArray.from_arrays([["x", "y"], when], ["text", "at"])
            ),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    first, second = (row.fields for row in read_rows(tmp_path / "a.parquet", ()))
    assert first["when"].isoformat() == "2001-09-09T01:46:40+00:00"
    assert first["took"].microseconds == 1
    assert first["contexts"] == [{"text": "x", "at": first["when"]}]
    assert second["contexts"] == [{"text": "y", "at": None}]


def test_a_parquet_cell_without_a_value_in_python_costs_its_row_alone(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = pa.array([b"a", b"\xff\xfe", b"c", b"d"]).cast(pa.string(), safe=False)
    far = pa.array([0, 0, 10**15, 0], pa.timestamp("s"))
    parquet.write_table(pa.table({"question": texts, "when": far}), tmp_path / "a.parquet")
    found = list(read_rows(tmp_path / "a.parquet", ()))
    assert [row.line for row in found] == [1, 2, 3, 4]
    assert [isinstance(row, BadRow) for row in found] == [False, True, True, False]
    assert "a cell cannot be read" in found[1].reason


def test_a_parquet_file_that_is_damaged_inside_is_said(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    texts = [f"question {number} of many" for number in range(2_000)]
    parquet.write_table(pa.table({"question": texts}), path, use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[:2_000] = b"PAR1" + b"\xff" * 1_996
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="cannot read"):
        list(read_rows(path, ()))


def test_parquet_is_read_batch_by_batch(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    rows = [{"question": f"q{number}", "contexts": ["x"], "answer": None} for number in range(600)]
    parquet.write_table(pa.Table.from_pylist(rows), path)

    assert list(read_rows(path, ())) == [GoodRow(at + 1, row) for at, row in enumerate(rows)]
    assert count_rows(path) == 600
    path.write_bytes(path.read_bytes()[:-30])
    for read in (lambda path: list(read_rows(path, ())), count_rows):
        with pytest.raises(ConfigurationError, match="cannot read"):
            read(path)


def test_a_missing_pyarrow_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").touch()
    with pytest.raises(MissingDependencyError, match=r"\[parquet\]"):
        list(read_rows(tmp_path / "a.parquet", ()))


def test_equal_rows_have_equal_digests(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": 1}\n')
    first, second, third = (row.digest() for row in open_rows(path))

    assert first == third != second
    assert len(first) == 16
