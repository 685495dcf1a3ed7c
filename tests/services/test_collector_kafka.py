"""Applications → a real Collector → Kafka → two `ragmeter serve` of one group, by examples/deploy/collector-kafka.yaml."""

import shutil
from pathlib import Path

import pytest
import yaml
from kafka_broker import broker_in
from kafka_group import PARTITIONS, SCORED_S, Group, joined
from otel_collector import collecting, listening_here, spans_of
from processes import wait_until
from two_services import SHOP, ask_many

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
TOPIC = "otlp_spans"
COUNT = 60
pytestmark = [pytest.mark.timeout(900), pytest.mark.long_form]


def line_to(broker, folder):
    """Return the example's configuration on this machine, and where it takes spans."""
    config = yaml.safe_load((DEPLOY / "collector-kafka.yaml").read_text(encoding="utf-8"))
    http, grpc = listening_here(config, "otlp")
    kafka = config["exporters"]["kafka"]
    assert (kafka["partition_traces_by_id"], kafka["traces"]["topic"]) == (True, TOPIC)
    kafka["brokers"] = [broker.address]
    kafka["retry_on_failure"] |= {"initial_interval": "0.5s", "max_interval": "2s"}
    config["extensions"]["file_storage"]["directory"] = str(folder / "queue")
    return config, http, grpc


def test_each_request_is_scored_once_and_whole_and_what_waits_for_the_broker_is_not_lost(
    collector_program, kafka_jars, tmp_path
):
    with broker_in(shutil.which("java"), kafka_jars, tmp_path) as broker:
        broker.make(TOPIC, PARTITIONS)
        config, http, grpc = line_to(broker, tmp_path)
        with (
            collecting(collector_program, config, tmp_path / "collector"),
            Group(broker, tmp_path, TOPIC) as group,
        ):
            one, two = group.join(), group.join()
            wait_until(lambda: joined(one, two), SCORED_S, "they do not join")

            asked = ask_many(http, grpc, COUNT)
            wait_until(lambda: group.verdicts().keys() >= set(asked), SCORED_S, "not all are scored")
            assert group.verdicts().keys() == set(asked)
            assert set(group.verdicts().values()) == {1}
            counts = {
                span.trace_id: span.attributes["ragmeter.score.context_count"]
                for span in spans_of(group.receiver)
                if "ragmeter.score.context_count" in span.attributes
            }
            finds = {each["question"]: len(each["finds"]) for each in SHOP["requests"]}
            assert counts == {trace: finds[question] for trace, question in asked.items()}

            broker.stop()
            late = ask_many(http, grpc, COUNT // 2)
            broker.start()
            wait_until(
                lambda: group.verdicts().keys() >= {*asked, *late},
                SCORED_S,
                "what waited in the Collector did not come",
            )
            # What the broker had and did not confirm comes again, under the same ids and with the same scores.
            assert all(each == said[0] for said in group.scores().values() for each in said)
            assert [one.drain(), two.drain()] == [0, 0]
