"""Every shell command of the README, the folders' READMEs and the guide runs, page by page, as its reader would run it."""

import gzip
import json
import socket

import pytest
from documented_shell import Shell
from openai_server import OpenAIServer
from otlp_receiver import OtlpReceiver
from test_documented_blocks import ROOT, _blocks

pytestmark = pytest.mark.service

NOT_RUN = {
    "python3 -m venv .venv && .venv/bin/pip install --quiet '.[demo]' && .venv/bin/ragmeter demo": (
        ".ci/run runs it as it stands, in an environment of its own"
    ),
    "python3 -m venv .venv && .venv/bin/pip install --quiet -e '.[test]' && .venv/bin/pytest -n auto --dist loadfile": (
        ".ci/run runs it as it stands: it is the whole suite"
    ),
    "python3 -m venv .venv-phoenix && .venv-phoenix/bin/pip install --quiet arize-phoenix": (
        "half a gigabyte; benchmarks/first_ten_minutes.py runs it"
    ),
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:6006 OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf \\": (
        "needs that Phoenix"
    ),
    "curl --silent 'http://127.0.0.1:6006/v1/projects/default/spans?limit=100' | grep --only-matching '\"ragmeter.verdict\":\"bad\"' | head -n 1": (
        "needs that Phoenix"
    ),
    "python benchmarks/setup_peers.py   # once: the peers' environments, .venv-bench-*, from peers.toml": (
        "hours; tests/benchmarks runs every benchmark in its short form"
    ),
    "ragmeter run app.py an-argument-of-its-own": "runs programs of the reader's: tests/cli/test_run.py",
    "ragmeter evaluate january.parquet --judge-model gpt-4o-mini --out scores --engine ray --processes 8": (
        "Ray is an environment of its own: tests/services/test_ray.py"
    ),
}
"""The first line of a block that does not run, and why."""
KEYS = {"ragmeter label": "4\n5\n2\n1\n3\n" * 12}
"""What the reader types, by what a block begins with."""
BACKENDS = (
    "http://backend:4318", "http://collector:4318", "http://collector:14318", "http://phoenix:6006",
)  # fmt: skip
"""What the pages call whatever takes OTLP over HTTP."""
PAGES = _blocks("bash")
ROWS = 40


def _first(code):
    return code.splitlines()[0]


def test_nothing_is_left_out_for_longer_than_needed():
    """What is not run is there, and what `.ci/run` is said to run it does take from the page."""
    first = [_first(code) for found in PAGES.values() for _, code in found]
    ci = (ROOT / ".ci/run").read_text("utf-8")

    assert [line for line in NOT_RUN if first.count(line) != 1] == []
    assert ci.count("$(readme_command ") == 2
    assert len(first) - len(NOT_RUN) >= 28


def _row(number):
    text = f"Ferry number {number} leaves the harbour at {number} minutes past seven in the morning."
    return {
        "question": f"When does ferry number {number} leave?",
        "contexts": [text],
        "answer": f"Ferry number {number} leaves at {number} minutes past seven.",
        "reference_contexts": [text],
        "reference": f"At {number} minutes past seven.",
    }


def _lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def judge():
    # Every fifth answer is not what the documents say.
    with OpenAIServer(lambda request, item: "number 5" not in request.user) as server:
        yield server.url


@pytest.fixture(scope="module")
def backend():
    receiver = OtlpReceiver()
    yield receiver.url
    receiver.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory, judge):
    """The files that pages speak of and that other commands, or exporters, write."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ragmeter import RagMeter
    from ragmeter.exporters.jsonl import JsonlExporter
    from ragmeter.metrics.judge import OpenAIJudge

    folder = tmp_path_factory.mktemp("files")
    rows = [_row(number) for number in range(ROWS)]
    lines = _lines(rows)
    for name in ("data.jsonl", "golden.jsonl"):
        (folder / name).write_text(lines, "utf-8")
    # So many that a comparison decides.
    (folder / "new.jsonl").write_text(_lines([_row(number) for number in range(160)]), "utf-8")
    with gzip.open(folder / "requests.jsonl.gz", "wt") as packed:
        packed.write(lines)
    for name in ("january.parquet", "february.parquet"):
        pq.write_table(pa.Table.from_pylist(rows), folder / name)
    meter = RagMeter(
        exporters=[JsonlExporter(folder / "results.jsonl", include_content=True)],
        judge=OpenAIJudge(model="fake", base_url=judge, api_key="sk-none"),
    )
    for number in range(60):
        with meter.request(f"When does ferry number {number} leave?") as request:
            request.retrieved([_row(number)["contexts"][0]])
            request.answered(_row(number)["answer"])
    assert meter.flush(60)
    meter.shutdown(60)
    recorded = ROOT / "tests/adapters/recorded_spans"
    (folder / "traces.jsonl").write_text(_recording(recorded), "utf-8")
    return folder


def _recording(folder):
    """Return recorded export requests as a Collector's file exporter writes them."""
    from test_opentelemetry_recordings import _as_json

    found = sorted(folder.glob("openinference-langchain-py/normal_zh/*.pb"))
    return "".join(_as_json(path) + "\n" for path in found)


def _free_ports():
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "page",
    [
        # Its first and its last section run in CI with tests/benchmarks.
        pytest.param(page, marks=pytest.mark.long_form) if page == "docs/first-ten-minutes.md" else page
        for page in sorted(PAGES)
    ],
)
def test_every_command_of_a_page_runs(page, tmp_path, files, judge, backend):
    for one in files.iterdir():
        (tmp_path / one.name).write_bytes(one.read_bytes())
    (tmp_path / "kafka.properties").write_text("security.protocol=PLAINTEXT\n")
    names = {
        **dict.fromkeys(BACKENDS, backend),
        "/var/lib/ragmeter": str(tmp_path / "var"),
        "/etc/ragmeter": str(tmp_path),
        "/path/to/ragmeter": str(ROOT),
        "amqps://ragmeter:...@rabbitmq.example:5671/scoring": f"spool://{tmp_path}/queue",
    }
    shell = Shell(tmp_path, _free_ports(), judge, names)
    wrong = {}
    if page == "docs/first-ten-minutes.md":
        [(_, application)] = _blocks("python")[page]
        (tmp_path / "app.py").write_text(application, "utf-8")
    if page == "docs/evaluate.md":
        done = "ragmeter evaluate new.jsonl --out old-scores.jsonl"
        assert shell.run(done) == ""
    try:
        for line, code in PAGES[page]:
            if _first(code) in NOT_RUN:
                continue
            typed = next((keys for start, keys in KEYS.items() if code.startswith(start)), "")
            why = shell.run(code, typed)
            if why:
                wrong[f"{page}:{line}"] = why
    finally:
        ended_badly = shell.close()

    assert not wrong, "\n".join(f"{where}\n{why}" for where, why in wrong.items())
    assert not ended_badly, "\n".join(ended_badly)


@pytest.mark.parametrize(
    "code",
    [
        "pip install 'ragmeter-otel[sreve]'",
        "pip install langchian",
        "ragmeter evaluate data.jsonl --judge-modle gpt-4o-mini",
        "ragmeter serve --no-such-option",
        "gunicorn app:application",
        "make no-such-target",
        "false | true",
    ],
)
def test_what_does_not_work_is_told(code, tmp_path, judge):
    """A wrong extra, package, option, application or target: none of them passes for having run."""
    shell = Shell(tmp_path, _free_ports(), judge, {})

    assert "exit code" in shell.run(code)
    shell.close()
