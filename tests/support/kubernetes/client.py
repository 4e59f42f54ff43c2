"""Requests to the API server of a cluster, as raw JSON."""

import base64
import json
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

_TIMEOUT_S = 30.0


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class Kubectl:
    """kubectl with one kubeconfig, and a plain client with the same rights."""

    def __init__(self, program: str, kubeconfig: Path, cache: Path) -> None:
        self.kubeconfig = kubeconfig
        self._command = [program, f"--kubeconfig={kubeconfig}", f"--cache-dir={cache}"]
        self._client: httpx.Client | None = None

    def __call__(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        """Run a command and return its output; `check`: it must succeed."""
        done = subprocess.run(
            [*self._command, *arguments], input=text, capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, f"kubectl {arguments}: {done.stderr}"
        return done.stdout

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        """Send a request to the API server; an error status raises `ApiError`."""
        if self._client is None:
            self._client = self._connect()
        content = json.dumps(body).encode() if body is not None else None
        response = self._client.request(
            method, path, content=content, headers={"Content-Type": content_type}
        )
        if response.status_code >= 400:
            raise ApiError(response.status_code, response.text)
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        return response.json() if is_json else response.text

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _connect(self) -> httpx.Client:
        view = self("config", "view", "--raw", "--minify", "--flatten", "-o", "json")
        described = json.loads(view)
        cluster, user = described["clusters"][0]["cluster"], described["users"][0]["user"]
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        return httpx.Client(
            base_url=cluster["server"],
            headers=headers,
            verify=_trust(cluster, user),
            timeout=_TIMEOUT_S,
            trust_env=False,
        )


def _trust(cluster: Mapping[str, str], user: Mapping[str, str]) -> ssl.SSLContext:
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as pair:
            for part in ("client-certificate-data", "client-key-data"):
                pair.write(base64.b64decode(user[part]) + b"\n")
            pair.flush()
            context.load_cert_chain(pair.name)
    return context
