"""What a meter without a judge must not load: everyone who imports ragmeter would pay for it."""

from python_process import run_python

METER = """
import sys
from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample
memory = InMemoryExporter()
meter = RagMeter(exporters=[memory])
print(*sys.modules)
"""


def modules_after(code):
    done = run_python("-c", code, check=True)
    return set(done.stdout.split())


def test_a_meter_of_free_metrics_does_not_load():
    costly = set(
        """
        asyncio nltk numpy openai opentelemetry.sdk pydantic_settings ragmeter.pipeline.judging
        ragmeter.metrics.judge.protocol ragmeter.metrics.judged.faithfulness
        ragmeter.metrics.judged.prompts ragmeter.metrics.text.facts
        ragmeter.metrics.text.named_entities ragmeter.metrics.text.quantities rapidfuzz Stemmer
        sqlite3
    """.split()
    )

    assert costly & modules_after(METER) == set()


def test_the_first_request_loads_nothing_of_ragmeter_on_the_requests_own_thread():
    """What is loaded late is loaded by the scoring thread."""
    loaded = modules_after(
        METER.replace("print(*sys.modules)", "")
        + """
import threading
main, seen = threading.get_ident(), []
class Spy:
    def find_spec(self, name, path=None, target=None):
        if threading.get_ident() == main:
            seen.append(name)
sys.meta_path.insert(0, Spy())
meter.submit(RagSample(question="Which towers?", contexts=["Two towers stand."], answer="Two."))
sys.meta_path.pop(0)
assert meter.flush(30)
print(len(memory.results), *seen)
"""
    )

    assert loaded == {"1"}
