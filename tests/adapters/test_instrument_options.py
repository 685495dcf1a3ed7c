"""Options of `instrument`: each reaches the framework it is for, or is refused with the way out."""

from collections.abc import Iterator

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")

from langchain_core.retrievers import BaseRetriever as LangChainRetriever
from langchain_fakes import EchoRetriever
from llama_index_fakes import ListRetriever, nodes

from ragmeter import RagMeter
from ragmeter.adapters import default_meter, instrument, uninstrument
from ragmeter.adapters._unseen import retrieval_rules
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.adapters.llama_index import RagMeterHandler
from ragmeter.adapters.reading.results import as_tools
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import ConfigurationError, RagSample


@pytest.fixture
def memory() -> InMemoryExporter:
    """What was captured."""
    return InMemoryExporter()


@pytest.fixture
def meter(memory: InMemoryExporter) -> Iterator[RagMeter]:
    """A meter, and nothing attached afterwards."""
    made = RagMeter(metrics=[], exporters=[memory])
    yield made
    uninstrument()
    made.shutdown(timeout_s=60)


def ask_both(meter: RagMeter, memory: InMemoryExporter) -> dict[str, tuple[str | None, list[str]]]:
    """Retrieve once by each framework; return name and texts by framework."""
    chain: LangChainRetriever = EchoRetriever(k=1)
    chain.invoke("who?")
    ListRetriever(nodes({"a": "text"}, metadata={"page": 7})).retrieve("who?")
    assert meter.flush(60)
    return {
        result.run.framework: (result.sample.name, [context.text for context in result.sample.contexts or ()])
        for result in memory.results
    }


def test_options_by_framework(meter: RagMeter, memory: InMemoryExporter) -> None:
    """What is told under a framework's name goes there; a shared option goes to all but those."""
    instrument(meter, name="bot", langchain={"name": "chain"}, llama_index={"text_mode": "none"})

    assert ask_both(meter, memory) == {"langchain": ("chain", ["doc-who?-1"]), "llama_index": ("bot", ["text"])}


def test_options_of_the_only_framework_are_taken_directly(meter: RagMeter, memory: InMemoryExporter) -> None:
    """Nothing is ambiguous then."""
    instrument(meter, frameworks=["llama_index"], text_mode="none")

    assert ask_both(meter, memory) == {"llama_index": ("ListRetriever", ["text"])}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_mode": "none"}, r"pass llama_index=\{'text_mode': \.\.\.\}"),
        ({"strict": True}, r"pass langchain=\{'strict': \.\.\.\}"),
        ({"question": "ask"}, r"langchain=\{'question': \.\.\.\} or llama_index="),
        ({"colour": 1}, "unknown option 'colour' for langchain; known: answer, contexts"),
        ({"langchain": {"text_mode": "none"}}, "unknown option 'text_mode' for langchain"),
        ({"langchain": "strict"}, "pass a dictionary"),
        ({"llama_index": {"text_mode": "all"}}, "'llm' or 'none'"),
        ({"langchain": {"meter": None}}, "unknown option 'meter'"),
    ],
)
def test_a_wrong_option_changes_nothing(
    meter: RagMeter, memory: InMemoryExporter, options: dict[str, object], message: str
) -> None:
    """Refused as a whole, with what to do instead; no framework is left attached."""
    with pytest.raises(ConfigurationError, match=message):
        instrument(meter, **options)

    assert default_meter() is None
    assert ask_both(meter, memory) == {}


def test_options_for_a_framework_that_is_left_out(meter: RagMeter) -> None:
    """They would have no effect."""
    with pytest.raises(ConfigurationError, match="attached: llama_index"):
        instrument(meter, frameworks=["llama_index"], langchain={"strict": True})


def test_a_meter_made_here_does_not_outlive_a_wrong_option(
    monkeypatch: pytest.MonkeyPatch, memory: InMemoryExporter
) -> None:
    """The meter from the environment is stopped again, and not in use."""
    made = RagMeter(metrics=["retrieval_health"], exporters=[memory])
    monkeypatch.setattr(RagMeter, "from_env", classmethod(lambda cls: made))
    with pytest.raises(ConfigurationError):
        instrument(llama_index={"text_mode": "all"})

    assert default_meter() is None
    made.submit(RagSample(question="too late?"))
    assert made.flush(60)
    assert memory.results == []


@pytest.mark.parametrize("handler", [RagMeterCallbackHandler, RagMeterHandler])
@pytest.mark.parametrize("no_meter", ["otlp", RagMeter, object()])
def test_a_handler_refuses_what_is_no_meter(handler, no_meter):
    with pytest.raises(ConfigurationError, match="pass a RagMeter object"):
        handler(no_meter)


def test_rules_of_the_environment_where_code_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools and spans have a variable each; functions of this process are named with the spans."""
    monkeypatch.setenv("RAGMETER_RETRIEVAL_TOOLS", "search_*:text=body,id=sku; find")
    monkeypatch.setenv("RAGMETER_RETRIEVAL_SPANS", "look_up")

    rules = retrieval_rules((), ())
    assert rules is not None
    assert [rule.name for rule in rules.tools] == ["search_*", "find"]
    assert (rules.tools[0].text, rules.tools[0].id) == ("body", "sku")
    assert [rule.name for rule in rules.functions] == ["look_up"]
    assert [rule.name for rule in as_tools([], "retrieval_spans", is_span=True)] == ["look_up"]
    assert [rule.name for rule in as_tools(["mine"])] == ["mine"]
