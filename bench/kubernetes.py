"""Time from `POST /v1/bots` to a running Pod, against a bare create: `python -m bench.kubernetes`.

Both run on the same cluster, in turns: equal Pods with the same waiting program, one at a time and
thirty at once. It needs the software of the tests' cluster, so `make bench` does not run it.
"""

# ruff: noqa: ASYNC110

import asyncio
import os
import shlex
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.bare_pods import bare_pod
from bench.postgres import started
from botpool.backends.protocol import ContainerSpec
from tests.support.kubernetes import Cluster, shared_cluster
from tests.support.kubernetes_installation import (
    IMAGE,
    KubernetesInstallation,
    kubernetes_installation,
    pool,
)

_PROGRAM = ("/bot/python", "-c", "import signal; signal.pause()")
_CPUS, _MEMORY_MB = 0.05, 64
_ROUNDS = {1: 7, 30: 5}
_POLL_S = 0.02


def _bare_pod() -> dict[str, Any]:
    spec = ContainerSpec(
        name="bare", pool_name="bare", image=IMAGE, cpus=_CPUS, memory_mb=_MEMORY_MB, stop_grace_s=1
    )
    return bare_pod(spec, {}, _PROGRAM)


def _running(cluster: Cluster, namespace: str) -> int:
    pods = cluster.pods(namespace)
    return sum(
        pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        for pod in pods
    )


async def _time_until_running(
    cluster: Cluster, namespace: str, count: int, begin: Callable[[], Awaitable[None]]
) -> float:
    started = time.perf_counter()
    beginning = asyncio.ensure_future(begin())
    while await asyncio.to_thread(_running, cluster, namespace) < count:
        await asyncio.sleep(_POLL_S)
    elapsed = time.perf_counter() - started
    await beginning
    return elapsed


async def _until_empty(cluster: Cluster, namespace: str) -> None:
    while await asyncio.to_thread(cluster.pods, namespace):
        await asyncio.sleep(0.2)


async def _bare(cluster: Cluster, namespace: str, count: int) -> float:
    async def create() -> None:
        path = f"/api/v1/namespaces/{namespace}/pods"
        for _ in range(count):
            await asyncio.to_thread(cluster.kubectl.request, "POST", path, _bare_pod())

    elapsed = await _time_until_running(cluster, namespace, count, create)
    cluster.clear(namespace)
    await _until_empty(cluster, namespace)
    return elapsed


async def _botpool(installed: KubernetesInstallation, count: int) -> float:
    bots: list[dict[str, Any]] = []

    async def post() -> None:
        bots.extend(await installed.send(count, {}))

    elapsed = await _time_until_running(installed.cluster, installed.namespace, count, post)
    for bot in bots:
        await installed.call("DELETE", f"/v1/bots/{bot['id']}")
    await installed.wait_for_end(within_s=600)
    await _until_empty(installed.cluster, installed.namespace)
    return elapsed


async def _measure(cluster: Cluster, database_url: str, folder: Path) -> None:
    settings = pool(
        "google-meet",
        30,
        cpus=_CPUS,
        memory_mb=_MEMORY_MB,
        stop_grace_s=1,
        protocol="none",
        outcome="exit-code",
        entrypoint=shlex.join(_PROGRAM),
    )
    settings["agent.leave_grace_s"] = "1"
    with cluster.namespace() as namespace, cluster.namespace() as bare:
        async with kubernetes_installation(
            cluster, namespace, database_url, folder, kubeconfig=None, **settings
        ) as installed:
            await installed.serve()
            await _botpool(installed, 30)  # Creates the slots.
            for count, rounds in _ROUNDS.items():
                pairs = [
                    (await _bare(cluster, bare, count), await _botpool(installed, count))
                    for _ in range(rounds)
                ]
                plain, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
                ratio = statistics.median(botpool / alone for alone, botpool in pairs)
                load = os.getloadavg()[0]
                print(f"{count:3} at once: bare {plain:.2f} s, Botpool {ours:.2f} s, ratio "
                      f"{ratio:.2f}, load {load:.1f}; rounds {pairs}", flush=True)  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        with started(folder / "postgres", small=True) as bench, shared_cluster(folder) as cluster:
            asyncio.run(_measure(cluster, bench.database("kubernetes"), folder))


if __name__ == "__main__":
    main()
