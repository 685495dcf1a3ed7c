"""What `meter.quality()` returns prints as a table for people, and is the same values as before."""

from __future__ import annotations

from ragmeter import RagMeter
from ragmeter.quality.estimates import Estimate, Estimates, QualityKey

ONE = Estimate(
    mean=0.8123,
    lower=0.774,
    upper=0.85,
    n_requests=4180,
    n_judged=212,
    method="regression",
    unscored=0.009,
    objective=0.8,
)
FEW = Estimate(mean=None, lower=0.1, upper=1.0, n_requests=3, n_judged=3, method="wilson")


def test_an_estimate_prints_as_a_line_with_its_interval() -> None:
    assert str(ONE) == (
        " mean  95 % interval  requests  judged  unscored  good from  method\n"
        "0.812  0.774 … 0.850      4180     212      0.9%        0.8  regression"
    )


def test_several_print_as_a_table_and_what_is_not_known_is_a_dash() -> None:
    table = Estimates({QualityKey("f", "qa", "language:zh"): FEW, QualityKey("f", "qa"): ONE})
    assert str(table) == repr(table)
    assert str(table).splitlines() == [
        "                       mean  95 % interval  requests  judged  unscored  good from  method",
        "f · qa                0.812  0.774 … 0.850      4180     212      0.9%        0.8  regression",
        "f · qa · language:zh      -  0.100 … 1.000         3       3         -          -  wilson",
    ]
    assert table == {QualityKey("f", "qa", "language:zh"): FEW, QualityKey("f", "qa"): ONE}


def test_the_objective_of_a_score_stands_beside_its_mean() -> None:
    """Of a workflow its own; of all of them only one that is for all of them."""
    meter = RagMeter(exporters=[])
    meter.objective("lexical_groundedness", at_least=0.6, workflow="qa")
    meter.objective("context_count", at_least=1)
    for number in range(6):
        with meter.request(f"Who painted it, {number}?", name="qa") as request:
            request.retrieved(["Rembrandt painted it."])
            request.answered("Rembrandt painted it.")
    assert meter.flush(60)
    assert meter.quality("lexical_groundedness", workflow="qa").objective == 0.6
    assert meter.quality("lexical_groundedness").objective is None
    assert meter.quality()[QualityKey("lexical_groundedness", "qa")].objective == 0.6
    assert meter.quality("duplicate_ratio", workflow="qa").objective is None
    assert "0.6" in str(meter.quality("lexical_groundedness", workflow="qa"))
    meter.shutdown(60)
