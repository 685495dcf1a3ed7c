"""A real OTLP receiver and real processes for the command line."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from otlp_receiver import OtlpReceiver
from python_process import plain_environment
from warm_interpreter import WarmInterpreter

PREPARATION = """
import langchain_core.callbacks.manager
import langchain_core.language_models.fake_chat_models
import langchain_core.prompts.chat
import langchain_core.tracers.event_stream
import openai
import opentelemetry.exporter.otlp.proto.http.trace_exporter
import ragmeter.cli.app
import ragmeter.cli.demo._page
import ragmeter.cli.demo._report
import ragmeter.cli.demo._with_langchain
import ragmeter.cli.demo._with_llama_index
import ragmeter.cli.run.inside
from ragmeter.metrics import evaluate

for question in ("What is the harbour bridge?", "Где озеро Байкал?", "贝加尔湖有多深？"):
    evaluate([{"question": question, "contexts": [question, "4"], "answer": question, "reference": {"answer": question}}])
"""


STAY = """
import os, types
from importlib import import_module

import ragmeter._port

def go_on(_, command, environment):
    os.environ.update(environment)
    if "RAGMETER_DOCTOR" in environment:
        ragmeter._port.examined = {}  # as its import decides
    sys.argv[:] = command[1:]
    module, _, function = environment["RAGMETER_STARTUP"].partition(":")
    getattr(import_module(module), function)()
    program = sys.modules["__main__"] = types.ModuleType("__main__")  # lives until the end
    program.__file__ = command[1]
    with open(command[1]) as text:
        exec(compile(text.read(), command[1], "exec"), vars(program))
    sys.exit()

os.execve = go_on
"""
"""The process continues as the program with the frameworks imported, which saves two thirds of the time."""


@pytest.fixture
def otlp() -> Iterator[OtlpReceiver]:
    """Yield an OTLP/HTTP receiver that decodes its requests."""
    receiver = OtlpReceiver()
    yield receiver
    receiver.close()


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the developer's endpoints from the environment of these tests."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RAGMETER_DEMO_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmInterpreter]:
    """Yield an interpreter that has imported the frameworks and the command line."""
    interpreter = WarmInterpreter(PREPARATION)
    yield interpreter
    interpreter.close()


@pytest.fixture(scope="session")
def command(
    warm: WarmInterpreter, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., CompletedProcess[str]]:
    """Run a command in a separate process, with only the named configuration."""

    def run(
        *arguments: str, cwd: Path | None = None, before: str = "", **environment: str
    ) -> CompletedProcess[str]:
        program = warm.start(
            f"import sys\n{before}\nfrom ragmeter.cli.main import run; run()",
            *arguments,
            cwd=cwd or tmp_path_factory.getbasetemp(),
            env=plain_environment() | environment,
        )
        return program.end()

    return run


@pytest.fixture
def in_place(
    command: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> Callable[..., CompletedProcess[str]]:
    """Run a command that becomes another program, which starts with the frameworks imported."""
    return partial(command, cwd=tmp_path, before=STAY)
