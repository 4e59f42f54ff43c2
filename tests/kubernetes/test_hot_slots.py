"""Hot slots on a real Kubernetes: a standby is a Pod of its own, which gets one bot and ends."""

import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.fixed_port_installation import Body, wait_for
from tests.support.invariants import assert_settled
from tests.support.kubernetes import Cluster
from tests.support.kubernetes_installation import (
    KubernetesInstallation,
    kubernetes_installation,
    pool,
)

pytestmark = pytest.mark.timeout(600)

CALL = {"joinSeconds": 0, "staySeconds": 600}
IN_CALL = "botpool.dev/in-call"
ASSIGNMENT = "botpool.dev/assignment"


@asynccontextmanager
async def hot_installation(
    cluster: Cluster, database_url: str, folder: Path, **settings: str
) -> AsyncIterator[KubernetesInstallation]:
    """Serve a pool of two slots that keeps one standby, and wait until the standby polls."""
    chosen = {
        **pool("google-meet", 2, stop_grace_s=1),
        "pools.google-meet.warm.hot": "1",
        "deploy.poll_interval_s": "1",
        **settings,
    }
    with cluster.namespace() as namespace:
        async with kubernetes_installation(
            cluster, namespace, database_url, folder, **chosen
        ) as installed:
            await installed.serve()
            await wait_for("a standby that polls", lambda: has_standby(installed), within_s=150)
            yield installed


async def has_standby(installed: KubernetesInstallation) -> bool:
    return bool(standby_runs(installed))


def standby_runs(installed: KubernetesInstallation) -> set[str]:
    rows = installed.rows("SELECT run_id FROM bot_pool_slots WHERE standby = 'ready'")
    return {str(run) for (run,) in rows}


def pods_by_run(installed: KubernetesInstallation) -> Mapping[str, Any]:
    return {pod["metadata"]["labels"][ASSIGNMENT]: pod for pod in installed.pods()}


def standby_process(installed: KubernetesInstallation) -> psutil.Process:
    """Return the process of the only standby; the nodes run on this machine."""
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        is_ours = installed.installation_id in environment.get("BOTPOOL_CONTAINER_ID", "")
        if is_ours and "BOTPOOL_STANDBY_TOKEN" in environment:
            return process
    raise AssertionError("no standby runs")


async def end(installed: KubernetesInstallation, bot: Body) -> None:
    """End the bot and all standbys; no Pod is left."""
    await installed.call("POST", "/v1/pools/google-meet/drain")
    await installed.call("DELETE", f"/v1/bots/{bot['id']}")
    ended = await installed.wait_for_end()
    assert ended == {bot["id"]: "DONE"}

    async def nothing_is_left() -> bool:
        return not installed.pods()

    await wait_for("a namespace without Pods", nothing_is_left, within_s=150)
    assert_settled(installed.database_url)


async def test_bot_gets_the_pod_of_a_standby_and_no_other_bot_does(
    kubernetes: Cluster, database_url: str, tmp_path: Path
) -> None:
    async with hot_installation(
        kubernetes, database_url, tmp_path, **{"pools.google-meet.warm.handover_timeout_s": "60"}
    ) as installed:
        (run,) = standby_runs(installed)
        standby = pods_by_run(installed)[run]["metadata"]
        assert IN_CALL not in standby["labels"], "a drain may take a standby"

        (bot,) = await installed.send(1, CALL)
        await installed.wait_for_in_call(bot)
        served = installed.rows("SELECT run_id::text, id::text FROM assignments")
        assert [run_id for run_id, _ in served] == [run], "the bot runs in the Pod of the standby"

        async def is_protected() -> bool:
            metadata = pods_by_run(installed)[run]["metadata"]
            assert metadata["uid"] == standby["uid"]
            is_marked = metadata["labels"].get(IN_CALL) == "true"
            assert is_marked == ("karpenter.sh/do-not-disrupt" in metadata["annotations"])
            return is_marked

        await wait_for("protection of the bot's Pod", is_protected)
        await wait_for("another standby", lambda: has_standby(installed), within_s=150)
        assert run not in standby_runs(installed)
        await end(installed, bot)


@pytest.mark.parametrize(
    "number", [signal.SIGSTOP, pytest.param(signal.SIGKILL, marks=pytest.mark.long)]
)
async def test_bot_of_a_standby_that_does_not_accept_starts_cold(
    kubernetes: Cluster, database_url: str, tmp_path: Path, number: signal.Signals
) -> None:
    async with hot_installation(
        kubernetes, database_url, tmp_path, **{"pools.google-meet.warm.handover_timeout_s": "1"}
    ) as installed:
        (run,) = standby_runs(installed)
        standby_process(installed).send_signal(number)
        (bot,) = await installed.send(1, CALL)
        await installed.wait_for_in_call(bot)
        rows = installed.rows("SELECT id, run_id FROM assignments ORDER BY id")
        cold, run_id = rows[-1]
        assert (run_id, str(cold) > run) == (None, True), "a new assignment in a Pod of its own"

        async def cold_pod_runs() -> bool:
            # The kubelet writes the phase up to a second after the container has started.
            return bool(pods_by_run(installed)[str(cold)]["status"]["phase"] == "Running")

        await wait_for("the phase of the bot's own Pod", cold_pod_runs)

        async def former_pod_is_gone() -> bool:
            return run not in pods_by_run(installed)

        await wait_for("the end of the standby's Pod", former_pod_is_gone, within_s=150)
        await end(installed, bot)
