"""The one place that spells telemetry names, and that nobody else does."""

import re
from pathlib import Path

from ragmeter.exporters import semconv

ALL = (
    *semconv.INSTRUMENTS, *semconv.QUALITY_INSTRUMENTS, *semconv.CHANGE_INSTRUMENTS, *semconv.LIST_INSTRUMENTS,
    *semconv.SHADOW_INSTRUMENTS,
)  # fmt: skip
FOLDER = Path(__file__).parents[2] / "exporters"
LOW_CARDINALITY = set(
    """
    error.type gen_ai.evaluation.name gen_ai.evaluation.score.label gen_ai.operation.name
    gen_ai.request.model gen_ai.token.type gen_ai.workflow.name ragmeter.change.kind ragmeter.corpus.list
    ragmeter.evaluation.direction ragmeter.diagnosis ragmeter.exporter ragmeter.fate ragmeter.framework
    ragmeter.gap ragmeter.instrument ragmeter.judge ragmeter.language ragmeter.missing ragmeter.outcome
    ragmeter.reason ragmeter.request.status ragmeter.component ragmeter.segment ragmeter.selection
    ragmeter.service.name ragmeter.shadow ragmeter.stage ragmeter.stage.kind ragmeter.status
    ragmeter.verdict ragmeter.verdict.code
""".split()
)


def test_every_name_has_a_source_and_a_status():
    """A name of ours stands under ragmeter. or is a bare word; nobody else's does."""
    for term in semconv.terms().values():
        assert term.source
        assert term.status in ("stable", "development", "own")
        if term.source == semconv.OWN:
            assert term.startswith("ragmeter.") or "." not in term
        else:
            assert not term.startswith("ragmeter.")


def test_instruments_have_units_descriptions_and_unique_names():
    """What Prometheus and the dashboards build on."""
    names = [instrument.name for instrument in ALL]

    assert len(set(names)) == len(names)
    for instrument in ALL:
        assert instrument.unit
        assert instrument.description.endswith(".")
        assert bool(instrument.buckets) is (instrument.kind == "histogram")
        assert list(instrument.buckets) == sorted(set(instrument.buckets))


def test_metric_attributes_are_all_of_low_cardinality():
    """No question, user, document, conversation, run or data source id on a metric."""
    used = {str(key) for each in ALL for key in each.attributes}

    assert used == LOW_CARDINALITY


def test_no_other_module_spells_a_telemetry_name():
    """A rename is one line."""
    for path in FOLDER.rglob("*.py"):
        if path.name != "semconv.py":
            code = re.sub(r'""".*?"""', "", path.read_text("utf-8"), flags=re.DOTALL)
            spelled = re.findall(r'"(?:gen_ai|openinference|retrieval\.|input\.|output\.)[^"\s]*"', code)
            own = re.findall(r'f?"ragmeter\.[^"\s]*"', code)

            assert [name for name in spelled + own if name != '"retrieval"'] == [], path


def test_the_readme_lists_every_instrument_as_it_is():
    """Name, unit and attributes, in one row each."""
    readme = (FOLDER / "README.md").read_text("utf-8")

    for instrument in ALL:
        (row,) = [line for line in readme.splitlines() if line.startswith(f"| `{instrument.name}`")]
        assert f"| `{instrument.unit}` |" in row
        listed = [part.strip(" `") for part in row.split("|")[4].split(",")]
        assert listed == [str(key) for key in instrument.attributes] or listed == ["–"]


def test_a_name_can_be_copied_and_pickled():
    """The SDK's console exporters copy attributes, keys included."""
    import copy
    import pickle

    name = semconv.EVALUATION_NAME
    for twin in (copy.deepcopy(name), pickle.loads(pickle.dumps(name))):
        assert (twin, twin.source, twin.status) == (name, name.source, name.status)
