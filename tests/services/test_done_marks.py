"""The worker's marks, on a real Redis."""

import pytest
from certificates import Certificates
from processes import free_port, wait_until

pytest.importorskip("redis")

from ragmeter.fleet._marks import DoneMarks


def test_what_was_marked_is_seen_by_others(redis_server, patient_redis):
    first, second = DoneMarks(redis_server.url), DoneMarks(redis_server.url)
    assert first.seen(["run:a:", "run:b:"]) == set()
    first.add(["run:a:", "run:a:"])
    assert second.seen(["run:a:", "run:b:", "again:a:1"]) == {"run:a:"}
    assert second.seen([]) == set()
    first.close()
    assert first.seen(["run:a:"]) == {"run:a:"}


def test_a_mark_stands_for_an_hour(redis_server, patient_redis):
    import redis

    DoneMarks(redis_server.url).add(["run:a:"])
    with redis.Redis.from_url(redis_server.url) as client:
        [key] = client.keys()
        assert 3500 < client.ttl(key) <= 3600


def test_where_redis_hangs_nothing_was_seen_and_it_is_not_waited_for_again(redis_server):
    marks = DoneMarks(redis_server.url)
    wait_until(lambda: marks.add(["run:a:"]) or marks.seen(["run:a:"]) == {"run:a:"}, 60)
    redis_server.hang()
    try:
        assert marks.seen(["run:a:"]) == set()
        assert marks._line.is_away
        assert marks.seen(["run:a:"]) == set()
        marks.add(["run:b:"])
    finally:
        redis_server.go_on()
    wait_until(lambda: marks.seen(["run:a:"]) == {"run:a:"}, 60)


def test_a_redis_that_is_gone_raises_nothing_and_its_password_is_not_shown(start_redis, caplog):
    server = start_redis("--requirepass", "hidden")
    url = server.url.replace("redis://", "redis://:hidden@")
    server.kill()
    marks = DoneMarks(url)
    for _ in range(3):
        assert marks.seen(["run:a:"]) == set()
        marks.add(["run:a:"])
        marks._line._away_until = 0.0  # a second later
    [said] = caplog.records
    assert f"127.0.0.1:{server.port}" in said.getMessage()
    assert "hidden" not in caplog.text + repr(marks)
    server.start()
    wait_until(lambda: marks.add(["run:a:"]) or marks.seen(["run:a:"]) == {"run:a:"}, 60)
    assert DoneMarks(server.url).seen(["run:a:"]) == set()  # without the password nothing is seen


def test_over_tls_the_authority_is_named_and_a_stranger_is_refused(
    start_redis, tmp_path, caplog, patient_redis
):
    made, port = Certificates(tmp_path), free_port()
    start_redis(
        "--bind", "127.0.0.1", "127.0.0.2", "--tls-port", str(port), "--tls-auth-clients", "no", "--tls-ca-cert-file", str(made.authority),
        "--tls-cert-file", str(made.server), "--tls-key-file", str(made.server_key),
    )  # fmt: skip

    def marked(host="127.0.0.1", authority=made.authority):
        marks = DoneMarks(f"rediss://{host}:{port}/0?ssl_ca_certs={authority}")
        marks.add(["run:1:"])
        found = marks.seen(["run:1:", "run:2:"])
        marks.close()
        return found

    assert marked() == marked("localhost") == {"run:1:"}
    assert not caplog.records
    assert marked(authority=made.stranger) == set()
    assert "name the authority with ?ssl_ca_certs=FILE" in caplog.text
    caplog.clear()
    assert marked("127.0.0.2") == set()
    assert "its certificate is for another name" in caplog.text


def test_a_redis_that_demands_a_certificate_is_shown_ours_and_who_has_none_is_told(
    start_redis, tmp_path, caplog, patient_redis
):
    made, port = Certificates(tmp_path), free_port()
    start_redis(
        "--bind", "127.0.0.1", "--tls-port", str(port), "--tls-auth-clients", "yes", "--tls-ca-cert-file", str(made.authority),
        "--tls-cert-file", str(made.server), "--tls-key-file", str(made.server_key),
    )  # fmt: skip

    def marked(*files):
        shown = "".join(
            f"&ssl_{name}={file}" for name, file in zip(("certfile", "keyfile"), files, strict=False)
        )
        marks = DoneMarks(f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={made.authority}{shown}")
        marks.add(["run:1:"])
        found = marks.seen(["run:1:", "run:2:"])
        marks.close()
        return found

    assert marked(made.client, made.client_key) == {"run:1:"}
    assert not caplog.records
    assert marked() == set()
    assert "?ssl_certfile=FILE&ssl_keyfile=FILE" in caplog.text
    caplog.clear()
    assert marked(made.stranger, made.stranger_key) == set()
    assert "?ssl_certfile=FILE&ssl_keyfile=FILE" in caplog.text
