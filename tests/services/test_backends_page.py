"""The settings and snippets of docs/backends.md and docs/dashboards.md are usable as they stand there."""

import os
import re
from pathlib import Path

import pytest
from python_process import run_python

from ragmeter.settings.config import PREFIX, Settings

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "backends.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_every_snippet_runs(number):
    code = SNIPPETS[number].replace("9464", "0")
    code += "\nif 'meter' in globals():\n    meter.shutdown(60)\n"
    env = {**os.environ, "LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-1"}
    done = run_python("-I", "-c", code, env=env)
    assert done.returncode == 0, done.stderr


def test_there_are_snippets_for_phoenix_prometheus_langfuse_and_mlflow():
    assert len(SNIPPETS) == 4


def test_every_variable_of_ours_exists():
    named = set(re.findall(r"\bRAGMETER_[A-Z_]+", PAGE))
    assert named
    assert named <= {PREFIX + field.upper() for field in Settings.model_fields}


@pytest.mark.parametrize("page", ["backends.md", "dashboards.md"])
def test_every_picture_and_page_that_is_linked_exists(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        file = DOCS / target
        assert file.exists(), target
        assert file.suffix != ".png" or file.stat().st_size < 200_000


def test_every_picture_has_the_words_of_its_page_beside_it():
    """Drawn ones hold their words: tests/benchmarks/test_alarms.py compares them."""
    pictures, words = ({file.stem for file in (DOCS / "images").glob(kind)} for kind in ("*.png", "*.txt"))
    assert pictures == words
