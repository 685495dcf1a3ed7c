"""A minute of faults drawn from a seed, on all that a fleet is made of: every request is accounted for."""

import json
import os
import sys

import pytest
from soaking import Soak

pytest.importorskip("redis")


@pytest.mark.long_form
@pytest.mark.timeout(900)
def test_every_request_is_accounted_for_through_a_minute_of_faults(broker, redis_server, tmp_path):
    seed = int(os.environ.get("RAGMETER_TEST_SEED", "1"))
    name = f"soak-{seed}"
    with Soak(broker, redis_server, tmp_path, name, seed=seed, poison_every=500) as soak:
        faults = soak.drawn(12)
        soak.run(faults)
        figures = soak.check()
    sys.stdout.write(f"SOAK {json.dumps({'seed': seed, 'faults': faults, **figures})}\n")


@pytest.mark.timeout(240)
def test_killed_applications_and_workers_lose_nothing_that_was_confirmed(broker, redis_server, tmp_path):
    faults = ("a worker is killed", "an application is killed")
    with Soak(broker, redis_server, tmp_path, "soak", seed=1, poison_every=10**6) as soak:
        soak.run(faults, pause_s=1.0, applications=2, workers=1)
        figures = soak.check()
    assert figures["dead"] == 0
    assert figures["scored"] > 0
