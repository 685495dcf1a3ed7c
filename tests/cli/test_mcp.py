"""``ragmeter mcp``, asked by the protocol's own client over standard input and output, beside a real server."""

import asyncio
import json
import sys
from contextlib import contextmanager

import pytest
from opentelemetry.sdk.trace import TracerProvider

from ragmeter import RagMeter, RagSample
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.serve import ServeOptions, Server
from ragmeter.serve.store import StoreOptions

mcp = pytest.importorskip("mcp")

QUESTION = "How tall is the tower?"
MADE_UP = RagSample(
    question=QUESTION,
    contexts=["The tower was built of iron in 1889."],
    answer="Emperor Zlatan painted it purple with 900 elephants in Vienna.",
)
TOOLS = {
    "overview",
    "worst_requests",
    "request",
    "changes",
    "conversations",
    "gaps",
    "chunks",
    "not_scored",
}
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
    """Start the command and return what each call of a tool gives, with the names of all tools."""
    command = mcp.StdioServerParameters(
        command=sys.executable, args=["-c", RUN, "mcp", "--url", url, *arguments], env=environment
    )

    async def ask():
        from mcp.client.stdio import stdio_client

        async with (
            stdio_client(command) as (read, write),
            mcp.ClientSession(read, write) as session,
        ):
            await session.initialize()
            listed = await session.list_tools()
            return {tool.name for tool in listed.tools}, [
                await session.call_tool(name, given) for name, given in calls
            ]

    return asyncio.run(asyncio.wait_for(ask(), 120))


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
            server.url,
            [("request", {"trace_id": trace_id}), ("request", {"trace_id": "0" * 31 + "7"})],
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
    everything = " ".join(
        map(told, (overview, worst, changes, talks, topics, corpus, health, request))
    )
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
        _, [named] = asked(
            address, [("overview", {})], RAGMETER_SERVE_VIEW_TOKEN=token.read_text().strip()
        )
    assert "--token-file" in told(refused)
    assert json.loads(told(read))["requests"] == json.loads(told(named))["requests"] == 1


def test_where_nothing_answers_it_says_what_to_start():
    _, [dead] = asked("http://127.0.0.1:9", [("overview", {})])
    assert "ragmeter serve --store FILE" in told(dead)
