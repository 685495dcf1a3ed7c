"""`ragmeter run`: programs that know nothing of ragmeter run as they are, and their requests are scored."""

import json
import os
import re
import signal
import sys
from itertools import cycle
from urllib.request import urlopen

import pytest
from python_process import plain_environment, run_python

from ragmeter.cli.run import inside
from ragmeter.cli.run.plan import Plan

LANGCHAIN = """
import sys
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever

class Search(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document("Ferries leave the harbour every hour.")]

model = FakeListChatModel(responses=["The bridge was designed by Ralph Freeman in London."])
prompt = ChatPromptTemplate.from_template("{context} {question}")
chain = {"context": Search(), "question": lambda asked: asked} | prompt | model
print(chain.invoke("Who designed the harbour bridge?").content, sys.argv[1:])
"""
LLAMA_INDEX = """
import sys
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode

index = VectorStoreIndex([TextNode(text="Ferries leave every hour.")], embed_model=MockEmbedding(8))
print(len(str(index.as_query_engine(llm=MockLLM()).query("When do ferries leave?"))) > 0, sys.argv[1:])
"""
OWN_SDK = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda span: span.name)))
trace.set_tracer_provider(provider)
with trace.get_tracer("shop").start_as_current_span("theirs"):
    exec(open("shop_bot.py").read())
"""

ASK_LANGCHAIN = LANGCHAIN.partition("print(")[0] + (
    'ask = lambda config=None: chain.invoke("Who designed the harbour bridge?", config)\n'
)
ASK_LLAMA_INDEX = LLAMA_INDEX.partition("print(")[0] + (
    "engine = index.as_query_engine(llm=MockLLM())\n"
    'ask = lambda config=None: engine.query("When do ferries leave?")\n'
)
METER = """
from ragmeter import RagMeter
from ragmeter.exporters.jsonl import JsonlExporter
meter = RagMeter(exporters=[JsonlExporter("own.jsonl")])
"""
HANDLER = {
    ASK_LANGCHAIN: """
from ragmeter.adapters.langchain import RagMeterCallbackHandler
ask({"callbacks": [RagMeterCallbackHandler(meter)]})
""",
    ASK_LLAMA_INDEX: """
from ragmeter.adapters.llama_index import RagMeterHandler
with RagMeterHandler(meter).attach():
    ask()
