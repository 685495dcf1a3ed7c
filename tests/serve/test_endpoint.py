"""The standard variables say where a signal goes."""

import pytest

from ragmeter.metrics import ConfigurationError
from ragmeter.serve._endpoint import endpoint_of

BASE = "OTEL_EXPORTER_OTLP_"


def found(signal="traces", **variables):
    return endpoint_of(signal, {BASE + name: value for name, value in variables.items()})


def test_nothing_said_is_nowhere():
    assert found() is None
    assert found(ENDPOINT=" ") is None


@pytest.mark.parametrize(
    ("variables", "url", "protocol"),
    [
        ({"ENDPOINT": "http://h:4318"}, "http://h:4318/v1/traces", "http/protobuf"),
        ({"ENDPOINT": "http://h:4318/otlp/"}, "http://h:4318/otlp/v1/traces", "http/protobuf"),
        ({"TRACES_ENDPOINT": "http://h/mine"}, "http://h/mine", "http/protobuf"),
        ({"ENDPOINT": "http://a", "TRACES_ENDPOINT": "http://b"}, "http://b", "http/protobuf"),
        ({"ENDPOINT": "http://a", "LOGS_ENDPOINT": "http://b"}, "http://a/v1/traces", "http/protobuf"),
        ({"ENDPOINT": "http://h:4317"}, "http://h:4317", "grpc"),
        ({"ENDPOINT": "http://h:9999", "PROTOCOL": "grpc"}, "http://h:9999", "grpc"),
        (
            {"ENDPOINT": "http://h:4317", "TRACES_PROTOCOL": "http/protobuf"},
            "http://h:4317/v1/traces",
            "http/protobuf",
        ),
        ({"ENDPOINT": "h:4317"}, "https://h:4317", "grpc"),
        ({"ENDPOINT": "h:4317", "INSECURE": "true"}, "http://h:4317", "grpc"),
    ],
)
def test_address_and_protocol(variables, url, protocol):
    endpoint = found(**variables)
    assert (endpoint.url, endpoint.protocol) == (url, protocol)
    assert endpoint.secure == url.startswith("https")


def test_an_address_of_the_command_line_wins():
    variables = {BASE + "TRACES_ENDPOINT": "http://a/x", BASE + "HEADERS": "k=v"}
    endpoint = endpoint_of("traces", variables, url="http://b:1")
    assert endpoint.url == "http://b:1/v1/traces"
    assert endpoint.headers == {"k": "v"}


def test_everything_else_that_is_said():
    endpoint = found(
        ENDPOINT="https://h",
        HEADERS="authorization=Bearer%20abc,x-tenant=7",
        TRACES_TIMEOUT="3",
        COMPRESSION="gzip",
        CERTIFICATE="/ca.pem",
        CLIENT_KEY="/key.pem",
        CLIENT_CERTIFICATE="/cert.pem",
    )
    assert endpoint.headers == {"authorization": "Bearer abc", "x-tenant": "7"}
    assert (endpoint.timeout_s, endpoint.gzip, endpoint.address) == (3.0, True, ("h", 443))
    assert (endpoint.certificate, endpoint.client_key) == ("/ca.pem", "/key.pem")
    assert endpoint.client_certificate == "/cert.pem"


def test_keys_and_passwords_are_not_shown():
    endpoint = found(ENDPOINT="http://me:secret@h:1/p?token=secret", HEADERS="k=secret")
    assert endpoint.url == "http://me:secret@h:1/p/v1/traces?token=secret"
    assert endpoint.shown == "http://h:1/p/v1/traces"
    assert "secret" not in repr(endpoint)


@pytest.mark.parametrize(
    "variables",
    [
        {"ENDPOINT": "ftp://me:secret@h"},
        {"ENDPOINT": "http://"},
        {"ENDPOINT": "http://me:secret@h:port"},
        {"ENDPOINT": "http://[secret"},
        {"ENDPOINT": "http://h", "PROTOCOL": "http/thrift"},
        {"ENDPOINT": "http://h", "TIMEOUT": "soon"},
        {"ENDPOINT": "http://h", "TIMEOUT": "-1"},
        {"ENDPOINT": "http://h", "TIMEOUT": "nan"},
    ],
)
def test_what_makes_no_sense_is_named_and_no_secret_shown(variables):
    with pytest.raises(ConfigurationError, match="OTEL_EXPORTER_OTLP_") as raised:
        found(**variables)
    assert "secret" not in str(raised.value)
