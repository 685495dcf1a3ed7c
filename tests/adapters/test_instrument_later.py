"""`instrument` before the application has imported its framework: nothing is imported for it, nothing is missed."""

import sys
import textwrap
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from pathlib import Path
from types import ModuleType

import pytest
from python_process import plain_environment, run_python

from ragmeter import ConfigurationError, RagMeter
from ragmeter.adapters import default_meter, instrument
from ragmeter.metrics._process.after_import import after_import

METERS = """
import sys
from ragmeter import RagMeter
from ragmeter.adapters import default_meter, instrument, uninstrument
from ragmeter.exporters.memory import InMemoryExporter

scored = [InMemoryExporter(), InMemoryExporter()]
first, second = [RagMeter(metrics=["retrieval_health"], exporters=[one]) for one in scored]

def loaded():
    names = ("langchain_core.runnables.base", "llama_index.core")
    return [name.partition(".")[0] for name in names if name in sys.modules]

def counts():
    assert first.flush(60) and second.flush(60)
    return [len(one.results) for one in scored]

def ask_langchain():
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Search(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [Document("Ferries leave the harbour every hour.")]

    (Search() | (lambda documents: documents[0].page_content)).invoke("When do ferries leave?")

def ask_llama_index():
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.llms import MockLLM
    from llama_index.core.schema import TextNode

    index = VectorStoreIndex([TextNode(text="Ferries leave every hour.")], embed_model=MockEmbedding(8))
    index.as_query_engine(llm=MockLLM()).query("When do ferries leave?")

instrument(first)
assert not loaded(), loaded()
"""


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            """
            ask_langchain()
            assert loaded() == ["langchain_core"] and counts() == [1, 0]
            ask_llama_index()
            assert counts() == [2, 0]
            """,
            id="each framework when it is imported",
        ),
        pytest.param(
            """
            instrument(second)
            ask_llama_index()
            assert counts() == [0, 1]
            instrument(first)
            ask_langchain()
            ask_llama_index()
            assert counts() == [2, 1]
            """,
            id="for the meter of the last call",
        ),
        pytest.param(
            """
            uninstrument(frameworks=["llama_index"])
            assert default_meter() is first
            ask_llama_index()
            assert counts() == [0, 0]
            uninstrument()
            assert default_meter() is None
            ask_langchain()
            assert counts() == [0, 0]
            """,
            id="unless taken back",
        ),
        pytest.param(
            """
            import importlib, threading
            several = [threading.Thread(target=importlib.import_module, args=(name,))
                       for name in ("langchain_core.runnables", "langchain_core.messages") * 2]
            for one in several: one.start()
            for one in several: one.join()
            ask_langchain()
            assert counts() == [1, 0]
            import inspect
            core = sys.modules["langchain_core.runnables.base"]
            assert type(core.__spec__.loader).__module__ == "_frozen_importlib_external"
            assert "class Runnable" in inspect.getsource(core)
            """,
            id="by several threads, with the modules' own loader",
        ),
        pytest.param(
            """
            import ragmeter.adapters
            def fail(name): raise RuntimeError("broken")
            ragmeter.adapters.import_module = fail
            ask_langchain()
            assert counts() == [0, 0]
            assert second.stats().internal_errors == {"langchain.attach": 1}
            """,
            id="an error while attaching is contained",
        ),
    ],
)
def test_a_framework_is_attached_when_it_is_imported(tmp_path: Path, lines: str) -> None:
    (tmp_path / "application.py").write_text(METERS + textwrap.dedent(lines), encoding="utf-8")
    done = run_python(str(tmp_path / "application.py"), env=plain_environment(), timeout=300)

    assert done.returncode == 0, done.stderr


def test_a_wrong_setting_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not within an import, where no one could see it."""
    monkeypatch.delitem(sys.modules, "llama_index.core", raising=False)
    monkeypatch.setenv("RAGMETER_RETRIEVAL_TOOLS", "search:colour=red")
    with pytest.raises(ConfigurationError, match="colour"):
        instrument(RagMeter(metrics=[], exporters=[]), frameworks=["llama_index"])
    assert default_meter() is None


def test_only_the_first_import_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_up_module.py").write_text("value = 1", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    calls: list[int] = []
    called = calls.append

    def call() -> None:
        called(sys.modules["made_up_module"].value)

    for module in ("made_up_module", "made_up_module", "no_such_module_at_all"):
        after_import(module, call)
    with pytest.raises(ModuleNotFoundError):
        __import__("no_such_module_at_all")
    for _ in range(2):
        __import__("made_up_module")
        monkeypatch.delitem(sys.modules, "made_up_module")
    assert calls == [1]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_finder_in_front_hides_no_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lazy: bool) -> None:
    """Type checkers' import hooks find modules ahead of all others. The end of the next import reports them.

    A lazy module's execution may have begun at any time: it is not touched.
    """
    executed: list[str] = []
    monkeypatch.setattr(sys, "made_up", executed.append, raising=False)
    for name, line in (("core", "import made_up_inner"), ("inner", ""), ("next", "")):
        text = f"import sys\n{line}\nsys.made_up(__name__)\nvalue = 1"
        (tmp_path / f"made_up_{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, f"made_up_{name}", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))

    class Front(PathFinder):
        @classmethod
        def find_spec(
            cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
        ) -> ModuleSpec | None:
            spec = super().find_spec(fullname, path, target) if fullname == "made_up_core" else None
            if lazy and spec is not None and spec.loader is not None:
                spec.loader = LazyLoader(spec.loader)
            return spec

    calls: list[int] = []
    call = calls.append
    after_import("made_up_core", lambda: call(__import__("made_up_next").value))
    monkeypatch.setattr(sys, "meta_path", [Front, *sys.meta_path])
    assert __import__("made_up_core").value == 1
    assert calls == []
    __import__("made_up_next")
    assert calls == ([] if lazy else [1])
    assert sorted(executed) == ["made_up_core", "made_up_inner", "made_up_next"]
