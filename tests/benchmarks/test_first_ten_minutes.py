"""The first ten minutes are what their page says: read from it, run, and refused when something else comes out."""

import importlib
import sys
from pathlib import Path

import pytest
from python_process import run_python

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="benchmarks need Python 3.11")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def minutes(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("first_ten_minutes")


def test_every_command_of_the_page_belongs_to_a_numbered_section(minutes):
    """Five sections; nothing that a reader would type is left out."""
    page = minutes.PAGE.read_text("utf-8")
    sections = minutes.read(page)
    blocks = [block for section in sections for block in section.blocks]

    assert [section.number for section in sections] == [1, 2, 3, 4, 5]
    assert sum(block.kind == "bash" for block in blocks) == page.count("```bash\n")
    assert [block.kind for block in blocks].count("python") == 1
    assert {block.server for block in blocks if block.server} == {
        "http://127.0.0.1:6006",
        "http://127.0.0.1:4318",
    }
    for section in sections[1:]:
        assert any(block.shows for block in section.blocks), section.title


PAGE = """
# A page

## 1. Install

```bash
echo "made in $RAGMETER" > made
```

## 2. Use

```python
print("from the page")
```

```bash
cat made && python3 app.py
```

```text
from the page
```

## Not numbered

```bash
exit 7
```
"""


def test_blocks_are_run_in_order_in_one_folder(minutes):
    sections = minutes.read(PAGE)

    assert [one.title for one, seconds in minutes.walk(sections) if seconds >= 0] == ["Install", "Use"]


@pytest.mark.parametrize(
    ("instead", "said"), [("from elsewhere", "does not show"), ("from the page", "ended with 3")]
)
def test_what_does_not_come_out_is_an_error(minutes, instead, said):
    """Another output than the page shows, or a command that fails."""
    page = PAGE.replace('print("from the page")', f'print("{instead}")')
    if said.startswith("ended"):
        page = page.replace("python3 app.py\n", "python3 app.py\nexit 3\n")

    with pytest.raises(minutes.PageError, match=said):
        list(minutes.walk(minutes.read(page)))


def test_a_section_that_is_left_out_still_saves_its_application(minutes):
    page = PAGE.replace("cat made && ", "").replace("exit 7", "python3 app.py")
    page = page.replace("## Not numbered", "## 3. Again")

    assert [one.number for one, _ in minutes.walk(minutes.read(page), only={3})] == [3]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_first_score_and_the_build_that_fails():
    """The sections that need no server, in this environment; the others run with the script."""
    for needed in ("langchain_core", "opentelemetry.instrumentation.auto_instrumentation"):
        pytest.importorskip(needed)
    script = ROOT / "benchmarks" / "first_ten_minutes.py"
    done = run_python(str(script), "2", "5", "--venv", sys.prefix)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "5. A build that fails" in done.stdout
