"""A daemon that is reached over TLS, and whose disk is full."""

import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from harness import SPEC, TIMEOUT_S

from botpool.backends.docker import DockerBackend, DockerConfig
from botpool.backends.protocol import StartOrder
from botpool.domain.errors import BackendError, BackendRefused
from botpool.domain.ids import AssignmentId

from components import missing
from docker_host import COMPONENT, publish
from dockerd import CannotRun, Dockerd
from registry import Registry

CERTIFICATE = Path(__file__).parents[1] / "unit" / "agent" / "localhost.pem"
"""Its own authority, for servers and clients alike."""
DISK_MB = 12
"""Room for a daemon, and not for an interpreter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    host: str
    certificates: Path


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    folder = tmp_path_factory.mktemp("remote")
    certificates, disk = folder / "certificates", folder / "disk"
    certificates.mkdir()
    for name in ("ca.pem", "cert.pem", "key.pem"):
        shutil.copy(CERTIFICATE, certificates / name)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        host = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with ExitStack() as stack:
        mount_small(disk)
        stack.callback(subprocess.run, ["umount", "-l", str(disk)], check=False)
        options = [f"--tls{name}={CERTIFICATE}" for name in ("cacert", "cert", "key")]
        try:
            stack.enter_context(Dockerd("--host", host, "--tlsverify", *options, data=disk))
        except CannotRun as reason:
            missing(COMPONENT, str(reason))
        yield Remote(host=host, certificates=certificates)


def mount_small(disk: Path) -> None:
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(disk)],
        capture_output=True,
    )
    if mounted.returncode != 0:
        missing(COMPONENT, f"a small disk cannot be mounted: {mounted.stderr.decode().strip()}")


def backend_of(remote: Remote, folder: Path) -> DockerBackend:
    return DockerBackend(
        DockerConfig(
            installation_id=f"remote-{secrets.token_hex(4)}",
            folder=folder,
            host=remote.host,
            network="host",
        )
    )


async def test_a_full_disk_of_a_daemon_reached_by_tls_is_the_reason(
    remote: Remote,
    dockerd: Dockerd,
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Path(__file__).with_name("container_program.py")
    image = publish(dockerd, registry, secrets.token_hex(4), program, mb=1)
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(remote.certificates))
    backend = backend_of(remote, tmp_path)
    try:
        assert (await backend.check(timeout_s=TIMEOUT_S)).ok
        container_id = await backend.ensure(replace(SPEC, image=image), timeout_s=TIMEOUT_S)
        order = StartOrder(
            container_id=container_id,
            assignment_id=AssignmentId(1),
            correlation_id="full",
            environment={},
        )
        with pytest.raises(BackendRefused, match="Docker's disk is full"):
            await backend.start(order, timeout_s=60)
        await backend.delete(container_id, timeout_s=TIMEOUT_S)
    finally:
        await backend.close()


async def test_without_its_certificates_nothing_is_believed(remote: Remote, tmp_path: Path) -> None:
    backend = backend_of(remote, tmp_path)
    try:
        with pytest.raises(BackendError):
            await backend.check(timeout_s=TIMEOUT_S)
    finally:
        await backend.close()
