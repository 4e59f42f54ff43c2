"""A Docker daemon for tests, with its data in a temporary directory.

The daemon has no bridge and changes no firewall: containers use the network of the machine. Where
it cannot run (no root, no cgroups, a container without privileges), the summary of the run says so.
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
    """This machine cannot run a daemon; the message says why."""


class Dockerd:
    """One daemon, which keeps its socket and its data across `kill` and `start`."""

    def __init__(self, *options: str, data: Path | None = None) -> None:
        """`options`: more command-line options; `data`: a directory for images and containers."""
        program = shutil.which("dockerd", path=PROGRAM_PATH)
        if program is None:
            raise CannotRun("install the package docker.io")
        if os.geteuid() != 0:
            raise CannotRun("only root can start a daemon")
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
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                raise CannotRun(f"the daemon does not start: {self.last_log_line()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill the daemon and wait for its containerd, which would block the next start."""
        assert self._process is not None
        helpers = psutil.Process(self._process.pid).children()
        self._process.kill()
        self._process.wait()
        psutil.wait_procs(helpers, timeout=READY_S)

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.request("GET", "/_ping")[0] == 200
        return False

    def last_log_line(self) -> str:
        lines = (self.directory / "log").read_text(errors="replace").splitlines()
        return lines[-1][-300:] if lines else "its log is empty"

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
            response = connection.getresponse()
            return response.status, response.read()

    def call(self, method: str, path: str, body: Any = None, **query: object) -> Any:
        """Send a JSON request and return the JSON response; an error status fails the test."""
        data = json.dumps(body).encode() if body is not None else None
        status, response = self.request(
            method, path, data, {"Content-Type": "application/json"}, **query
        )
        assert status < 400, f"{method} {path}: {status} {response!r}"
        return json.loads(response) if response else None

    def load(self, archive: bytes) -> None:
        status, response = self.request("POST", "/images/load", archive)
        assert status == 200, response
        assert b'"error"' not in response, response

    def push(self, image: str, credentials: Mapping[str, str] | None = None) -> None:
        encoded = base64.urlsafe_b64encode(json.dumps(credentials or {}).encode()).decode()
        headers = {"X-Registry-Auth": encoded}
        status, response = self.request("POST", f"/images/{quote(image)}/push", headers=headers)
        assert status == 200, response
        assert b'"error"' not in response, response

    def tag(self, image: str, name: str) -> None:
        repo, _, tag = name.rpartition(":")
        self.call("POST", f"/images/{image}/tag", repo=repo, tag=tag)

    def remove_image(self, image: str) -> None:
        self.request("DELETE", f"/images/{image}", force=1)

    def containers(self, **labels: str) -> list[dict[str, Any]]:
        filters = {"label": [f"botpool.{name}={value}" for name, value in labels.items()]}
        found: list[dict[str, Any]] = self.call(
            "GET", "/containers/json", all=1, filters=json.dumps(filters)
        )
        return found

    def remove_containers(self, **labels: str) -> None:
        for each in self.containers(**labels):
            self.request("DELETE", f"/containers/{each['Id']}", force=1, v=1)

    def remove_networks(self, **labels: str) -> None:
        filters = {"label": [f"botpool.{name}={value}" for name, value in labels.items()]}
        for each in self.call("GET", "/networks", filters=json.dumps(filters)):
            self.request("DELETE", f"/networks/{each['Id']}")

    def close(self) -> None:
        """Stop the daemon and every process that it started: shims survive a killed daemon."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
                for each in self.call("GET", "/containers/json", all=1):
                    self.request("DELETE", f"/containers/{each['Id']}", force=1, v=1)
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for process in self._remaining_processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        for mount in reversed(list(self._mounts())):
            subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _remaining_processes(self) -> list[psutil.Process]:
        """Return the processes with our directory in their command line: containerd and shims."""
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
