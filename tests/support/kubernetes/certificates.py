"""The certificates and tokens of one cluster."""

import base64
import json
import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOST_NODES = 30
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


class Certificates:
    """Writes an authority, what it signs, a key for service accounts, and a file of tokens."""

    def __init__(self, folder: Path, server: str) -> None:
        folder.mkdir()
        self._folder = folder
        self._server = server
        _request(folder, "ca", "-x509", "-subj", "/CN=authority")
        self._issue(
            "apiserver",
            "/CN=kube-apiserver",
            f"subjectAltName=IP:{server},IP:127.0.0.1,DNS:kubernetes.default.svc",
            "extendedKeyUsage=serverAuth",
        )
        self._issue(
            "kubelet-client",
            "/O=system:masters/CN=kube-apiserver",
            "extendedKeyUsage=clientAuth",
        )
        key = ["openssl", "genrsa", "-out", str(self.path("service-accounts.key")), "2048"]
        subprocess.run(key, check=True, capture_output=True)
        users = {
            "admin": ("admin", "system:masters"),
            "controller-manager": ("system:kube-controller-manager", ""),
            "scheduler": ("system:kube-scheduler", ""),
            **{
                f"node-{n}": (f"system:node:node-{n}", "system:nodes")
                for n in range(1, MOST_NODES + 1)
            },
        }
        self._tokens = {name: secrets.token_hex(16) for name in users}
        lines = [
            f'{self._tokens[name]},{user},{user},"{group}"' for name, (user, group) in users.items()
        ]
        self.path("tokens.csv").write_text("\n".join(lines) + "\n")

    def path(self, name: str) -> Path:
        return self._folder / name

    def kubeconfig(self, user: str) -> Path:
        """Write a configuration for a user, with the name of the file of tokens."""
        path = self.path(f"{user}.kubeconfig")
        if not path.exists():
            path.write_text(_kubeconfig(self._server, self.path("ca.pem"), self._tokens[user]))
        return path

    def _issue(self, name: str, subject: str, *extensions: str) -> None:
        authority = ("-CA", str(self.path("ca.pem")), "-CAkey", str(self.path("ca-key.pem")))
        more = [word for each in extensions for word in ("-addext", each)]
        _request(self._folder, name, "-subj", subject, *authority, *more)


def _request(folder: Path, name: str, *options: str) -> None:
    files = ("-out", str(folder / f"{name}.pem"), "-keyout", str(folder / f"{name}-key.pem"))
    command = ["openssl", "req", *_NEW_KEY, *options, *files]
    subprocess.run(command, check=True, capture_output=True)


def _kubeconfig(server: str, authority: Path, token: str) -> str:
    cluster: Mapping[str, Any] = {
        "server": f"https://{server}",
        "certificate-authority-data": base64.b64encode(authority.read_bytes()).decode(),
    }
    # JSON is YAML too.
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "user"}}],
            "current-context": "tests",
        },
        indent=1,
    )
