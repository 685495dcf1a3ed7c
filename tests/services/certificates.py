"""A private authority and its certificates, made by openssl for one run of the tests; and an unrelated one."""

import shutil
import subprocess
from pathlib import Path

import pytest

DAYS = "2"


class Certificates:
    """Files in PEM form: `authority` signed `server`, for 127.0.0.1 and localhost alone, and `client`; `stranger` signed nothing.

    Args:
        folder: The folder of the files.
    """

    def __init__(self, folder: Path) -> None:
        self._openssl = shutil.which("openssl") or pytest.skip("no openssl found")
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.authority, self._authority_key = self._own("authority")
        self.stranger, self.stranger_key = self._own("stranger")
        self.server, self.server_key = self._signed("server", "subjectAltName=IP:127.0.0.1,DNS:localhost")
        self.client, self.client_key = self._signed("client", "extendedKeyUsage=clientAuth")

    def _signed(self, name, says):
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        asked, extension = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extension.write_text(f"{says}\n")
        self._run(
            "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", key, "-out", asked, "-subj", f"/CN=ragmeter-{name}",
        )  # fmt: skip
        self._run(
            "x509", "-req", "-in", asked, "-CA", self.authority, "-CAkey", self._authority_key, "-CAcreateserial",
            "-days", DAYS, "-extfile", extension, "-out", certificate,
        )  # fmt: skip
        return certificate, key

    def _own(self, name):
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        self._run(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", key, "-out", certificate, "-days", DAYS, "-subj", f"/CN={name}",
            "-addext", "keyUsage=critical,keyCertSign",
        )  # fmt: skip
        return certificate, key

    def _run(self, *words):
        subprocess.run([self._openssl, *words], check=True, capture_output=True)
