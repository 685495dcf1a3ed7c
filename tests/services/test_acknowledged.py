"""The columns PostgreSQL and Kafka of the table in ``tests/serve/test_acknowledged.py``."""

import re
from contextlib import contextmanager

import psycopg
import pytest
from acknowledged import FAULTS, Setup, begins, holds, set_up
from served import traced_as


class OnPostgreSQL(Setup):
    """With the store in a database; the spool is on the small disk."""

    def __init__(self, disk, endpoint, folder, postgresql):
        super().__init__(disk, endpoint, folder)
        self.postgresql, self.address = postgresql, postgresql.database()
        self.database = re.search(r"/(\w+)\?", self.address)[1]
        self.options = ("--store", self.address)
        self.faults["store read-only"] = self.read_only
        self.faults["database away"] = self.away

    def found(self):
        rows = self.postgresql.run("SELECT encode(trace_id, 'hex') FROM ragmeter.request", self.database)
        traces = [trace for (trace,) in rows]
        assert len(traces) == len(set(traces))
        return set(traces)

    def cut_off(self):
        self.postgresql.run(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.database}'"
        )

    @contextmanager
    def read_only(self):
        setting = f"ALTER DATABASE {self.database}" + " {} default_transaction_read_only"
        self.postgresql.run(setting.format("SET") + " = on")
        self.cut_off()
        yield
        self.postgresql.run(setting.format("RESET"))
        self.cut_off()

    @contextmanager
    def locked(self):
        with psycopg.connect(self.address) as other:
            other.execute("LOCK TABLE ragmeter.request IN ACCESS EXCLUSIVE MODE")
            yield
            other.rollback()

    @contextmanager
    def away(self):
        self.postgresql.kill()
        yield
        self.postgresql.start()


class FromKafka(Setup):
    """What a broker has acknowledged is read from a topic; the store is the default one."""

    def __init__(self, disk, endpoint, folder, broker, name):
        super().__init__(disk, endpoint, folder)
        self.broker, self.topic = broker, name
        broker.make(name, 2)
        properties = folder / "properties"
        properties.write_text("session.timeout.ms = 6000\n")
        self.options = ("--kafka", broker.address, "--topic", name, "--kafka-config", str(properties))

    def send(self, numbers):
        made = [traced_as(number) for number in numbers]
        self.broker.write(self.topic, [(trace.encode(), body) for body, trace in made])
        return {trace for _, trace in made}


@pytest.mark.parametrize("tried", [holds, begins])
@pytest.mark.parametrize("fault", FAULTS)
def test_with_postgresql(fault, tried, postgresql, tmp_path):
    with set_up(OnPostgreSQL, tmp_path, postgresql) as setup:
        tried(setup, fault)


@pytest.mark.parametrize("tried", [holds, begins])
@pytest.mark.parametrize("fault", FAULTS)
def test_with_kafka(fault, tried, kafka, tmp_path):
    topic = f"acknowledged-{fault.replace(' ', '-')}-{tried.__name__}"
    with set_up(FromKafka, tmp_path, kafka, topic) as setup:
        tried(setup, fault)
