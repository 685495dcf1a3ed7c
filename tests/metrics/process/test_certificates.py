"""What a failed handshake is called. Real servers with wrong certificates stand in tests/services."""

import ssl

import pytest

from ragmeter.metrics._process.certificates import tls_failure


def refused(code, message="it has expired"):
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, message
    return error


def failed(reason, library="SSL"):
    error = ssl.SSLError(1, "failed")
    error.reason, error.library = reason, library
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (refused(19), "has an unknown authority: name the authority with ?ca=FILE"),
        (refused(20), "has an unknown authority: name the authority with ?ca=FILE"),
        (refused(62), "is for another name: connect by the name in it or give that name with sni=NAME"),
        (refused(64), "is for another name"),
        (refused(10), "is refused: it has expired"),
        (failed("WRONG_VERSION_NUMBER"), "speaks no TLS on this port"),
        (failed("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "want a client certificate, from an authority that it knows? Name it with ?cert=FILE"),
        (ssl.SSLEOFError(8, "EOF in violation of protocol"), "it hangs up within TLS; does it want a client certificate"),
        (failed("NO_CERTIFICATE_OR_CRL_FOUND", "X509"), "a file holds no certificate or key"),
        (failed("NO_SHARED_CIPHER"), "TLS fails (NO_SHARED_CIPHER)"),
    ],
)  # fmt: skip
def test_what_failed_is_said_with_what_to_do(error, said):
    assert said in tls_failure(error, "?ca=FILE", own="?cert=FILE", other_name="sni=NAME")


def test_a_client_that_wraps_the_error_hides_nothing():
    outer = ConnectionError("Error 1 connecting to me:hunter2@host")
    outer.__cause__ = refused(18)
    assert tls_failure(outer, "?ca=FILE", own="").startswith("its certificate has an unknown authority")


def test_what_is_not_about_tls_is_left_to_others_and_a_circle_of_causes_ends():
    one, other = OSError("a"), OSError("b")
    one.__cause__, other.__cause__ = other, one
    assert tls_failure(one, "?ca=FILE", own="") is None
