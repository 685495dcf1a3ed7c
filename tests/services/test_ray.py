"""`ragmeter evaluate --engine ray`: the scores of a run without it, whoever is killed, and nothing left behind."""

import json
import os
import random
import re
import resource
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import descendants, listening_addresses, wait_until

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

PYTHON = "RAGMETER_TEST_RAY_PYTHON"
PROGRAM = Path(__file__).with_name("ray_archive.py")
PART = 256
ROWS = 600


@pytest.fixture(scope="module")
def python():
    """A Python with ragmeter[ray]."""
    found = os.environ.get(PYTHON)
    if not found:
        pytest.skip(f"{PYTHON} names no Python with ragmeter[ray]; .ci/services sets one up")
    return found


def row(number):
    found = {
        "question": f"How long is bridge {number}?",
        "contexts": [f"Bridge {number} is {number} metres long."] * (number % 4),
        "answer": f"It is {number + number % 3} metres long.",
    }
    if number % 2:
        found["reference"] = {"answer": f"Bridge {number} is {number} metres long."}
    return found


def write(folder, numbers):
    """Write a data set in two formats, with a row that cannot be read and one that stands there twice."""
    *lines, last = [row(number) for number in numbers]
    path = folder / "data.jsonl"
    text = "".join(json.dumps(one) + "\n" for one in (*lines, lines[0]))
    path.write_text(text + "no row\n", encoding="utf-8")
    table = folder / "more.parquet"
    parquet.write_table(pa.Table.from_pylist([last]), table)
    return f"{path},{table}"


