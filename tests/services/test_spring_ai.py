"""An application of the real Spring AI before `ragmeter serve`, with the observation filter of the examples and without."""

import json
import subprocess
from pathlib import Path

import httpx
import pytest
from loopback_server import LoopbackServer
from processes import wait_until
from serving import serving

APPLICATION = Path(__file__).parent / "spring" / "Shop.java"
FILTER = Path(__file__).parents[2] / "examples" / "TextsOnSpans.java"
QUESTIONS = ("When can goods be sent back?", "How long is a voucher valid?")
ANSWERS = ("Goods can be sent back within 30 days.", "A voucher is valid for two years.")
SETTINGS = """
spring.application.name=shop
spring.main.web-application-type=none
spring.ai.openai.api-key=none
spring.ai.openai.base-url={model}
management.tracing.sampling.probability=1.0
management.opentelemetry.tracing.export.otlp.endpoint={server}/v1/traces
management.otlp.metrics.export.enabled=false
"""


class Model(LoopbackServer):
    """Embeds a text by the words that it shares with the answers, and answers with the first note of a prompt."""

    def reply(self, received):
        asked = json.loads(received.body)
        if received.path.endswith("/embeddings"):
            rows = [
                {"object": "embedding", "index": place, "embedding": _embedding(text)}
                for place, text in enumerate(asked["input"])
            ]
            reply = {"object": "list", "data": rows}
        else:
            prompt = asked["messages"][-1]["content"]
            answer = min(ANSWERS, key=prompt.index)
            message = {"role": "assistant", "content": answer}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            reply = {"id": "1", "object": "chat.completion", "created": 1, "choices": [choice]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = json.dumps({**reply, "model": asked["model"], "usage": usage}).encode()
        return 200, body, {"Content-Type": "application/json"}


def _embedding(text):
    words = set(text.lower().rstrip("?.").split())
    return [0.1, *(float(len(words & set(answer.lower().split()))) for answer in ANSWERS)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    with serving(folder, "", "--store", str(folder / "serve.db")) as running:
        yield running


@pytest.fixture
def ask(server, spring_jars, tmp_path):
    """A function that compiles the application with more sources, asks both questions, and returns what was heard."""

    def run(*more):
        for each in (APPLICATION, *more):
            text = each.read_text("utf-8")
            own = text if text.startswith("package ") else f"package shop;\n{text}"
            (tmp_path / each.name).write_text(own, "utf-8")
        libraries = f"{spring_jars}/*"
        files = sorted(map(str, tmp_path.glob("*.java")))
        compiled = ["-parameters", "-cp", libraries, "-d", str(tmp_path), *files]
        subprocess.run(["javac", *compiled], check=True, timeout=200)
        with Model() as model:
            settings = SETTINGS.format(model=model.url, server=server.http)
            (tmp_path / "application.properties").write_text(settings, "utf-8")
            started = ["-cp", f"{tmp_path}:{libraries}", "shop.Shop", *QUESTIONS]
            done = subprocess.run(
                ["java", *started],
                cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False,
            )  # fmt: skip
        assert [line[7:] for line in done.stdout.splitlines() if line.startswith("ANSWER ")] == [*ANSWERS], (
            done.stdout[-4000:]
        )
        return wait_until(lambda: _heard(server), 60, "the requests were not read")

    return run


def _heard(server):
    """Return how many requests are to be scored, and why the others are not, once both are known."""
    rows = httpx.get(f"{server.http}/healthz").json()["heard"]
    causes = {cause["reason"]: cause["line"] for row in rows for cause in row["causes"]}
    scored = sum(row["to_score"] for row in rows)
    return (scored, causes) if scored == len(QUESTIONS) or "content_off" in causes else None


def test_without_texts_each_request_is_named_with_the_filter_to_add(ask):
    scored, causes = ask()

    assert scored == 0
    assert FILTER.name in causes["content_off"]


def test_with_the_filter_each_request_is_scored_with_the_documents_of_the_store(ask, server):
    ask(FILTER)

    stored = wait_until(
        lambda: httpx.get(f"{server.http}/api/requests").json()["requests"][len(QUESTIONS) - 1 :],
        60, "not every request was stored",
    )  # fmt: skip
    stored = httpx.get(f"{server.http}/api/requests").json()["requests"]
    found = [httpx.get(f"{server.http}/api/requests/{one['run_id']}").json() for one in stored]
    assert sorted((one["question"], one["answer"]) for one in found) == sorted(
        zip(QUESTIONS, ANSWERS, strict=True)
    )
    for one in found:
        assert sorted(context["id"] for context in one["contexts"]) == ["returns", "voucher"]
        assert one["contexts"][0]["text"] == one["answer"]
        assert one["verdict"] == "good"
