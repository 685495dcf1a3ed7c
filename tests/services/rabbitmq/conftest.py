"""One private RabbitMQ for all tests of the run, and queues of its own for each."""

import pytest
from fleet_of_workers import Fleet
from rabbitmq_broker import Broker, installed


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    if not installed():
        pytest.skip("no RabbitMQ found; .ci/services installs it")
    running = Broker(tmp_path_factory.mktemp("rabbitmq"))
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture
def fleet(broker, tmp_path, request):
    """Queues of the test's own, and workers that end with it."""
    with Fleet(broker, tmp_path, request.node.name) as made:
        yield made
