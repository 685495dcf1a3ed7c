"""The README's first snippet prints what the README says it prints."""

import re
from pathlib import Path

from python_process import run_python

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def _plain(lines):
    """Without the time and the id of the run, which are others each time."""
    lines = re.sub(r"^\d\d:\d\d:\d\d", "HH:MM:SS", lines, flags=re.MULTILINE)
    return re.sub(r"run [0-9a-f]{8}$", "run ID", lines, flags=re.MULTILINE)


def test_the_first_snippet_prints_what_stands_below_it(tmp_path):
    snippet, shown = re.search(r"```python\n(.*?)```.*?```text\n(.*?)```", README, re.DOTALL).groups()
    app = tmp_path / "app.py"
    # How long the end of a script waits is another test's: here there is time.
    app.write_text(snippet + "\nmeter.flush(60)\n", encoding="utf-8")
    done = run_python("-I", app, timeout=120)

    assert (done.returncode, done.stdout) == (0, "")
    assert _plain(done.stderr) == _plain(shown)
    assert 'RagMeter(exporters="console")' in snippet


def test_every_picture_of_the_readme_is_there_and_described():
    pictures = re.findall(r"!\[(.*?)\]\((.*?)\)", README)

    assert pictures
    for described, path in pictures:
        assert len(described.split()) >= 5
        assert (Path(__file__).parents[1] / path).is_file()
