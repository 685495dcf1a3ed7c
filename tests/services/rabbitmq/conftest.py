"""Queues of its own for each test, on the run's one RabbitMQ."""

import pytest
from fleet_of_workers import Fleet


@pytest.fixture
def fleet(broker, tmp_path, request):
    """Queues of the test's own, and workers that end with it."""
    with Fleet(broker, tmp_path, request.node.name) as made:
        yield made
