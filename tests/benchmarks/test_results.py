"""What a run keeps: the table says under what conditions it was taken and what is missing."""

import json
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from python_process import run_python

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="benchmarks need Python 3.11")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def in_benchmarks(code, *arguments):
    """Run `code` where the benchmarks' modules can be imported; return what it printed."""
    done = run_python("-c", textwrap.dedent(code), *map(str, arguments), cwd=BENCHMARKS)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


WRITE = """
    import sys
    from pathlib import Path
    from measure import Row
    from results import Part, conditions, load, write

    taken = {**conditions(), "load_after": load()}
    rows = [
        Row("deterministic_metrics", f"PrecisionRecallF1 {s}, {n} × 3 × {w} words", "ms",
            n * w / 1000, n * w * w / 1000, "continuous-eval", 2.0, target="≥ 1 ×", met=True)
        for s in ("rouge_chunk_match", "rouge_sentence_match")
        for n, w in ((10, 5), (10, 100), (10, 500), (1, 100), (50, 100))
    ]
    parts = [
        Part("deterministic_metrics", rows, taken, None),
        Part("footprint", [], taken, "ZeroDivisionError: an example"),
    ]
    write(parts, Path(sys.argv[1]), Path(sys.argv[1]))
"""


def test_results_name_machine_versions_commit_load_and_what_is_missing(tmp_path):
    """A benchmark that failed, one that was not run and peers that are not there are all named."""
    in_benchmarks(WRITE, tmp_path)

    text = (tmp_path / "RESULTS.md").read_text()
    assert "## Targets: 10 of 10 met" in text
    assert "cores" in text
    assert "ragmeter-otel 0." in text
    assert "UTC, commit " in text
    assert ", load " in text
    assert "`footprint` did not run: ZeroDivisionError: an example" in text
    assert "`live_latency` did not run: not asked for" in text
    assert "peers in `ragas`: not set up (ragas)" in text


AGAIN = """
    import sys
    from pathlib import Path
    import results
    from measure import Row
    from results import Part, write

    results.machine = lambda: sys.argv[2]
    taken = {"date": sys.argv[3], "commit": "abc", "load_before": "0.1", "load_after": "0.2"}
    row = Row("footprint", "size | whole", "MB", 12.0, target="≤ 10", met=False, spread="11 to 13")
    parts = {
        "footprint": [Part("footprint", [row], taken, None)],
        "failed": [Part("deterministic_metrics", [], taken, "no luck")],
        "older": [Part("deterministic_metrics", [Row("deterministic_metrics", "old", "ms", 1.0)],
                       {**taken, "date": "2020-01-01 00:00 UTC"}, None)],
        "nothing": [],
    }[sys.argv[4]]
    write(parts, Path(sys.argv[1]) / "no peers", Path(sys.argv[1]))
"""


@pytest.mark.parametrize("what", ["nothing", "older", "failed"])
def test_a_part_that_is_not_repeated_stays_as_it_was_written(tmp_path, what):
    """Raw rows are on one machine only: the table is what is kept, and newer than older raw rows."""
    in_benchmarks(WRITE, tmp_path)
    first = (tmp_path / "RESULTS.md").read_text()
    section = first[first.index("| PrecisionRecallF1", first.index("## Metrics without a judge")) :]

    in_benchmarks(AGAIN, tmp_path, "1 core", "2026-11-23 00:00 UTC", what)
    second = (tmp_path / "RESULTS.md").read_text()

    assert section.strip() in second
    assert second.count("| PrecisionRecallF1") == first.count("| PrecisionRecallF1")
    assert "## Targets: 10 of 10 met" in second
    assert "](growth.svg)" in second
    assert ("`deterministic_metrics` did not run: no luck" in second) == (what == "failed")


def test_parts_of_several_runs_stand_in_one_table_with_their_machines(tmp_path):
    in_benchmarks(WRITE, tmp_path)
    first = (tmp_path / "RESULTS.md").read_text()
    [machine] = [line for line in first.splitlines() if line.startswith("- machine: ")]

    for at in ("00:00", "00:01"):
        in_benchmarks(AGAIN, tmp_path, "1 core", f"2026-11-23 {at} UTC", "footprint")
    second = (tmp_path / "RESULTS.md").read_text()

    assert "## Targets: 10 of 11 met" in second
    assert "- machine: 1 core" in second
    assert second.count(f"; then: {machine[2:]}; Python ") == 1
    assert "| size / whole | 12 MB | – | – | ≤ 10 | **no** | 11 to 13 |  |" in second
    assert "`footprint.py`, 2026-11-23 00:01 UTC" in second
    assert "`footprint.py`, 2026-11-23 00:00 UTC" not in second
    # A third run that measures nothing finds all of it there.
    in_benchmarks(AGAIN, tmp_path, "1 core", "2026-11-23 00:02 UTC", "nothing")
    assert (tmp_path / "RESULTS.md").read_text() == second


def test_versions_of_peers_stay_where_there_are_none_here(tmp_path):
    in_benchmarks(WRITE, tmp_path)
    file = tmp_path / "RESULTS.md"
    absent = "- peers in `ragas`: not set up (ragas)"
    told = "- peers in `ragas`: ragas 0.4.3\n  - another: did not install"
    file.write_text(file.read_text().replace(absent, told))

    in_benchmarks(AGAIN, tmp_path, "1 core", "2026-11-23 00:00 UTC", "nothing")

    assert told in file.read_text()


def test_growth_is_plotted_from_the_rows_of_the_table(tmp_path):
    """Ours and the peer's, by chunk and by sentence, in both panels."""
    in_benchmarks(WRITE, tmp_path)

    assert "](growth.svg)" in (tmp_path / "RESULTS.md").read_text()
    root = ET.parse(tmp_path / "growth.svg").getroot()
    svg = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{svg}circle")) == 2 * 2 * (3 + 3)
    words = {element.text for element in root.findall(f"{svg}text")}
    assert {"ragmeter, by chunk", "continuous-eval, by sentence", "500", "50"} <= words


def test_a_benchmark_that_fails_or_hangs_is_named_and_has_no_rows(tmp_path):
    """`run_one` never raises for what a benchmark does."""
    for name, body in {
        "fails": "print('{}'); raise ValueError('no luck')",
        "hangs": "import time; time.sleep(60)",
        "silent": "",
    }.items():
        (tmp_path / f"{name}.py").write_text(body)

    said = in_benchmarks(
        """
        import json, sys
        from pathlib import Path
        import run
        run.HERE = Path(sys.argv[1])
        run.Row = lambda **given: given
        parts = [run.run_one(name, [], 5.0) for name in ("fails", "silent")]
        parts.append(run.run_one("hangs", [], 0.5))
        print(json.dumps([[part.problem, part.rows] for part in parts]))
        """,
        tmp_path,
    )

    assert json.loads(said) == [
        ["ValueError: no luck", []],
        ["it said nothing", []],
        ["not done after 0.5 s", []],
    ]
