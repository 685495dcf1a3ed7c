"""A program that a command of ours looks at runs as without us: what it sees, says, and ends with."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from python_process import run_python

from ragmeter.cli.program import program_command
from ragmeter.metrics import ConfigurationError

STARTER = """
import sys
from ragmeter.cli.program import become_program, program_command
become_program(program_command(sys.argv[1], sys.argv[2:]), "begun:begin", {"GIVEN": "yes"})
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "begun.py").write_text("import os\ndef begin():\n    os.write(2, b'begun\\n')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def run(*arguments, **given):
    return subprocess.run(
        [sys.executable, "-c", STARTER, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **given,
    )


def plainly(*arguments):
    return run_python(*arguments)


PROGRAMS = {
    "arguments and path": "import sys; print(sys.argv, sys.path, __name__, __file__, __spec__)",
    "output of both kinds": "import sys; print('out'); print('err', file=sys.stderr)",
    "an exit status": "raise SystemExit(7)",
    "an exit message": "raise SystemExit('no')",
    "an error": "def f():\n    1/0\nf()",
    "a signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "a hard end": "import os; os._exit(9)",
    "functions at its end": "import atexit; atexit.register(print, 'last')",
    "processes of its own": "import multiprocessing as m\nclass C: pass\ndef f(c):\n    print(type(c).__module__, flush=True)\n"
    "if __name__ == '__main__':\n    p = m.get_context('spawn').Process(target=f, args=(C(),)); p.start(); p.join()",
    "modules loaded": "import sys; print(sorted(m for m in sys.modules if m.partition('.')[0] in ('ragmeter', 'typer', 'opentelemetry')))",
}


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_as_without_us(folder, source):
    (folder / "app.py").write_text(source)
    alone, looked_at = plainly("app.py", "--flag", "a b"), run("app.py", "--flag", "a b")
    said = looked_at.stderr.replace("begun\n", "")
    assert (looked_at.returncode, looked_at.stdout, said) == (alone.returncode, alone.stdout, alone.stderr)
    assert looked_at.stderr.startswith("begun\n")


def test_input_variables_and_the_environments_own_sitecustomize_reach_it(folder):
    (folder / "sitecustomize.py").write_text("import builtins; builtins.custom = __name__")
    (folder / "app.py").write_text("import os; print(input(), os.environ['GIVEN'], custom)")
    assert run("app.py", input="typed\n").stdout == "typed yes sitecustomize\n"


def test_a_signal_to_the_command_is_one_to_the_program_and_comes_once(folder):
    (folder / "app.py").write_text(
        "import os, signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # some job runners ignore it\n"
        "try:\n    print(os.getpid(), flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('asked to end', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, "app.py"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert int(process.stdout.readline()) == process.pid
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
    assert (said, process.returncode) == ("asked to end\n", 0)


@pytest.mark.parametrize(
    ("made", "status"),
    [("def main(): print('ran')", 0), ("async def main():\n    print('ran')\n    return 3", 3)],
)
def test_a_function_is_a_program(folder, made, status):
    (folder / "app.py").write_text(made)
    ended = run("app:main", "x")
    assert (ended.stdout, ended.returncode) == ("ran\n", status)


def test_a_module_and_a_command_beside_the_interpreter_are_programs(folder):
    beside = Path(sys.executable).with_name("pytest")
    assert program_command("http.server", ["--bind"], is_module=True) == [
        *(sys.executable, "-m", "http.server", "--bind")
    ]
    assert program_command("pytest", ["-q"])[1:] == ["-q"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder))
        assert program_command("pytest") == [str(beside)]


def test_an_installed_command_is_a_program_and_a_failing_begin_does_not_stop_one(folder):
    (folder / "begun.py").write_text("def begin(): raise ValueError('broken')")
    script = folder / "tool"
    script.write_text(f"#!{sys.executable}\nprint('tool')")
    script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    ended = run("tool", env=environment)
    assert (ended.returncode, ended.stdout) == (0, "tool\n")
    assert "broken" in ended.stderr


def test_processes_of_another_environment_run_as_they_would_and_the_program_says_so(folder):
    """Where ragmeter is not installed, a program cannot be scored; what it starts has none of it in its output."""
    (folder / "app.py").write_text(
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(1, flush=True)'])\nprint(2)"
    )
    (folder / "begun.py").unlink()
    ended = run("app.py")
    assert (ended.returncode, ended.stdout) == (0, "1\n2\n")
    assert ended.stderr == f"begun is not installed for {sys.executable}: nothing of this program is seen\n"


@pytest.mark.parametrize("options", [["-I"], ["-u", "-E"], ["-sS"]])
def test_options_that_start_python_without_us_are_refused(folder, options):
    ended = run("python", *options, "-c", "print('ran')")
    assert ended.returncode == 1
    assert f"python {options[-1]}: Python starts without ragmeter; leave it out" in ended.stderr
    assert run("python", "-u", "-c", "print('-I')").stdout == "-I\n"


def test_what_is_no_program_is_refused_with_what_may_be_meant(folder):
    (folder / "app.py").touch()
    (folder / "package").mkdir()
    for target, said in (
        ("ap.py", "did you mean app.py?"),
        ("nothing-like-it", "pass app.py or module:function"),
        ("package", "without __main__.py"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            program_command(target)
