"""Starts a cluster, or joins the one of the other test processes of this run."""

import contextlib
import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.components import missing
from tests.support.kubernetes.cluster import Cluster, OwnCluster
from tests.support.kubernetes.foreign import COMPONENT, foreign_cluster
from tests.support.kubernetes.programs import PROGRAM_PATH, CannotRun, Programs

_START_S = 300.0
_ROOT = Path(__file__).parents[3]
_NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_supervisors: list[subprocess.Popen[bytes]] = []
"""Those that this process started; another process may use them longer."""


@contextlib.contextmanager
def shared_cluster(run_dir: Path) -> Iterator[Cluster]:
    """Use the one cluster of all processes with the same `run_dir`.

    `BOTPOOL_TEST_KUBECONFIG` names another cluster, and `BOTPOOL_TEST_CLUSTER` the `run_dir` of one
    that runs longer than a test run: see `__main__.py`.
    """
    if "BOTPOOL_TEST_KUBECONFIG" in os.environ:
        with foreign_cluster() as foreign:
            yield foreign
        return
    run_dir = Path(os.environ.get("BOTPOOL_TEST_CLUSTER", run_dir))
    with _reported(), _lock(run_dir):
        cluster = _join(run_dir)
        if cluster is None:
            directory = start()
            (run_dir / "kubernetes").write_text(str(directory))
            cluster = connect(directory)
        cluster.wait_until_ready()
    try:
        yield cluster
    finally:
        end(cluster)


@contextlib.contextmanager
def own_cluster() -> Iterator[OwnCluster]:
    """Start a cluster for one test, which may stop its API server."""
    with _reported():
        cluster = connect(start())
        cluster.wait_until_ready()
    try:
        yield cluster
    finally:
        end(cluster)


def start() -> Path:
    """Start a supervisor and its cluster; return its directory."""
    Programs.find()
    directory = Path(tempfile.mkdtemp(prefix="botpool-kubernetes-"))
    supervisor = [sys.executable, "-m", "tests.support.kubernetes.supervisor", str(directory)]
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(
            ["unshare", *_NAMESPACES, *supervisor],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PATH": PROGRAM_PATH, "PYTHONPATH": f"{_ROOT}:{_ROOT}/src"},
        )
    _supervisors.append(process)
    give_up_at = time.monotonic() + _START_S
    while not (directory / "state.json").exists():
        if process.poll() is not None or time.monotonic() > give_up_at:
            words = (directory / "log").read_text(errors="replace").splitlines()[-3:]
            process.kill()
            raise CannotRun(f"the cluster does not start: {' '.join(words)}")
        time.sleep(0.05)
    state = json.loads((directory / "state.json").read_text())
    if not state["ready"]:
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)
        raise CannotRun(state["reason"])
    return directory


def connect(directory: Path) -> OwnCluster:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(directory / "socket"))
        return OwnCluster(directory, connection)
    except OSError:
        connection.close()
        raise


def end(cluster: OwnCluster) -> None:
    """Leave the cluster. After the last connection, nothing of it remains."""
    is_last = cluster.close()
    for process in list(_supervisors):
        if is_last or process.poll() is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60 if is_last else 0)
                _supervisors.remove(process)
    if is_last:
        shutil.rmtree(cluster.directory, ignore_errors=True)


def _join(run_dir: Path) -> OwnCluster | None:
    with contextlib.suppress(OSError):
        return connect(Path((run_dir / "kubernetes").read_text()))
    return None


@contextlib.contextmanager
def _lock(run_dir: Path) -> Iterator[None]:
    run_dir.mkdir(parents=True, exist_ok=True)
    with (run_dir / "kubernetes.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except CannotRun as reason:
        missing(COMPONENT, str(reason))