""",
}
INSTRUMENT = """
from ragmeter.adapters import instrument
instrument(meter)
ask()
"""
PROCESSOR = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from ragmeter.adapters.opentelemetry import RagMeterSpanProcessor

provider = TracerProvider()
RagMeterSpanProcessor(meter).attach(provider)
tracer = provider.get_tracer("shop")
with tracer.start_as_current_span("ask") as request:
    request.set_attributes({"openinference.span.kind": "CHAIN", "input.value": "When do ferries leave?"})
    with tracer.start_as_current_span("search") as search:
        search.set_attribute("openinference.span.kind", "RETRIEVER")
        search.set_attribute("retrieval.documents.0.document.content", "Ferries leave every hour.")
    ask()
    request.set_attribute("output.value", "Every hour.")
provider.force_flush()
"""
BY_HAND = """
with meter.request("When do ferries leave?") as request:
    request.retrieved(["Ferries leave every hour."])
    ask()
    request.answered("Every hour.")
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop_bot.py").write_text(LANGCHAIN)
    (tmp_path / "llama.py").write_text(LLAMA_INDEX)
    (tmp_path / "own_sdk.py").write_text(OWN_SDK)
    (tmp_path / "fails.py").write_text(LANGCHAIN + "sys.exit(7)")
    (tmp_path / "killed.py").write_text("import os; os.kill(os.getpid(), 15)")
    (tmp_path / "unrelated.py").write_text("print('done')")
    return tmp_path


def run(folder, *arguments):
    """Run a program as a user does: in a fresh interpreter."""
    return run_python(
        "-Ic",
        "from ragmeter.cli.main import run; run()",
        "run",
        *arguments,
        cwd=folder,
        env=plain_environment() | {"XDG_STATE_HOME": str(folder / "state")},
        timeout=200,
    )


@pytest.mark.parametrize("program", ["llama.py", "own_sdk.py", "-m fails"])
def test_an_application_that_knows_nothing_of_ragmeter_is_scored(in_place, folder, otlp, program):
    """What it prints and ends with is its own; a provider that it sets stays its own."""
    asked = ("--otlp", otlp.url, *program.split(), "--flag", "x")
    done = run(folder, *asked) if program == "-m fails" else in_place("run", *asked)

    assert done.returncode == (7 if program == "-m fails" else 0), done.stderr
    assert "['--flag', 'x']" in done.stdout
    assert f"ragmeter run: look at {otlp.url}" in done.stderr.splitlines()[0]
    lines = re.findall(r"^\d\d:\d\d:\d\d  (\w+) .* trace [0-9a-f]{32}$", done.stderr, re.MULTILINE)
    assert len(lines) == 1
    assert f"ragmeter run: 1 {lines[0]}; look at {otlp.url}" in done.stderr
    assert sorted(span.name.split()[0] for span in otlp.spans) == ["invoke_workflow", "retrieval"]
    assert otlp.records
    assert not any(b"harbour" in body for body in otlp.bodies)
    if program == "own_sdk.py":
        assert "theirs" in done.stdout
    else:
        assert len(done.stdout.splitlines()) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_it_ends_as_the_program_ends(in_place, folder, otlp):
    assert in_place("run", "--otlp", otlp.url, "killed.py").returncode == -signal.SIGTERM
    done = in_place("run", "--otlp", otlp.url, "unrelated.py")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "no RAG request was seen; ragmeter doctor says why" in done.stderr


TRACED = """
from opentelemetry.sdk.trace import TracerProvider

with TracerProvider().get_tracer("shop").start_as_current_span("chat"):
    print("answered")
"""


def test_a_program_that_traces_itself_is_shown_the_way_to_score_its_spans(folder, otlp, capsys, monkeypatch):
    """Without LangChain and LlamaIndex there is nothing else to score."""
    (folder / "traced.py").write_text(TRACED)
    done = run(folder, "--otlp", otlp.url, "traced.py")
    line = "no RAG request was seen; the program traces itself (opentelemetry.sdk): "
    assert line + "ragmeter serve scores its spans" in done.stderr

    import opentelemetry.sdk.trace  # noqa: F401 -- as such a program does

    monkeypatch.setattr(inside, "_has_workers", lambda: False)
    inside._Process(Plan(os.getpid(), "shop", "page", "http://127.0.0.1:4318")).say_how_it_went()
    said = capsys.readouterr().err
    assert "with OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318, ragmeter serve scores its spans" in said


HOOKED = """
import sys
from importlib.machinery import PathFinder
from importlib.util import LazyLoader

