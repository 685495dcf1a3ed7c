"""The page's drawings, as text."""

import xml.etree.ElementTree as ET

import pytest

from ragmeter.serve.page._drawings import Scale, TrendPoint, standing, trend


def parsed(svg):
    return ET.fromstring(str(svg))


def of_class(svg, name):
    return [one for one in parsed(svg).iter() if name in one.get("class", "").split()]


def test_a_value_on_its_scale():
    drawn = Scale(0.5, 0.4, 0.6, usual=(0.7, 0.9)).svg(100)

    assert str(drawn) == (
        '<svg class="scale" viewBox="0 0 100 14" width="100" height="14" aria-hidden="true">'
        '<rect class="rail" x="0" y="6" width="100" height="2"/>'
        '<rect class="usual" x="70.0" y="2" width="20.0" height="10"/>'
        '<rect class="span bad" x="40.0" y="4" width="20.0" height="6"/>'
        '<rect class="point bad" x="48.5" y="0" width="3" height="14"/></svg>'
    )


def test_better_is_to_the_right_when_lower_is_better():
    drawn = Scale(0.1, usual=(0.0, 0.2), direction="lower").svg(100)

    assert [one.get("x") for one in of_class(drawn, "point")] == ["88.5"]
    assert [one.get("x") for one in of_class(drawn, "usual")] == ["80.0"]


@pytest.mark.parametrize(
    ("scale", "kind"),
    [
        (Scale(0.2, usual=(0.5, 0.9)), "bad"),
        (Scale(0.95, usual=(0.5, 0.9)), "good"),
        (Scale(0.5, usual=(0.5, 0.9)), "flat"),
        (Scale(0.4, 0.3, 0.6, usual=(0.5, 0.9)), "flat"),
        (Scale(0.2), "flat"),
        (Scale(0.9, usual=(0.0, 0.1), direction="lower"), "bad"),
        (Scale(0.2, usual=(0.5, 0.9), direction="lower"), "good"),
        (Scale(9.0, usual=(1.0, 2.0), direction="none", high=10.0), "flat"),
    ],
)
def test_worse_than_usual_is_said_only_of_the_whole_interval(scale, kind):
    assert standing(scale) == kind


def test_everything_drawn_stays_within_the_drawing():
    drawn = Scale(5.0, -3.0, 7.0, usual=(0.999, 1.0)).svg(88)

    for one in parsed(drawn):
        assert float(one.get("x")) >= 0
        assert float(one.get("x")) + float(one.get("width")) <= 88.05


def points(*means, n=10):
    return [
        TrendPoint(at, at + 1, mean, (mean or 0) - 0.1, (mean or 0) + 0.1, n) for at, mean in enumerate(means)
    ]


def test_a_trend_has_line_band_counts_and_the_change():
    drawn = trend(points(0.8, 0.8, 0.2, 0.2), 0, 4, label="it fell", change_at=2)

    assert len(of_class(drawn, "line")) == 1
    assert len(of_class(drawn, "band")) == 1
    assert of_class(drawn, "count")[0].get("d").count("M") == 4
    assert of_class(drawn, "change")[0].get("x1") == "210.0"
    assert parsed(drawn).get("aria-label") == "it fell"
    assert of_class(drawn, "line")[0].get("points") == "52.5,10.6 157.5,10.6 262.5,33.4 367.5,33.4"


def test_a_gap_stays_a_gap():
    drawn = trend(points(0.8, 0.8, None, 0.2, 0.2), 0, 5, label="")

    assert len(of_class(drawn, "line")) == 2


def test_a_bin_alone_between_gaps_is_a_point():
    drawn = trend(points(0.8, None), 0, 2, label="")

    assert [one.tag for one in of_class(drawn, "line")] == ["circle"]


def test_a_change_outside_of_the_time_shown_is_not_drawn():
    assert not of_class(trend(points(0.8), 0, 1, label="", change_at=-5), "change")


def test_the_part_at_fault_is_a_line_of_its_own():
    drawn = trend(points(0.8, 0.7), 0, 2, label="", other=points(0.5, 0.1))

    assert len(of_class(drawn, "other")) == 1


def test_a_label_is_text_whatever_it_looks_like():
    drawn = trend(points(0.8), 0, 1, label='"><script>alert(1)</script>')

    assert "<script>" not in drawn
    assert parsed(drawn).get("aria-label") == '"><script>alert(1)</script>'
