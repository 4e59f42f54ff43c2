"""A Docker daemon for tests: Debian's, in a temporary directory, safe to kill.

It has no bridge and touches no firewall: containers use the machine's own network. Where it cannot
run (no root, no cgroups, a container without rights) the tests that need it say so at the end.
"""

import base64
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import psutil

READY_S = 60.0
PROGRAM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class CannotRun(Exception):
    """Why there is no daemon here."""


class Dockerd:
    """One daemon; its socket and its data stay the same over `kill` and `start`."""

    def __init__(self, *options: str, data: Path | None = None) -> None:
        """`options` are its own; `data` is a folder for its images and containers."""
        program = shutil.which("dockerd", path=PROGRAM_PATH)
        if program is None:
            raise CannotRun("install the package docker.io")
        if os.geteuid() != 0:
            raise CannotRun("only root can start one")
        self.directory = Path(tempfile.mkdtemp(prefix="botpool-docker-"))
        self.host = f"unix://{self.directory}/d.sock"
        self._command = [
            program,
            *("--host", self.host),
            *("--data-root", str(data or self.directory / "data")),
            *("--exec-root", f"{self.directory}/exec"),
            *("--pidfile", f"{self.directory}/pid"),
            *("--iptables=false", "--ip6tables=false", "--bridge=none"),
            # A limit of a billion files makes some programs close them one by one.
            *("--default-ulimit", "nofile=1024:1024"),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                env={**os.environ, "PATH": PROGRAM_PATH, "DOCKER_RAMDISK": "true"},
            )
        give_up_at = time.monotonic() + READY_S
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                raise CannotRun(f"it does not start: {self.last_words()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """The kernel ends its containerd with it; a daemon that finds it dying does not start."""
        assert self._process is not None
        helpers = psutil.Process(self._process.pid).children()
        self._process.kill()
        self._process.wait()
        psutil.wait_procs(helpers, timeout=READY_S)

    def answers(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.request("GET", "/_ping")[0] == 200
        return False

    def last_words(self) -> str:
        lines = (self.directory / "log").read_text(errors="replace").splitlines()
        return lines[-1][-300:] if lines else "it said nothing"

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **query: object,
    ) -> tuple[int, bytes]:
        connection = _UnixConnection(f"{self.directory}/d.sock")
        with contextlib.closing(connection):
            target = f"{path}?{urlencode(query)}" if query else path
            connection.request(method, target, body=body, headers=dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read()

    def ask(self, method: str, path: str, body: Any = None, **query: object) -> Any:
        """As `request`, in JSON; what is refused fails the test."""
        data = json.dumps(body).encode() if body is not None else None
        status, said = self.request(
            method, path, data, {"Content-Type": "application/json"}, **query
        )
        assert status < 400, f"{method} {path}: {status} {said!r}"
        return json.loads(said) if said else None

    def load(self, archive: bytes) -> None:
        status, said = self.request("POST", "/images/load", archive)
        assert status == 200, said
        assert b'"error"' not in said, said

    def push(self, image: str, credentials: Mapping[str, str] | None = None) -> None:
        told = base64.urlsafe_b64encode(json.dumps(credentials or {}).encode()).decode()
        headers = {"X-Registry-Auth": told}
        status, said = self.request("POST", f"/images/{quote(image)}/push", headers=headers)
        assert status == 200, said
        assert b'"error"' not in said, said

    def tag(self, image: str, name: str) -> None:
        repo, _, tag = name.rpartition(":")
        self.ask("POST", f"/images/{image}/tag", repo=repo, tag=tag)

    def forget_image(self, image: str) -> None:
        self.request("DELETE", f"/images/{image}", force=1)

    def containers(self, **labels: str) -> list[dict[str, Any]]:
        filters = {"label": [f"botpool.{name}={value}" for name, value in labels.items()]}
        found: list[dict[str, Any]] = self.ask(
            "GET", "/containers/json", all=1, filters=json.dumps(filters)
        )
        return found

    def remove_containers(self, **labels: str) -> None:
        for each in self.containers(**labels):
            self.request("DELETE", f"/containers/{each['Id']}", force=1, v=1)

    def close(self) -> None:
        """End it with all that it has started: shims outlive a daemon that was killed."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
                for each in self.ask("GET", "/containers/json", all=1):
                    self.request("DELETE", f"/containers/{each['Id']}", force=1, v=1)
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for process in self._left():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        for mount in reversed(list(self._mounts())):
            subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _left(self) -> list[psutil.Process]:
        """Processes with our directory on their command line: containerd and shims."""
        own = str(self.directory)
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if process.pid != os.getpid()
            and any(own in word for word in process.info["cmdline"] or ())
        ]

    def _mounts(self) -> Iterator[str]:
        for line in Path("/proc/self/mounts").read_text().splitlines():
            if (mount := line.split()[1]).startswith(f"{self.directory}/"):
                yield mount


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