class Front(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        spec = super().find_spec(fullname, path, target)
        if LAZY and fullname == "langchain_core.runnables.base":
            spec.loader = LazyLoader(spec.loader)
        return spec

sys.meta_path.insert(0, Front)
exec(open("shop_bot.py").read())
"""


@pytest.mark.parametrize("lazy", [False, True])
def test_an_import_hook_in_front_that_hides_the_framework_is_named(folder, otlp, lazy):
    """It finds every module, so that no import can be noticed, or one that is executed later."""
    (folder / "hooked.py").write_text(f"LAZY = {lazy}{HOOKED}")
    done = run(folder, "--otlp", otlp.url, "hooked.py")
    line = "no RAG request was seen: an import hook of the program imported LangChain past ragmeter's; "
    assert line + "call ragmeter.adapters.instrument() after the import" in done.stderr


SPAWNS = """
import multiprocessing, runpy, sys

HEAVY = ("langchain_core", "llama_index.core", "pydantic", "opentelemetry.sdk", "ragmeter.meter")

def work(number):
    if number:
        runpy.run_path("shop_bot.py")
    print(number, [name for name in HEAVY if name in sys.modules])

if __name__ == "__main__":
    for number in (0, 1):
        worker = multiprocessing.get_context("spawn").Process(target=work, args=(number,))
        worker.start()
        worker.join()
    print("main", [name for name in HEAVY if name in sys.modules])
"""


def test_a_process_pays_only_for_what_it_imports(folder, otlp):
    """Servers give their workers seconds to start; importing the other framework took longer."""
    (folder / "workers.py").write_text(SPAWNS)
    done = run(folder, "--otlp", otlp.url, "workers.py")

    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line[0] in "01m"]
    assert said == [
        "0 []",
        "1 ['langchain_core', 'pydantic', 'opentelemetry.sdk', 'ragmeter.meter']",
        "main []",
    ]
    assert len(re.findall(r"^\d\d:\d\d:\d\d  (\w+) .* trace [0-9a-f]{32}$", done.stderr, re.MULTILINE)) == 1
    assert "no RAG request was seen in this process" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_what_forked_workers_scored_is_not_denied_at_the_end(in_place, folder, otlp):
    (folder / "shop_bot.py").write_text(
        "import os\nworker = os.fork()\nif worker: os.waitpid(worker, 0); raise SystemExit\n" + LANGCHAIN
    )
    done = in_place("run", "--otlp", otlp.url, "shop_bot.py")

    assert re.search(r"^\d\d:\d\d:\d\d  \w+ .* trace [0-9a-f]{32}$", done.stderr, re.MULTILINE)
    assert "no RAG request was seen in this process" in done.stderr
    assert "doctor" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_the_last_line_is_the_programs_alone(in_place, folder, otlp):
    """A forked worker has the program's counts and exit handlers, and may end before it."""
    (folder / "shop_bot.py").write_text(
        LANGCHAIN + "import os\nworker = os.fork()\nif worker: os.waitpid(worker, 0)\n"
        'else: chain.invoke("Who built it?")\n'
    )
    done = in_place("run", "--otlp", otlp.url, "shop_bot.py")

    assert len(re.findall(r" trace [0-9a-f]{32}$", done.stderr, re.MULTILINE)) == 2, done.stderr
    assert len(re.findall("^ragmeter run: 1 .* in this process; look at", done.stderr, re.MULTILINE)) == 1, (
        done.stderr
    )
    assert done.stderr.count("ragmeter run: ") == 2, done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="running children are known on Linux")
def test_a_worker_that_outlives_the_program_is_none_of_its_faults(in_place, folder, otlp):
    """A development server's reloader ends at Ctrl-C without waiting for the server."""
    (folder / "reloader.py").write_text(
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)"
    )
    done = in_place("run", "--otlp", otlp.url, "reloader.py")
    assert "no RAG request was seen in this process" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_page_is_started_once_and_has_the_request_with_its_texts(in_place, folder):
    first = run(folder, "shop_bot.py")
    started = re.search(r"to end it: kill (\d+)", first.stderr)
    try:
        assert first.returncode == 0, first.stderr
        link = re.search(r"http://127\.0\.0\.1:\d+/trace/[0-9a-f]{32}", first.stderr)
        assert link is not None, first.stderr
        assert '"Who designed the harbour bridge?"' in first.stderr
        with urlopen(link[0], timeout=60) as page:
            shown = page.read().decode()
        assert "Ralph Freeman in London" in shown
        assert "shop_bot" in shown

        second = in_place("run", "shop_bot.py", XDG_STATE_HOME=str(folder / "state"))
        assert "to end it" not in second.stderr
        assert link[0].partition("/trace")[0] in second.stderr
    finally:
        if started is not None:
            os.kill(int(started[1]), signal.SIGTERM)


