"""Private queues for each test, on the run's only RabbitMQ."""

import pytest
from fleet_of_workers import Fleet


@pytest.fixture
def fleet(broker, tmp_path, request):
    """Yield the test's private queues, and workers that end with it."""
    with Fleet(broker, tmp_path, request.node.name) as made:
        yield made
