"""Calls and prompt tokens of precision + recall + entity recall + relevancy for one request, K = 5.

The prompts are those that reach a local endpoint, counted with tiktoken's cl100k_base (read from the
copy inside llama-index-core when there is no network) over system and user message together.  The
peers' figures were measured with the same tokenizer on the same shape: a question, a one-sentence
reference and five chunks, 531 tokens of content together.  Run: ``python benchmarks/judge_cost.py``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from openai_server import OpenAIServer

from ragmeter.metrics import (
    ContextEntityRecall,
    ContextPrecision,
    ContextRecall,
    ContextRelevancy,
    FusedContextMetrics,
    RagSample,
    Reference,
    evaluate,
)
from ragmeter.metrics.judge import OpenAIJudge

PEERS = {
    "ragas 0.4.3 (legacy)": (10, 9514),
    "ragas 0.4.3 (collections)": (10, 10385),
    "deepeval 4.3.1, no entities, with reasons": (10, 5149),
    "deepeval 4.3.1, no entities, without": (7, 4061),
}
CONTENT_TOKENS = 531
QUESTION = "What is the capital of Latvia, and since when has it had town rights?"
REFERENCE = "The capital of Latvia is Riga, which has had town rights since the year 1225."
# Five sentences per chunk, about 98 tokens, so that all content together comes to 531.
CHUNK = (
    "Riga lies on the gulf of the same name, where the river Daugava meets the Baltic Sea. "
    "It is the capital of Latvia and by far the largest of its towns. "
    "Merchants from Gotland and Luebeck settled here around the year 1200, and the "
    "bishop granted them town rights in 1225. The old town keeps its narrow lanes, the guild halls "
    "and three very tall church towers, and whole streets of Art "
    "Nouveau houses. Number {number}."
)


def counter():
    found = importlib.util.find_spec("llama_index.core")
    if found is not None and found.submodule_search_locations:
        cache = Path(found.submodule_search_locations[0]) / "_static" / "tiktoken_cache"
        if cache.is_dir():
            os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(cache))
    try:
        import tiktoken

        encoding = tiktoken.get_encoding("cl100k_base")
    except Exception as error:
        sys.exit(f"tiktoken's cl100k_base is needed to count as the peers were counted: {error}")
    return lambda text: len(encoding.encode(text))


def answer(_request, item_id):
    if item_id.startswith("t"):
        return ["Riga", "Latvia", "1225"]
    return True


def main() -> None:
    tokens = counter()
    chunks = [CHUNK.format(number=number) for number in range(1, 6)]
    content = sum(tokens(text) for text in [QUESTION, REFERENCE, *chunks])
    first = RagSample(question=QUESTION, contexts=chunks, reference=Reference(answer=REFERENCE))
    # The second request: the same question and reference, chunks never seen.
    second = first.model_copy(
        update={
            "contexts": tuple(
                c.model_copy(update={"text": f"{c.text} Anew."}) for c in first.contexts
            )
        }
    )
    separate = [ContextPrecision(), ContextRecall(), ContextEntityRecall(), ContextRelevancy()]
    fused = [FusedContextMetrics(), ContextEntityRecall()]
    print(f"content: {content} tokens here, {CONTENT_TOKENS} in the peers' measurement")
    print(f"{'':44}{'calls':>6}{'prompt tokens':>15}{'of ragas':>10}{'schema':>8}")
    for name, (calls, prompt) in PEERS.items():
        print(f"{name:44}{calls:>6}{prompt:>15}{prompt / 9514:>10.3f}")
    for name, metrics in (("separate", separate), ("fused", fused)):
        with OpenAIServer(answer) as server:
            judge = OpenAIJudge("fake", server.url, "none")
            for warmth, sample in (("cold", first), ("reference known", second)):
                before = len(server.requests)
                [scores] = evaluate([sample], metrics, judge)
                assert all(score.status == "ok" for score in scores.values())
                made = server.requests[before:]
                prompt = sum(tokens(r.system) + tokens(r.user) for r in made)
                schema = sum(tokens(json.dumps(r.body["response_format"])) for r in made)
                label = f"ragmeter, {name}, {warmth}"
                print(f"{label:44}{len(made):>6}{prompt:>15}{prompt / 9514:>10.3f}{schema:>8}")
    print(
        "schema: tokens of the JSON schema sent beside the messages; the peers' are not counted either"
    )


if __name__ == "__main__":
    main()