class Run:
    """A run of the program, and what its judge was asked."""

    def __init__(self, python, folder, data, name="ray"):
        self.python, self.folder, self.data = python, folder, data
        self.log, self.go = folder / f"asked-{name}", folder / f"go-{name}"

    @contextmanager
    def started(self, out, engine, *more, **options):
        ours = ("PYTHON", "OTEL_", "RAY_", "RAGMETER_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        command = [
            self.python,
            str(PROGRAM),
            self.data,
            str(self.folder / out),
            engine,
            str(self.log),
            str(self.go),
        ]
        with subprocess.Popen(
            [*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **options
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    def ended(self, out, engine, *more):
        """Run it to its end and return what it found."""
        self.go.touch()
        with self.started(out, engine, *more) as process:
            output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        return json.loads(output)

    def asked(self):
        """Return the numbers of the questions that its judge was asked, and by which processes."""
        if not self.log.exists():
            return [], []
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [int(number) for number, _ in lines], [int(pid) for _, pid in lines]

    def kept(self, out):
        """Return the row of each judged score that the parts hold."""
        parts = (self.folder / out).glob("part-*.parquet")
        lines = (line for part in parts for line in parquet.read_table(part).to_pylist())
        return [line["row"] for line in lines if line["name"] == "paid"]

    def scores(self, out):
        """Return every line of the parts, in one order."""
        parts = sorted((self.folder / out).glob("part-*.parquet"))
        table = pa.concat_tables(parquet.read_table(part).replace_schema_metadata(None) for part in parts)
        return table.sort_by([("row", "ascending"), ("name", "ascending")])


@pytest.fixture
def run(python, tmp_path):
    return Run(python, tmp_path, write(tmp_path, range(ROWS)))


def gone(pids):
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_scores_are_those_of_one_process_and_nothing_is_left(run):
    """Every column of every score is equal; Ray listened to the machine alone, and all of it has ended."""
    other = Run(run.python, run.folder, run.data, "alone")
    other.go.touch()
    with other.started("alone", "") as alone, run.started("ray", "ray") as process:
        output, errors = alone.communicate(timeout=240)
        assert alone.returncode == 0, errors
        expected = json.loads(output)
        wait_until(lambda: run.asked()[0] or process.poll() is not None, 120, "nothing was asked")
        assert process.poll() is None, process.communicate()[1]
        others = descendants(process.pid)
        listening = [one for pid in (process.pid, *others) for one in listening_addresses(pid)]
        commands = "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in others)
        run.go.touch()
        output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert listening
    assert all(address.is_loopback for address, _ in listening), listening
    wait_until(lambda: gone(others), 60, "processes of Ray are left")
    [folder] = set(re.findall(r"/[\w/.-]*rm-ray-\w+", commands))
    assert not Path(folder).exists()
    numbers, pids = run.asked()
    assert sorted(numbers) == list(range(ROWS))
    assert set(pids) <= set(others)

    found = json.loads(output)
    assert found == expected
    assert (found["rows"], found["bad"], found["calls"]) == (ROWS + 1, 1, ROWS)
    assert run.scores("ray").equals(run.scores("alone"))
    assert "Bridge" not in errors


@pytest.mark.long_form
def test_killed_at_any_moment_a_run_repeats_one_part_at_most(python, tmp_path):
    """Twice at random, with all that Ray started; the third run pays for nothing that is in a part."""
    count = 2_000
    run = Run(python, tmp_path, write(tmp_path, range(count)))
    run.go.touch()
    chance, kills = random.Random(18), 0
    for at in sorted(chance.sample(range(100, 1_700), 2)):
        with run.started("out", "ray") as process:
            wait_until(lambda at=at: len(run.asked()[0]) >= at or process.poll() is not None, 240)
            if process.poll() is None:
                others = descendants(process.pid)
                process.send_signal(signal.SIGKILL)
                process.wait(60)
                kills += 1
                wait_until(lambda others=others: gone(others), 120, "processes of Ray are left")
        kept = run.kept("out")
        assert len(kept) == len(set(kept))
    assert kills
    run.ended("out", "ray")
    numbers, _ = run.asked()
    assert set(numbers) == set(range(count))
    assert len(numbers) - count <= kills * PART
    assert sorted(run.kept("out")) == sorted(set(run.kept("out")))
    assert len(run.kept("out")) == count

    again = run.ended("out", "ray")  # starts no Ray
    assert (again["resumed"], len(run.asked()[0])) == (count + 1, len(numbers))
    run.log.unlink()
    alone = run.ended("alone", "")
    assert again["means"] == alone["means"]
    assert run.scores("out").equals(run.scores("alone"))


@pytest.mark.long_form
def test_a_process_that_is_killed_costs_its_rows_once_more_and_no_run(run):
    with run.started("out", "ray") as process:
        wait_until(lambda: run.asked()[1] or process.poll() is not None, 120)
        os.kill(run.asked()[1][0], signal.SIGKILL)
        run.go.touch()
        output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert json.loads(output)["rows"] == ROWS + 1
    numbers, pids = run.asked()
    assert set(numbers) == set(range(ROWS))
    assert len(numbers) - ROWS <= PART // 2
    assert len(set(pids)) > 1
    assert len(run.kept("out")) == ROWS


@pytest.mark.long_form
def test_rows_that_kill_their_process_end_the_run_and_not_the_parts(run):
    """The others are kept; a run in one process, or with the row removed, goes on from there."""
    run.go.touch()
    with run.started("out", "ray", "one", "599") as process:
        _, errors = process.communicate(timeout=240)
    assert process.returncode
    assert "what was scored before is kept" in errors
    assert "Bridge" not in errors
    numbers, _ = run.asked()
    assert numbers.count(599) == 4
    kept = run.kept("out")
    assert len(kept) == len(set(kept))
    found = run.ended("out", "")
    assert found["rows"] == ROWS + 1
    assert len(run.kept("out")) == ROWS


@pytest.mark.long_form
def test_changed_rows_and_another_judge_are_measured_again_and_nothing_else(run):
    run.ended("out", "ray")
    run.log.unlink()
    write(run.folder, range(10, ROWS + 10))
    changed = run.ended("out", "ray")
    assert sorted(run.asked()[0]) == list(range(ROWS, ROWS + 10))
    assert changed["resumed"] == ROWS - 10 + 1
    run.log.unlink()
    run.ended("out", "ray", "two")
    assert sorted(run.asked()[0]) == list(range(10, ROWS + 10))
    names = {
        line["name"]
        for part in (run.folder / "out").glob("part-*.parquet")
        for line in parquet.read_table(part).to_pylist()
        if line["measurement"].endswith(" two")
    }
    assert names == {"paid"}


@pytest.mark.long_form
def test_interrupted_or_with_a_full_disk_a_run_ends_as_without_ray_and_goes_on_from_its_parts(run):
    """Ctrl-C reaches all processes of a terminal's group. Of a full disk only this run's process knows."""
    write(run.folder, range(300))
    run.ended("out", "")
    write(run.folder, range(ROWS))
    run.go.unlink()
    parts = sorted(path.name for path in (run.folder / "out").glob("part-*"))

    def asked():
        wait_until(lambda: len(run.asked()[0]) > 300 or process.poll() is not None, 120)
        return descendants(process.pid)

    run.log.write_text("0 0\n" * 300)
    with run.started("out", "ray", start_new_session=True) as process:
        others = asked()
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGINT, errors
    assert "Bridge" not in errors
    wait_until(lambda: gone(others), 60, "processes of Ray are left")
    assert sorted(path.name for path in (run.folder / "out").glob("part-*")) == parts

    run.log.write_text("0 0\n" * 300)
    with run.started("out", "ray") as process:
        others = asked()
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1_000, 1_000))
        run.go.touch()
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "File too large; what was scored before is kept" in errors
    wait_until(lambda: gone(others), 60, "processes of Ray are left")
    assert sorted(path.name for path in (run.folder / "out").glob("part-*")) == parts
    assert not list((run.folder / "out").glob(".tmp-*"))

    run.log.unlink()
    found = run.ended("out", "ray")
    assert sorted(run.asked()[0]) == list(range(300, ROWS))
    assert (found["rows"], found["resumed"]) == (ROWS + 1, 301)


@pytest.mark.long_form
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_in_a_terminal_ends_the_command_and_leaves_no_process(python, tmp_path, presses):
    """A second one ends the command as it is; two agents of Ray see within two minutes that their node is gone."""
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\n"
        "from ragmeter.metrics import metric\n"
        "@metric(needs=('question',))\n"
        "def slow(sample):\n"
        f"    pathlib.Path({str(tmp_path / 'reached')!r}).touch()\n"
        "    time.sleep(60)\n"
    )
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row(n)) + "\n" for n in range(ROWS)))
    program = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nfrom ragmeter.cli.main import run\nrun()"
    asked = ("evaluate", "data.jsonl", "--metrics", "slow.py:slow", "--engine", "ray", "--out", "o")
    with subprocess.Popen(
        [python, "-c", program, *asked],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        wait_until(lambda: (tmp_path / "reached").exists() or process.poll() is not None, 120)
        others = descendants(process.pid)
        for _ in range(presses):
            os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted; the same command continues from o" in said
    assert "Traceback" not in said
    assert others
    wait_until(lambda: gone(others), 240, "processes of Ray are left")
