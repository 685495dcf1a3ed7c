"""What a message looks like on the wire."""

import pytest

pytest.importorskip("amqp")

from ragmeter.fleet._rabbitmq._message import CONTENT_TYPE, deaths_of, headers_of, message, ours


def test_a_message_is_the_packed_requests_and_no_text_is_among_its_headers():
    made = message(b"packed", count=3, deaths=2, reason="why")
    headers = headers_of(made)
    assert made.body == b"packed"
    assert made.properties["delivery_mode"] == 2  # kept on disk
    assert headers.pop("id") == made.properties["message_id"]
    assert headers == {
        "task": "ragmeter.score",
        "lang": "py",
        "ragmeter-requests": 3,
        "ragmeter-deaths": 2,
        "ragmeter-reason": "why",
    }
    assert ours(made.properties["content_type"], headers_of(made))


@pytest.mark.parametrize(
    ("content_type", "headers"),
    [
        ("application/json", {"task": "ragmeter.score", "id": "1"}),
        ("application/x-python-serialize", {"task": "ragmeter.score", "id": "1"}),
        (CONTENT_TYPE, None),
        (CONTENT_TYPE, {}),
        (CONTENT_TYPE, {"task": "other", "id": "1"}),
        (CONTENT_TYPE, {"task": ["ragmeter.score"], "id": "1"}),
        (CONTENT_TYPE, {"task": "ragmeter.score"}),
        (CONTENT_TYPE, {"task": "ragmeter.score", "id": 1}),
    ],
)
def test_what_others_wrote_is_known_by_its_outside(content_type, headers):
    assert not ours(content_type, headers)


@pytest.mark.parametrize(
    ("headers", "deaths"),
    [
        ({}, 0),
        ({"x-delivery-count": 2}, 2),
        ({"x-delivery-count": 1, "ragmeter-deaths": 2}, 3),
        ({"x-delivery-count": "2", "ragmeter-deaths": -1}, 0),
    ],
)
def test_deaths_before_a_split_count_too(headers, deaths):
    assert deaths_of(headers) == deaths
