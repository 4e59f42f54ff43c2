"""Kills the replica at every step of deploy and release on a real Kubernetes, and starts it again.

Botpool has only the rights of the documented Role.
"""

import signal
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.chaos.crash_installation import CrashInstallation, ForkServer
from tests.chaos.crash_scenarios import (
    assert_done,
    crash_and_recover,
    first_bot_fails,
    second_bot_waits,
    stop_in_the_call,
    stop_while_starting,
)
from tests.chaos.docker_crash_installation import event_recorder
from tests.chaos.kubernetes_crash_installation import (
    CALL_TIMEOUT_S,
    KubernetesCrashInstallation,
)
from tests.support.bot_image import PYTHON, archive
from tests.support.kubernetes import Cluster
from tests.support.kubernetes.role import create_role, write_kubeconfig

pytestmark = pytest.mark.timeout(600)

Settings: TypeAlias = Mapping[str, Any]
IMAGE = "docker.io/library/recording-bot:1"
DOWN_S = 3 * CALL_TIMEOUT_S
"""The duration of a lease: the next replica can take over the work at once."""

SHORT = ["after:create_pod", "after:open_gate", "after:delete_pod"]
LONG = [
    "before:enqueue_bots",
    "within:enqueue_bots",
    "after:enqueue_bots",
    "after:lease_slots",
    "before:ensure",
    "after:ensure",
    "after:record_container",
    "before:prepare",
    "before:create_pod",
    "after:prepare",
    "before:record_prepared_start",
    "after:record_prepared_start",
    "before:start",
    "before:open_gate",
    "after:start",
    "after:record_start",
    "before:mark_running",
    "after:mark_running",
    "before:report_status",
    "after:report_status",
    "before:observe",
    "after:observe",
    "before:end_bots",
    "after:end_bots",
    "before:stop",
    "before:delete_pod",
    "after:stop",
    "within:free_slots",
    "after:free_slots",
    "before:remove_pod",
    "after:remove_pod",
    "after:create_pod#2",
    "after:record_prepared_start#2",
    "after:open_gate#2",
    "after:record_start#2",
    "after:free_slots#2",
]


@pytest.fixture(scope="module")
def cluster(kubernetes: Cluster) -> Cluster:
    program = Path(__file__).with_name("docker_recording_bot.py").read_bytes()
    kubernetes.import_image(archive([IMAGE], [PYTHON, "/bot/bot.py"], {"/bot/bot.py": program}))
    return kubernetes


@pytest.fixture
def settings() -> Settings:
    return {}


@pytest.fixture
def installation(
    fork_server: ForkServer, cluster: Cluster, database_url: str, tmp_path: Path, settings: Settings
) -> Iterator[CrashInstallation]:
    with (
        event_recorder(tmp_path) as recorder_url,
        cluster.namespace() as namespace,
        CrashInstallation.opened(fork_server, database_url, tmp_path, settings) as installation,
    ):
        create_role(cluster, namespace)
        shared = {
            field.name: getattr(installation, field.name) for field in fields(CrashInstallation)
        }
        yield KubernetesCrashInstallation(
            **shared,
            cluster=cluster,
            namespace=namespace,
            kubeconfig=write_kubeconfig(cluster, namespace, tmp_path),
            image=IMAGE,
            recorder_url=recorder_url,
        )
        try:
            assert fork_server.wait_for_exit(signal.SIGTERM) == 0
        finally:
            print((tmp_path / "log").read_text())  # noqa: T201 - shown when the test fails


@pytest.mark.parametrize(
    "point", [*SHORT, *(pytest.param(point, marks=pytest.mark.long) for point in LONG)]
)
def test_replica_killed_during_deployment_or_hand_over(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, second_bot_waits, down_s=DOWN_S)
    assert_done(installation, "first")
    assert_done(installation, "second")


@pytest.mark.long
@pytest.mark.parametrize(
    "point",
    ["before:fail_deployment", "after:fail_deployment", "after:stop", "after:requeue_bots"],
)
def test_replica_killed_while_retrying_failed_deployment(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, first_bot_fails(1), down_s=DOWN_S)
    assert_done(installation, "first", attempts=2)
    assert_done(installation, "second")


@pytest.mark.long
@pytest.mark.parametrize("settings", [{"deploy": {"attempts": 3}, "recovery": {"max_attempts": 1}}])
@pytest.mark.parametrize("point", ["before:delete", "after:delete", "within:remove_slot"])
def test_replica_killed_while_deleting_broken_slot(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, first_bot_fails(2), down_s=DOWN_S)
    assert_done(installation, "first", attempts=3)
    assert_done(installation, "second")


@pytest.mark.long
@pytest.mark.parametrize("point", ["before:end_bots", "after:end_bots", "after:delete_pod"])
def test_replica_killed_while_cancelling_starting_bot(
    installation: CrashInstallation, point: str
) -> None:
    """The bot may have joined by then; the request ends it in either case."""
    crash_and_recover(installation, point, stop_while_starting, down_s=DOWN_S)
    status, attempts = installation.final("first")
    assert (status in ("CANCELLED", "DONE"), attempts) == (True, 1)


@pytest.mark.long
@pytest.mark.parametrize("point", ["after:ask_bot_to_leave", "before:end_bots"])
def test_replica_killed_while_asking_bot_to_leave(
    installation: CrashInstallation, point: str
) -> None:
    crash_and_recover(installation, point, stop_in_the_call, down_s=DOWN_S)
    assert_done(installation, "first")
