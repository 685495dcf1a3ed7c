"""jieba's dictionary comes from its package: the temporary folder is neither read nor written."""

import os

import pytest
from python_process import run_python

PROGRAM = """
from ragmeter.metrics.judged._quest_eval_scores import quest_tokenizer
print("|".join(quest_tokenizer("jieba", crud_compat=True)("云南省人民政府侨务办公室")))
"""


@pytest.mark.parametrize("planted", [b"", b"\xe9\x00\x00\x00\x00", None])
def test_no_cache_in_the_temporary_folder(tmp_path, planted):
    """Whatever lies there under the name of jieba's cache changes nothing, and nothing is added."""
    pytest.importorskip("jieba")
    if planted is not None:
        (tmp_path / "jieba.cache").write_bytes(planted)
    before = sorted(tmp_path.iterdir())
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run_python("-c", PROGRAM, env=environment, check=True)

    assert done.stdout.strip() == "云南省人民政府|侨务办公室"
    assert sorted(tmp_path.iterdir()) == before


def test_a_crafted_dictionary_there_is_not_believed(tmp_path):
    """A cache that says the whole phrase is one word: the package's dictionary decides."""
    import marshal

    pytest.importorskip("jieba")
    phrase = "云南省人民政府侨务办公室"
    words = {phrase[:end]: 0 for end in range(1, len(phrase))} | {phrase: 10**9}
    (tmp_path / "jieba.cache").write_bytes(marshal.dumps((words, 10**9)))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = run_python("-c", PROGRAM, env=environment, check=True)

    assert "|" in done.stdout
