"""jieba's words, from its own dictionary and without its cache.

jieba 0.42.1 stores its parsed dictionary in the temporary folder, which everyone may write to, and unmarshals
the file there: the first process to create it determines the words, or crashes the interpreter. Here the
dictionary is read from the installed package, once per process.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from ragmeter.metrics._process import fork

_loading = fork.lock()


def jieba_cut() -> Callable[[str], Iterator[str]]:
    """Return jieba's ``cut``, with its default dictionary; nothing is loaded before the first call.

    Raises:
        ImportError: jieba is not installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba 0.42.1 has invalid escape sequences
        import jieba  # noqa: F401, PLC0415 -- optional dependency, slow to load
    return lambda text: _tokenizer().cut(text)


def _tokenizer() -> Any:
    with _loading:
        return _load_jieba()


@lru_cache(maxsize=1)
def _load_jieba() -> Any:
    import jieba  # noqa: PLC0415 -- see above

    tokenizer = jieba.Tokenizer()
    # Like `initialize`, but without reading or writing the temporary folder.
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return tokenizer
