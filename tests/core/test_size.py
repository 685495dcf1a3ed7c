"""What a request weighs: every text once, wherever it is held."""

from ragmeter import RagRun, Retrieval
from ragmeter.metrics import RagSample, RetrievalStage, RetrievedContext
from ragmeter.requests.size import weight_of_run, weight_of_sample

LONG = 10_000


def _context(name):
    return RetrievedContext(text=name * LONG, id=name)


def test_a_context_that_passed_several_stages_weighs_once():
    kept, lost = _context("a"), _context("b")
    bare = RagSample(question="?", contexts=(kept,))
    staged = RagSample(
        question="?",
        contexts=(kept,),
        stages=(
            RetrievalStage(name="store", kind="retriever", contexts=(kept, lost)),
            RetrievalStage(name="rerank", kind="function", contexts=(kept,), inputs=(0,)),
            RetrievalStage(name="unseen", kind="unknown", contexts=None, inputs=(1,)),
        ),
    )
    more = weight_of_sample(staged) - weight_of_sample(bare)
    assert LONG < more < 2 * LONG

    retrieval = Retrieval(started_ns=0, ended_ns=1, contexts=(kept, lost))
    run = RagRun(
        sample=staged, run_id="1", framework="manual", started_ns=0, ended_ns=1, retrievals=(retrieval,)
    )
    assert weight_of_run(run) - weight_of_sample(staged) < 1_000
