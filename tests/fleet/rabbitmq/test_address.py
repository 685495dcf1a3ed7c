"""What an ``amqp://`` URL says, and that its password is shown nowhere."""

from pathlib import Path

import pytest

from ragmeter.fleet._rabbitmq._address import BrokerAddress
from ragmeter.fleet.queue import open_queue
from ragmeter.fleet.transport import open_sender
from ragmeter.metrics import ConfigurationError
from ragmeter.metrics.judge import SharedBudget


def test_a_url_without_more_means_what_rabbitmq_means_by_it():
    found = BrokerAddress.of("amqp://broker")
    assert (found.host, found.port, found.virtual_host) == ("broker", 5672, "/")
    assert (found.user, found.password, found.tls) == ("guest", "guest", None)
    assert (found.queue, found.dead_queue) == ("ragmeter.score", "ragmeter.dead")


@pytest.mark.parametrize("path", ["", "/", "//", "/%2F"])
def test_the_default_virtual_host_is_a_slash(path):
    assert BrokerAddress.of(f"amqp://broker{path}").virtual_host == "/"


def test_what_is_escaped_comes_back_for_celery():
    found = BrokerAddress.of("amqp://me:p%40ss%2Fw%C3%B6rd@broker:99/the%20host?queue=staging")
    assert (found.user, found.password, found.virtual_host) == ("me", "p@ss/wörd", "the host")
    assert found.queue == "staging.score"
    assert found.url == "amqp://me:p%40ss%2Fw%C3%B6rd@broker:99/the%20host"


def test_with_tls_the_certificate_is_checked_against_the_name(tmp_path):
    files = {name: str(tmp_path / name) for name in ("ca.pem", "me.pem", "me.key")}
    for path in files.values():
        Path(path).touch()
    found = BrokerAddress.of(
        f"amqps://broker?cacertfile={files['ca.pem']}&certfile={files['me.pem']}&keyfile={files['me.key']}"
    )
    assert found.port == 5671
    assert found.tls == {
        "server_hostname": "broker",
        "ca_certs": files["ca.pem"],
        "certfile": files["me.pem"],
        "keyfile": files["me.key"],
    }


@pytest.mark.parametrize("name", ["cacertfile", "certfile", "keyfile"])
def test_a_file_that_cannot_be_read_is_named_before_anybody_connects(name, tmp_path):
    with pytest.raises(ConfigurationError, match=f"{name}= .*none.pem is no file") as caught:
        BrokerAddress.of(f"amqps://me:hunter2@broker?{name}={tmp_path}/none.pem")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "amqp://",
        "amqp:///host",
        "amqp://me:hunter2@broker:no/",
        "amqp://me:hunter2@broker:99999/",
        "amqp://me:hunter2@broker?heartbeat=1",
        "amqp://me:hunter2@broker?cacertfile=x",
        "amqps://me:hunter2@broker?queue=a%20b",
        "amqp://me:hunter2@broker?queue=",
    ],
)
def test_a_url_that_is_none_is_refused_with_what_to_write_and_without_its_password(url):
    for opens in (open_sender, open_queue):
        with pytest.raises(ConfigurationError) as caught:
            opens(url)
        assert "hunter2" not in str(caught.value)


def test_the_password_is_in_no_representation():
    url = "amqps://me:hunter2@broker/x"
    for one in (BrokerAddress.of(url), open_sender(url), open_queue(url)):
        assert "hunter2" not in repr(one)
        assert "broker" in repr(one)


@pytest.mark.parametrize("sign", "/?#")
@pytest.mark.parametrize("password", ["hunter2{}more", "12{}hunter2"])
def test_a_password_with_a_sign_that_ends_a_host_is_refused_with_the_way_to_write_it(sign, password):
    """`12` would pass for a port, the user for a host, and the rest would stand in every message."""
    for scheme in ("amqp", "amqps", "redis"):
        url = f"{scheme}://me:{password.format(sign)}@broker/x"
        with pytest.raises(ConfigurationError) as caught:
            open_sender(url)
        assert "hunter2" not in str(caught.value)
        assert "12" not in str(caught.value)
        assert ("%23" in str(caught.value)) == (scheme != "redis")


@pytest.mark.parametrize("sign", "/?#")
def test_a_redis_with_such_a_password_is_refused_likewise(sign):
    pytest.importorskip("redis")
    with pytest.raises(ConfigurationError, match="%3F") as caught:
        SharedBudget(f"redis://me:12{sign}hunter2@redis/0")
    assert "12" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
