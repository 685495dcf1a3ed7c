"""What a result says of the meter that it comes from."""

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter


def _result(**options):
    exporter = InMemoryExporter()
    with RagMeter(exporters=[exporter], **options) as meter:
        with meter.request("Wer?", metadata={"tenant": "acme"}) as request:
            request.retrieved(["Er."])
            request.answered("Er.")
        assert meter.flush(60)
    (result,) = exporter.results
    return result


def test_a_result_bears_the_parts_that_were_named_by_the_names_that_were_given():
    result = _result(segments=("metadata.tenant", "index_version"))
    assert result.segments == {"metadata.tenant": "acme", "index_version": "unknown"}
    assert not result.alarms


def test_a_result_says_that_its_meter_tells_of_changes():
    assert _result(alarms=True).alarms


def test_without_either_there_is_nothing_on_it():
    result = _result()
    assert result.segments == {}
    assert not result.alarms
