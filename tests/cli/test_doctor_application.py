"""``ragmeter doctor APP.py`` examines that very program: what is set up, what its requests became, what mends it."""

import re
import textwrap
from functools import partial
from io import StringIO

import pytest
from python_process import plain_environment, run_python

from ragmeter.cli._console import Console
from ragmeter.cli.doctor import _report
from ragmeter.cli.doctor._findings import APPLICATION, REQUESTS
from ragmeter.cli.doctor._report import APPLICATION as SUMMARY
from ragmeter.cli.doctor._report import print_findings, write_findings

PARTS = {
    "chain": """
        from langchain_core.documents import Document
        from langchain_core.language_models.fake_chat_models import FakeListChatModel
        from langchain_core.prompts import ChatPromptTemplate
        from langchain_core.runnables import RunnableLambda, RunnablePassthrough

        def find_texts(question):
            return "Kettle 4711 boils in three minutes flat."

        chain = (
            {"context": find_texts, "question": RunnablePassthrough()}
            | ChatPromptTemplate.from_template("Use {context} for {question}")
            | FakeListChatModel(responses=["Three minutes."])
        )
        """,
    "provider": """
        import io, os
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider, export
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        provider = TracerProvider()
        kept = export.ConsoleSpanExporter(out=io.StringIO())
        if "AT" in os.environ:
            kept = OTLPSpanExporter(os.environ["AT"], timeout=1)
        provider.add_span_processor(export.SimpleSpanProcessor(kept))
        trace.set_tracer_provider(provider)
        """,
    "by hand": """
        import ragmeter
        meter = ragmeter.RagMeter.from_env()
        for _ in range(2):
            with meter.request("A private question?") as request:
                request.retrieved(["A private text of the user's."])
                request.answered("A private answer.")
        """,
    "a processor elsewhere": """
        import ragmeter
        from ragmeter.adapters.opentelemetry import RagMeterSpanProcessor
        meter = ragmeter.RagMeter.from_env()
        RagMeterSpanProcessor(meter).attach()
        """,
    "given": """
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider, export
        import os, ragmeter
        from ragmeter.exporters.otel import OpenTelemetryExporter
        own = TracerProvider()
        own.add_span_processor(export.SimpleSpanProcessor(OTLPSpanExporter(os.environ["AT"])))
        meter = ragmeter.RagMeter(exporters=[OpenTelemetryExporter(own)])
        with meter.request("A private question?") as request:
            request.retrieved(["A private text of the user's."])
            request.answered("A private answer.")
        """,
    "agent of spans": """
        from ragmeter.adapters.opentelemetry import RagMeterSpanProcessor
        processor = RagMeterSpanProcessor(meter).attach(provider)
        tracer = provider.get_tracer("openinference.instrumentation.agents")
        asked = {"llm.input_messages.0.message.role": "user"}
        asked["llm.input_messages.0.message.content"] = "Use 14 days and 9 francs for q?"
        for _ in range(2):
            with tracer.start_as_current_span("run", attributes={"openinference.span.kind": "AGENT"}):
                for one, of, told in [("find", "TOOL", {"output.value": "[14]"}), ("call", "LLM", asked)]:
                    told = {"openinference.span.kind": of, **told}
                    with tracer.start_as_current_span(one, attributes=told):
                        pass
        processor.force_flush()
        """,
    "wait": "meter.flush(10)",
    "meter": "import ragmeter; meter = ragmeter.RagMeter(metrics=['retrieval_health'])",
    "handler": """
        from ragmeter.adapters.langchain import RagMeterCallbackHandler
        for _ in range(3):
            chain.invoke("q?", {"callbacks": [RagMeterCallbackHandler(meter)]})
        """,
    "named": """
        from ragmeter.adapters import instrument
        instrument(meter, retrieval_functions=["find_texts"])
        chain.invoke("q?")
        """,
    "unasked": "chain.invoke('q?')",
    "end": "import sys; print('out'); sys.exit(7)",
}
DEAD = {"AT": "http://127.0.0.1:9/v1/traces?key=secret-key"}
NO_PROVIDER = "FAIL traces: no provider was set"