OWN_METERS = [
    *((ASK_LANGCHAIN, *each) for each in zip(["instrument", "handler", "processor", "by hand"], cycle(["at import", "later"]))),
    (ASK_LLAMA_INDEX, "instrument", "later"),
    (ASK_LLAMA_INDEX, "handler", "at import"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("framework", "way", "built"),
    [
        pytest.param(*each, id=f"{'langchain' if each[0] is ASK_LANGCHAIN else 'llama_index'}-{each[1]}-{each[2]}")
        for each in OWN_METERS
    ],
)  # fmt: skip
def test_a_request_is_scored_once_by_the_programs_own_meter(in_place, tmp_path, otlp, framework, way, built):
    """What the program's meter writes is its own; what run shows are the same scores."""
    attached = {"instrument": INSTRUMENT, "processor": PROCESSOR, "by hand": BY_HAND}
    lines = attached.get(way, HANDLER[framework])
    earlier = "ask()\n" if built == "later" else ""
    program = framework + earlier + METER + lines
    if built == "at import":
        program = METER + framework + lines
    (tmp_path / "own.py").write_text(program)

    done = in_place("run", "--otlp", otlp.url, "own.py")

    assert done.returncode == 0, done.stderr
    told = re.findall(r"^\d\d:\d\d:\d\d  (\w+) ", done.stderr, re.MULTILINE)
    expected = 2 if earlier else 1
    assert len(told) == expected, done.stderr
    assert sum(map(int, re.findall(r"(\d+) (?:good|suspect|bad|unknown)", done.stderr))) == expected
    sent = [span.name.split()[0] for span in otlp.spans]
    assert sent.count("invoke_workflow") == expected
    rows = [json.loads(line) for line in (tmp_path / "own.jsonl").read_text().splitlines()]
    assert len(rows) == 1


@pytest.mark.parametrize(
    ("lines", "own"),
    [
        ("from ragmeter.adapters import instrument\ninstrument()\nask()\n", 1),
        ("instrument = __import__('ragmeter.adapters').adapters.instrument\nask()\n", 0),
    ],
    ids=["the meter of the settings", "none"],
)
def test_the_settings_of_the_program_stay_its_own(in_place, tmp_path, otlp, lines, own):
    """`instrument()` makes the program's meter, of its variables, as without run."""
    (tmp_path / "own.py").write_text(
        ASK_LANGCHAIN + lines + f"import ragmeter.adapters as ours\nmade = ours.default_meter()\n"
        f"assert (made is not None) == {bool(own)}\n"
    )
    done = in_place("run", "--otlp", otlp.url, "own.py", RAGMETER_JSONL="own.jsonl", RAGMETER_CONSOLE="1")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\d\d:\d\d:\d\d  ", done.stderr, re.MULTILINE)) == 1, done.stderr
    assert len((tmp_path / "own.jsonl").read_text().splitlines()) == 1


def test_a_meter_that_cannot_be_made_leaves_the_requests_to_run(in_place, tmp_path, otlp):
    wrong = "import ragmeter\ntry:\n    ragmeter.RagMeter(references='no.csv')\nexcept ragmeter.RagmeterError:\n    ask()\n"
    (tmp_path / "own.py").write_text(ASK_LANGCHAIN + wrong)
    done = in_place("run", "--otlp", otlp.url, "own.py")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\d\d:\d\d:\d\d  ", done.stderr, re.MULTILINE)) == 1, done.stderr


def test_two_meters_of_a_program_are_both_shown(in_place, tmp_path, otlp):
    (tmp_path / "own.py").write_text(
        ASK_LANGCHAIN + METER + HANDLER[ASK_LANGCHAIN] + METER.replace("own.", "two.") + HANDLER[ASK_LANGCHAIN]
    )
    done = in_place("run", "--otlp", otlp.url, "own.py")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\d\d:\d\d:\d\d  ", done.stderr, re.MULTILINE)) == 2, done.stderr
    assert [len((tmp_path / f"{one}.jsonl").read_text().splitlines()) for one in ("own", "two")] == [1, 1]
