"""Which engine a URL means, and how it is shown."""

import pytest

from ragmeter import ConfigurationError
from ragmeter.fleet.transport import address_shown, open_sender

SECRETS = (
    "amqp://me:hunter2@broker:5672/scoring?password=hunter2",
    "amqp:me:hunter2@broker",
    "nothing:hunter2",
    "hunter2",
    "hunter2@broker/scoring",
    "amqp://me:hunter2@broker:port/",
    "smtp://hunter2@broker",
)


@pytest.mark.parametrize("url", SECRETS)
def test_no_part_of_an_address_that_may_be_a_secret_is_shown(url):
    assert "hunter2" not in address_shown(url)


def test_the_rest_is_shown():
    assert address_shown("amqps://me:hunter2@broker:5671/scoring") == "amqps://broker:5671/scoring"
    assert address_shown("spool:///var/lib/queue") == "spool:///var/lib/queue"


@pytest.mark.parametrize("url", ["nothing:hunter2", "hunter2", "smtp://hunter2@broker"])
def test_what_is_no_queue_is_refused_with_what_one_looks_like(url):
    with pytest.raises(ConfigurationError, match="is no queue; pass one such as amqp://") as caught:
        open_sender(url)

    assert "hunter2" not in str(caught.value)
