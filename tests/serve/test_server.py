"""`Server`: what comes in over the network is scored, and it ends in order."""

import httpx
from served import FULL, served

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def test_spans_that_are_sent_become_scored_requests():
    with served() as server:
        answer = httpx.post(f"{server.url}/v1/traces", content=FULL.read_bytes(), headers=PROTOBUF)

        assert (answer.status_code, answer.content) == (200, b"")
        [scored] = server.drained()

    assert scored.scores["context_count"].value == 2.0
    assert server.stats()["spans"] == {"read": 11}
    assert server.stats()["requests"] == {"scored": 1}