CASES = {
    "nothing attached": (
        ["chain", "provider", "unasked"],
        {},
        ["ragmeter is not attached", "instrument()", "frameworks: LangChain"],
    ),
    "a meter that nothing feeds": (
        ["chain", "provider", "meter", "unasked"],
        {},
        ["none was captured; attached: nothing", "instrument()"],
    ),
    "a handler, and a search it does not know": (
        ["chain", "provider", "meter", "handler"],
        {},
        ['RagMeterCallbackHandler(meter, retrieval_functions=["find_texts"])', "3 called a model"],
    ),
    "an agent of spans, and a tool that no one named": (
        ["provider", "meter", "agent of spans"],
        {},
        [
            "spans of openinference.instrumentation.agents: 2 heard, 0 scored",
            "2 of 2 not scored: tool_not_shown",
            'name it: RagMeterSpanProcessor(meter, retrieval_tools=["find"])',
        ],
    ),
    "no provider": (["by hand"], {}, [NO_PROVIDER, "2 dropped (no_provider)"]),
    "a provider after the first requests": (
        ["by hand", "wait", "provider", "by hand"],
        {},
        ["2 captured (by hand), 2 exported", "dropped (no_provider)"],
    ),
    "the SDK switched off": (
        ["provider", "by hand"],
        {"OTEL_SDK_DISABLED": "true"},
        ["FAIL OTEL_SDK_DISABLED", "unset it"],
    ),
    "nobody listens": (
        ["provider", "by hand"],
        DEAD,
        ["FAIL 127.0.0.1:9 (traces)", "to http://127.0.0.1:9/v1/traces", "FAIL sending"],
    ),
    "a backend that refuses": (
        ["provider", "by hand"],
        {"AT": "refusing"},
        ["FAIL sending", "404", "accepts connections"],
    ),
    "no span is sampled": (
        ["provider", "by hand"],
        {"OTEL_TRACES_SAMPLER": "always_off"},
        ["FAIL sampler: AlwaysOffSampler"],
    ),
    "a tenth of the traces is sampled": (
        ["provider", "by hand"],
        {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
        ["warn sampler: TraceIdRatioBased{0.1}: no other trace", "parentbased_always_on"],
    ),
    "a processor to which no span comes": (
        ["chain", "provider", "a processor elsewhere"],
        {},
        ["none was captured; attached: opentelemetry", "the provider that the instrumentation"],
    ),
    "no request is sampled": (
        ["provider", "by hand"],
        {"RAGMETER_SAMPLE_RATE": "0"},
        ["2 captured (by hand), 0 exported, 2 dropped (sampled_out)", "raise RagMeter(sample_rate"],
    ),
}
HEALTHY = "Requests of this application are scored, and their scores go out."


@pytest.fixture
def examined(in_place, tmp_path):
    def report(parts, started=None, **environment):
        (tmp_path / "app.py").write_text("\n".join(textwrap.dedent(PARTS[name]) for name in (*parts, "end")))
        ended = (started or partial(in_place, "doctor", "app.py"))(**environment)
        assert (ended.stdout, ended.returncode) == ("out\n", 7), ended.stderr
        return ended.stderr[ended.stderr.index("ragmeter doctor: process") :]

    return report


@pytest.mark.parametrize(("parts", "environment", "wanted"), CASES.values(), ids=CASES)
def test_what_is_wrong_is_said_with_what_mends_it(examined, otlp, parts, environment, wanted):
    if environment.get("AT") == "refusing":
        environment = {"AT": f"{otlp.url}/no/such/path"}
    said = examined(parts, **environment)
    for words in wanted:
        assert words in said
    assert HEALTHY not in said
    assert " works" not in said
    assert not re.search("private|secret-key|Kettle", said)


def test_an_application_whose_scores_go_out_is_healthy(examined, otlp):
    parts = ["chain", "provider", "meter", "named"]
    said = examined(parts, AT=f"{otlp.url}/v1/traces", OTEL_SERVICE_NAME="shop")
    assert {span.name for span in otlp.spans} > {"retrieval"}
    assert "1 captured (by langchain, llama_index), 1 exported" in said
    assert "accepts connections" in said
    assert HEALTHY in said


def test_a_provider_that_only_the_exporter_knows_is_looked_at(examined, otlp):
    said = examined(["given"], AT=f"{otlp.url}/v1/traces", OTEL_SERVICE_NAME="shop")
    assert f"to {otlp.url}/v1/traces" in said
    assert "accepts connections" in said
    assert HEALTHY in said


def test_the_variable_alone_has_a_process_examined(examined, tmp_path):
    def started(**environment):
        return run_python("app.py", cwd=tmp_path, env=plain_environment() | environment)

    said = examined(["provider", "by hand"], started, RAGMETER_DOCTOR="1")
    assert "2 captured (by hand), 2 exported" in said


def test_the_report_names_the_time_of_a_slow_check(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(_report, "monotonic", lambda: clock[0])

    def findings():
        clock[0] += 0.4
        yield APPLICATION.ok("traces", "some.Provider")
        clock[0] += 2.06
        yield REQUESTS.ok("requests", "3 scored")

    plain = StringIO()
    write_findings(findings(), plain, SUMMARY)

    assert "traces: some.Provider\n" in plain.getvalue()
    assert "requests: 3 scored (2.1 s)\n" in plain.getvalue()


def test_without_rich_the_report_says_the_same():
    findings = [
        APPLICATION.ok("traces", "some.Provider"),
        REQUESTS.failed("requests", "none was captured", "instrument()"),
    ]
    plain, rich = StringIO(), StringIO()

    write_findings(findings, plain, SUMMARY)
    print_findings(findings, Console(file=rich), SUMMARY)

    assert plain.getvalue() == rich.getvalue()
    assert "  FAIL requests: none was captured\n       -> instrument()\n" in plain.getvalue()
