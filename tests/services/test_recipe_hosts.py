"""The recipes of hosts with a page or a kernel of their own: a person asks in Chromium, and the request is scored."""

import json
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import free_port, running, wait_until

RECIPES = Path(__file__).parents[2] / "examples" / "recipes"
QUESTION = "How long is a voucher valid?"
ANSWER = "A voucher is valid for two years."


@pytest.fixture(scope="session")
def hosts():
    """The folder of commands of an environment with Chainlit, Streamlit and Jupyter."""
    python = os.environ.get("RAGMETER_TEST_HOSTS_PYTHON")
    if not python:
        pytest.skip(
            "RAGMETER_TEST_HOSTS_PYTHON names no Python with chainlit and streamlit; .ci/services sets one up"
        )
    return Path(python).parent


@pytest.fixture(scope="module")
def pages():
    """A browser that minds no other hosts: pages of these hosts ask for fonts, in vain."""
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if not executable:
        pytest.skip("no chromium found; .ci/services installs it")
    pytest.importorskip("websockets", reason="no websockets; .ci/services installs it")
    from chromium import Chromium

    with Chromium(executable) as chromium:
        yield chromium


@pytest.fixture
def served(hosts, tmp_path):
    """A function that runs a recipe's server: its command, the path that answers when it is ready."""

    @contextmanager
    def run(command, ready):
        port = free_port()
        environment = {
            **os.environ,
            "PYTHONPATH": str(RECIPES),
            "RAGMETER_JSONL": str(tmp_path / "scored.jsonl"),
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
            "HOME": str(tmp_path),
            "CHAINLIT_APP_ROOT": str(tmp_path),
        }
        words = [word.format(port=port) for word in command]
        # Hosts write settings and translations beside the program they run.
        (tmp_path / words[2]).write_text((RECIPES / words[2]).read_text("utf-8"), "utf-8")
        with running(
            [str(hosts / words[0]), words[1], str(tmp_path / words[2]), *words[3:]],
            tmp_path / "server.log", f"http://127.0.0.1:{port}{ready}", timeout_s=120, env=environment,
        ):  # fmt: skip
            yield f"http://127.0.0.1:{port}"

    return run


def scored(folder):
    """Return question, answer, status and verdict of each request in the file, once there is one."""
    path = folder / "scored.jsonl"
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), 60, "nothing was scored")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [(one["question"], one["answer"], one["status"], one["verdict"]["word"]) for one in lines]


def is_there(page, selector):
    return lambda: page.evaluate(f"!!document.querySelector({json.dumps(selector)})")


def type_into(page, selector, text):
    wait_until(is_there(page, selector), 60, selector)
    page.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
    page.call("Input.insertText", text=text)


def send(page, button):
    """Press a button, once there is a connection and it can be pressed."""
    wait_until(is_there(page, button), 60, button)
    page.evaluate(f"document.querySelector({json.dumps(button)}).click()")


def test_a_chat_in_streamlit(served, pages, tmp_path):
    command = ["streamlit", "run", "streamlit_app.py", "--server.port={port}", "--server.address=127.0.0.1",
               "--server.headless=true", "--browser.gatherUsageStats=false"]  # fmt: skip
    with served(command, "/_stcore/health") as url:
        page = pages.open(url)
        type_into(page, '[data-testid="stChatInputTextArea"]', QUESTION)
        send(page, '[data-testid="stChatInputSubmitButton"]:not([disabled])')
        page.wait_for(ANSWER)

        assert scored(tmp_path) == [(QUESTION, ANSWER, "ok", "good")]


def test_a_chat_in_chainlit(served, pages, tmp_path):
    command = ["chainlit", "run", "chainlit_app.py", "--headless", "--port={port}", "--host=127.0.0.1"]
    with served(command, "/project/translations?language=en-US") as url:
        page = pages.open(url)
        type_into(page, "#chat-input", QUESTION)
        send(page, "#chat-submit:not([disabled])")
        page.wait_for(ANSWER)

        assert scored(tmp_path) == [(QUESTION, ANSWER, "ok", "good")]


def test_the_notebook_shows_its_results_as_a_table(hosts, tmp_path):
    run = (
        "import sys, json, nbformat, nbclient; "
        f"notebook = nbformat.read({str(RECIPES / 'notebook.ipynb')!r}, 4); "
        f"nbclient.NotebookClient(notebook, timeout=120, resources={{'metadata': {{'path': {str(RECIPES)!r}}}}}).execute(); "
        "print(json.dumps([[output.get('data', {}) for output in cell.outputs] for cell in notebook.cells if cell.cell_type == 'code']))"
    )
    done = subprocess.run(
        [hosts / "python", "-c", run], capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [tables, [verdicts], [*_, evaluation]] = json.loads(done.stdout)

    assert "lexical_groundedness" in tables[-1]["text/html"]
    assert verdicts["text/plain"].count(": 'good'") == 2
    shown = evaluation["text/html"]
    assert "<b>2 requests</b>" in shown
    assert 'aria-label="2 values of lexical_groundedness from 0 to 1; mean' in shown
    assert re.search(r'data-is="95 % interval">0\.\d\d – [01]\.\d\d<', shown)
    assert shown.index("95 % interval") < shown.index("Worst first") < shown.index("goods be sent back")
    assert "<script" not in shown
