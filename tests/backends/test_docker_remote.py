"""A daemon over TCP with TLS and with a small disk."""

import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from botpool.backends.docker import DockerBackend, DockerConfig
from botpool.backends.protocol import StartRequest
from botpool.domain.errors import BackendRefused, BackendUnavailable
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.certificate_authority import CertificateAuthority
from tests.backends.docker_harness import RunReceiver
from tests.backends.harness import SPEC, TIMEOUT_S, eventually, observe, output, wait_until_down
from tests.support.components import missing
from tests.support.docker_host import COMPONENT, prepare, publish
from tests.support.dockerd import CannotRun, Dockerd
from tests.support.fences import ANY_ASSIGNMENT, NO_ASSIGNMENT
from tests.support.ports import free_port
from tests.support.registry import Registry

FIRST = AssignmentId(11)
DISK_MB = 64
"""Enough for one image, but not for two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    host: str
    certificates: Path
    """The certificates of a client."""


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    folder = tmp_path_factory.mktemp("remote")
    authority = CertificateAuthority(folder / "authority")
    daemon_certificates = authority.issue(folder / "daemon")
    host = f"tcp://127.0.0.1:{free_port()}"
    names = {"cacert": "ca.pem", "cert": "cert.pem", "key": "key.pem"}
    options = [f"--tls{option}={daemon_certificates / name}" for option, name in names.items()]
    disk = folder / "disk"
    with ExitStack() as stack:
        mount_small(disk)
        stack.callback(subprocess.run, ["umount", "-l", str(disk)], check=False)
        try:
            daemon = Dockerd("--host", host, "--tlsverify", *options, data=disk)
            prepare(stack.enter_context(daemon))
        except CannotRun as reason:
            missing(COMPONENT, str(reason))
        yield Remote(host=host, certificates=authority.issue(folder / "user"))


def mount_small(disk: Path) -> None:
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(disk)],
        capture_output=True,
    )
    if mounted.returncode != 0:
        missing(COMPONENT, f"a small disk cannot be mounted: {mounted.stderr.decode().strip()}")


@pytest.fixture
async def backend(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[DockerBackend]:
    """A backend that gets its daemon from the environment."""
    monkeypatch.setenv("DOCKER_HOST", remote.host)
    trust(monkeypatch, remote.certificates)
    backend = DockerBackend(
        DockerConfig(
            installation_id=f"remote-{secrets.token_hex(4)}",
            folder=tmp_path / "docker",
            network="host",
            shm_mb=16,
            stop_grace_s=1,
        )
    )
    yield backend
    await backend.close()


def trust(monkeypatch: pytest.MonkeyPatch, certificates: Path) -> None:
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(certificates))


def start_request(container_id: ContainerId, **environment: str) -> StartRequest:
    return StartRequest(
        container_id=container_id,
        assignment_id=FIRST,
        correlation_id="remote",
        environment=environment,
    )


async def test_bot_runs_at_daemon_with_tls(backend: DockerBackend) -> None:
    assert (await backend.check(timeout_s=TIMEOUT_S)).ok
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    with closing(RunReceiver()) as receiver:
        job = {"PROGRAM": "print 3", "ASSIGNMENT": str(FIRST), "REPORT_TO": receiver.url}
        await backend.start(start_request(container_id, **job), timeout_s=TIMEOUT_S)
        await eventually(lambda: receiver.runs[str(FIRST)], within_s=60)
    assert (await observe(backend, container_id)).state is ContainerState.RUNNING
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    await wait_until_down(backend, container_id)
    assert await output(backend, container_id, FIRST) == b"line 1\nline 2\nline 3\n"
    await backend.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)


async def test_full_disk_of_daemon_is_refused(
    backend: DockerBackend, dockerd: Dockerd, registry: Registry
) -> None:
    program = Path(__file__).with_name("container_program.py")
    tag = secrets.token_hex(4)
    image = publish(dockerd, registry, tag, program, mb=DISK_MB, is_hollow=True)
    container_id = await backend.ensure(
        replace(SPEC, image=image), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
    )
    with pytest.raises(BackendRefused, match="Docker's disk is full"):
        await backend.start(start_request(container_id), timeout_s=60)
    await backend.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)


async def test_connection_without_tls_is_unavailable(
    backend: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_TLS_VERIFY")
    with pytest.raises(BackendUnavailable, match="HTTPS"):
        await backend.check(timeout_s=TIMEOUT_S)


@pytest.mark.parametrize(
    ("foreign_files", "message"),
    [
        # Docker closes the connection, and its reason may be lost.
        (("cert.pem", "key.pem"), None),
        (("ca.pem",), "certificate verify failed"),
    ],
)
async def test_certificates_of_another_authority_are_rejected(
    backend: DockerBackend,
    remote: Remote,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    foreign_files: tuple[str, ...],
    message: str | None,
) -> None:
    """Neither side accepts a certificate of another authority."""
    mixed = CertificateAuthority(tmp_path / "authority").issue(tmp_path / "certificates")
    for path in remote.certificates.iterdir():
        if path.name not in foreign_files:
            (mixed / path.name).write_bytes(path.read_bytes())
    trust(monkeypatch, mixed)
    with pytest.raises(BackendUnavailable, match=message):
        await backend.check(timeout_s=TIMEOUT_S)


async def test_missing_certificates_are_named(
    backend: DockerBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(monkeypatch, tmp_path / "nowhere")
    health = await backend.check(timeout_s=TIMEOUT_S)
    assert not health.ok
    assert "DOCKER_CERT_PATH" in health.detail
