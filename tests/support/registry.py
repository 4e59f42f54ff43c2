"""Debian's Docker registry on this machine; its log shows pulls, and a test can delay it."""

import base64
import contextlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Self

from tests.support.components import missing
from tests.support.ports import free_port

_REQUEST = re.compile(r'"GET /v2/\S+/blobs/(?P<what>\S+) HTTP/1.1" 200 (?P<size>\d+)')
_LAYER_BYTES = 64 * 1024
"""Every layer of a test's image is larger; manifests and configurations are smaller."""
_READY_S = 60.0
_CONFIG = """\
version: 0.1
log: {{accesslog: {{disabled: false}}}}
storage: {{filesystem: {{rootdirectory: "{data}"}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""
_PRIVATE = """\
auth: {{htpasswd: {{realm: test, path: "{path}"}}}}
"""
USER, PASSWORD = "bot", "sesame"
_HASHED = "bot:$2b$05$abcdefghijklmnopqrstuuKcS.CYWVYVaLiiCKrrc0A5s3mGesJ9O"
"""The output of `htpasswd -B`."""


class Registry:
    """A registry behind a `Gate`, which a test can hold."""

    def __init__(self, *, is_private: bool = False) -> None:
        """`is_private`: only `USER` may pull and push."""
        self.credentials = {"username": USER, "password": PASSWORD} if is_private else None
        program = shutil.which("docker-registry")
        if program is None:
            missing("Docker's registry", "install the package docker-registry")
        self.directory = Path(tempfile.mkdtemp(prefix="botpool-registry-"))
        port = free_port()
        config = self.directory / "config.yml"
        config.write_text(_CONFIG.format(data=self.directory / "data", port=port))
        if is_private:
            known = self.directory / "htpasswd"
            known.write_text(_HASHED)
            with config.open("a") as more:
                more.write(_PRIVATE.format(path=known))
        self._log = self.directory / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program, "serve", str(config)], stdout=log, stderr=log
            )
        _wait_for_port(port)
        self.gate = Gate(port)
        self.address = f"127.0.0.1:{self.gate.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.close()
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def fetch_counts(self) -> Counter[str]:
        """Count the fetches of each layer by its digest.

        Smaller parts do not count: resolving a tag to its digest fetches the image's manifest and
        configuration and pulls nothing.
        """
        log = self._log.read_text(errors="replace")
        return Counter(
            request["what"]
            for request in _REQUEST.finditer(log)
            if int(request["size"]) >= _LAYER_BYTES
        )

    def pulls_started(self, tag: str) -> int:
        """Return the number of requests for the manifest of that tag."""
        log = self._log.read_text(errors="replace")
        return len(re.findall(rf'"(?:HEAD|GET) /v2/\S+/manifests/{tag} HTTP', log))


class Gate:
    """A TCP proxy. While a test holds it, responses stop after some bytes."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.waiting = threading.Event()
        """Set when a response is held."""
        self._free_bytes = 0
        self.bytes_per_s: float | None = None
        """The bandwidth of responses; None is unlimited."""
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, *, after_bytes: int = 65_536) -> None:
        """Pass that many bytes of each response, and no more before `release`."""
        self._free_bytes = after_bytes
        self.waiting.clear()
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._open.set()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection(("127.0.0.1", self._target))
                for source, target, is_held in ((here, there, False), (there, here, True)):
                    threading.Thread(
                        target=self._pump, args=(source, target, is_held), daemon=True
                    ).start()

    def _pump(self, source: socket.socket, target: socket.socket, is_held: bool) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(16_384):
                passed += len(data)
                if is_held and not self._open.is_set() and passed > self._free_bytes:
                    self.waiting.set()
                    self._open.wait()
                if is_held and self.bytes_per_s is not None:
                    time.sleep(len(data) / self.bytes_per_s)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def encoded(user: str, password: str) -> str:
    """Encode credentials as `docker login` stores them."""
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _wait_for_port(port: int) -> None:
    give_up_at = time.monotonic() + _READY_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert time.monotonic() < give_up_at, "the registry does not respond"
        time.sleep(0.05)
