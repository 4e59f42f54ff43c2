"""A certificate authority for one test."""

import shutil
import subprocess
from pathlib import Path

from tests.support.components import missing

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1")


class CertificateAuthority:
    def __init__(self, folder: Path) -> None:
        """Write the authority's own certificate into `folder`."""
        program = shutil.which("openssl")
        if program is None:
            missing("openssl", "install the package openssl")
        self._program = program
        self._folder = folder
        folder.mkdir()
        self._sign(folder / "ca.pem", folder / "ca-key.pem", "-x509", "-subj", "/CN=authority")

    def issue(self, folder: Path) -> Path:
        """Create a folder for `DOCKER_CERT_PATH`, valid for a local server and a client."""
        folder.mkdir()
        shutil.copy(self._folder / "ca.pem", folder)
        signed_by = (
            "-CA",
            str(self._folder / "ca.pem"),
            "-CAkey",
            str(self._folder / "ca-key.pem"),
        )
        use = ("-subj", "/CN=docker", "-addext", "extendedKeyUsage=serverAuth,clientAuth")
        name = ("-addext", "subjectAltName=IP:127.0.0.1")
        self._sign(folder / "cert.pem", folder / "key.pem", *signed_by, *use, *name)
        return folder

    def _sign(self, certificate: Path, key: Path, *options: str) -> None:
        subprocess.run(
            [
                self._program,
                "req",
                *_NEW_KEY,
                *options,
                "-out",
                str(certificate),
                "-keyout",
                str(key),
            ],
            check=True,
            capture_output=True,
        )
