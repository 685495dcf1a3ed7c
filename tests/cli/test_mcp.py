"""``ragmeter mcp``, asked by the protocol's own client, in memory and over standard streams, beside a real server."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager, closing, contextmanager

import pytest
from opentelemetry.sdk.trace import TracerProvider
from typer.testing import CliRunner

from ragmeter import RagMeter, RagSample
from ragmeter.cli.app import app
from ragmeter.cli.mcp import tools
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.serve import ServeOptions, Server
from ragmeter.serve.store import StoreOptions

mcp = pytest.importorskip("mcp")
from mcp.client.stdio import stdio_client  # noqa: E402

try:
    from mcp import Client  # since 2.0
except ImportError:
    from mcp.shared.memory import create_connected_server_and_client_session as Client  # noqa: N812

QUESTION = "How tall is the tower?"
MADE_UP = RagSample(
    question=QUESTION,
    contexts=["The tower was built of iron in 1889."],
    answer="Emperor Zlatan painted it purple with 900 elephants in Vienna.",
)
TOOLS = {"overview", "worst_requests", "request", "changes", "conversations", "gaps", "chunks", "not_scored"}
RUN = "from ragmeter.cli.main import run; run()"


@contextmanager
def serving(tmp_path, **options):
    """Serve one made-up answer; enter it with the server's address."""
    memory = InMemoryExporter()
    with RagMeter(exporters=[memory]) as meter:
        span = TracerProvider().get_tracer("shop").start_as_current_span("ask")
        with span, meter.request(QUESTION, name="shop", session_id="s1") as request:
            request.retrieved([one.text for one in MADE_UP.contexts])
            request.answered(MADE_UP.answer)
        assert meter.flush(60)
    kept = StoreOptions(path=tmp_path / "serve.db")
    server = Server(ServeOptions(http_port=0, grpc_port=0, store=kept, **options))
    server.store.export(memory.results)
    server.start()
    try:
        yield server
    finally:
        server.stop(30)


def asked(url, calls, *arguments, **environment):
    """Run the command with a client in this process; return the names of all tools, and what each call gives."""
    found = []

    def beside(reading):
        server = tools(reading)

        def run(transport):
            with closing(reading._get.__self__):  # which the end of the process closes
                found.extend(asyncio.run(_ask(Client(server), calls)))

        server.run = run
        return server

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ragmeter.cli.mcp.tools", beside)
        done = CliRunner().invoke(app, ["mcp", "--url", url, *arguments], env=environment)
    assert done.exit_code == 0, done.output
    return found


def asked_over_streams(url, calls):
    """Do the same with the command in a process of its own."""
    command = mcp.StdioServerParameters(command=sys.executable, args=["-c", RUN, "mcp", "--url", url])

    @asynccontextmanager
    async def connected():
        async with stdio_client(command) as (read, write), mcp.ClientSession(read, write) as session:
            await session.initialize()
            yield session

    return asyncio.run(asyncio.wait_for(_ask(connected(), calls), 120))


async def _ask(connection, calls):
    async with connection as client:
        listed = await client.list_tools()
        return {tool.name for tool in listed.tools}, [
            await client.call_tool(name, given) for name, given in calls
        ]


def told(result):
    """Return the text of an answer, all of it."""
    return " ".join(part.text for part in result.content)


def test_an_assistant_goes_from_the_overview_to_the_reasons_without_a_text(tmp_path):
    with serving(tmp_path) as server:
        names, (overview, worst, changes, talks, topics, corpus, health) = asked(
            server.url,
            [
                ("overview", {}),
                ("worst_requests", {"verdict": "bad"}),
                ("changes", {}),
                ("conversations", {}),
                ("gaps", {}),
                ("chunks", {}),
                ("not_scored", {}),
            ],
        )
        trace_id = json.loads(told(worst))["trace_id"]
        _, [request, missing] = asked(
            server.url, [("request", {"trace_id": trace_id}), ("request", {"trace_id": "0" * 31 + "7"})]
        )
    assert names == TOOLS
    assert json.loads(told(overview))["verdicts"] == {"bad": 1}
    assert json.loads(told(request))["verdict"] == "bad"
    assert json.loads(told(corpus))["n_chunks"] == 1
    assert json.loads(told(topics))["why_empty"] == "too_many_bad"
    [talk] = json.loads(told(talks))["conversations"]
    assert (talk["conversation_id"], talk["first_bad"]) == ("s1", 1)
    assert "of the answer's words are in the chunks" in told(request)
    assert json.loads(told(health))["status"] == "ok"
    everything = " ".join(map(told, (overview, worst, changes, talks, topics, corpus, health, request)))
    assert not [word for word in ("tower", "Zlatan", "elephants", "iron") if word in everything]
    assert "404" in told(missing)


def test_texts_are_told_where_they_are_asked_for(tmp_path):
    with serving(tmp_path) as server:
        _, [worst] = asked(server.url, [("worst_requests", {})], "--texts")
        trace_id = json.loads(told(worst))["trace_id"]
        _, [request] = asked(server.url, [("request", {"trace_id": trace_id})], "--texts")
    found = json.loads(told(request))
    assert (found["question"], found["answer"]) == (QUESTION, MADE_UP.answer)
    assert found["contexts"][0]["text"] == MADE_UP.contexts[0].text


def test_it_reads_with_the_token_of_those_who_look(tmp_path):
    token = tmp_path / "token"
    with serving(tmp_path, view_token_file=token, token_file=tmp_path / "all") as server:
        address = server.url.partition("?")[0]
        _, [refused] = asked(address, [("overview", {})])
        _, [read] = asked(address, [("overview", {})], "--token-file", str(token))
        _, [named] = asked(address, [("overview", {})], RAGMETER_SERVE_VIEW_TOKEN=token.read_text().strip())
    assert "--token-file" in told(refused)
    assert json.loads(told(read))["requests"] == json.loads(told(named))["requests"] == 1


def test_where_nothing_answers_it_says_what_to_start():
    names, [dead] = asked_over_streams("http://127.0.0.1:9", [("overview", {})])
    assert names == TOOLS
    assert "ragmeter serve --store FILE" in told(dead)
