"""Hours of traffic with a deployment in them, in the form of a store."""

import random
from dataclasses import replace

from ragmeter import RagMeter, Score
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import Verdict

QUESTIONS = {
    "en": ("When is my invoice due?", "Can I return a lamp?", "How do I reset it?"),
    "ru": ("Когда придёт счёт?", "Можно ли вернуть лампу?"),
    "zh": ("发票什么时候到期？", "可以退货吗？"),
}


def requests(
    count, *, service="shop", version="2.4.1", start_ms, every_ms=10_000, bad=0.08, seed=1, first=0, **more
):
    """Return scored runs of a service, a share of them bad, one after the other."""  # fmt: skip
    results = InMemoryExporter()
    meter = RagMeter(exporters=[results])
    with meter.request("q", name="help") as one:
        one.retrieved(["a text"])
        one.answered("a text")
    assert meter.flush(60)
    meter.shutdown(60)
    (pattern,) = results.results
    chance = random.Random(seed)
    found = []
    for at in range(count):
        language = chance.choice(("en", "en", "ru", "zh"))
        question = chance.choice(QUESTIONS[language])
        is_bad = chance.random() < bad
        support = chance.uniform(0.0, 0.4) if is_bad else min(1.0, chance.gauss(0.93, 0.05))
        began = (start_ms + at * every_ms) * 10**6
        number = first + at + 1
        run = replace(
            pattern.run,
            sample=pattern.run.sample.model_copy(
                update={"question": question, "name": chance.choice(("help", "order"))}
            ),
            run_id=f"{service}-{number}",
            started_ns=began,
            ended_ns=began + 10**9,
            target=None,
            conversation_id=None,
            resource={"service.name": service},
            framework_metadata={"service.version": version, **more},
            metadata={"language": language},
        )
        scores = {
            name: Score(name=name, value=value, method="lexical", definition="1", target="answer", status="ok",
                        direction=direction)
            for name, value, direction in (
                ("support", support, "higher"), ("lexical_context_relevance", 0.9 - 0.5 * is_bad, "higher"),
                ("refusal", 0.0, "lower"), ("empty_retrieval", 0.0, "lower"),
            )
        }  # fmt: skip
        word, codes = ("bad", ("unsupported_answer",)) if is_bad else ("good", ())
        verdict = Verdict(word=word, codes=codes, reasons=codes)
        found.append(replace(pattern, run=run, scores=scores, verdict=verdict))
    return found
