"""From `POST /v1/bots` to the first call of the bot's agent: hot, warm and cold slots.

The server, the containers and the agents are real: local processes, containers of a Docker daemon,
and Pods of a Kubernetes cluster. A cold slot is new: its container is created for the bot. In the
same rounds a user's own `docker start`, `docker run` and `create pod` start the same bot.
"""

import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import uvloop

from bench.bare_agents import BareAgents
from bench.bare_docker import BareDocker
from bench.bare_pods import BarePods
from bench.figures import Figure, percentile
from bench.first_calls import FirstCalls
from bench.postgres import Bench
from bench.started_pools import Pools, pool_settings, served_pools
from botpool.backends.protocol import ContainerSpec
from tests.support.bot_image import PYTHON, archive
from tests.support.docker_installation import docker_installation
from tests.support.dockerd import CannotRun, Dockerd
from tests.support.kubernetes import Cluster, shared_cluster
from tests.support.kubernetes.programs import CannotRun as CannotRunKubernetes
from tests.support.kubernetes_installation import kubernetes_installation
from tests.support.server import installation

_Starts: TypeAlias = Callable[[int], Awaitable[list[float]]]
"""Starts that many bots at once and returns the time of each."""

_BOT = Path(__file__).parents[1] / "first_call_bot.py"
_BOT_FILES = {"/bot/bot.py": _BOT.read_bytes()}
_BOT_COMMAND = [PYTHON, "-IS", "/bot/bot.py"]
_PODS = 30
"""Two pools of this size fit on one node, which takes 110 Pods."""
_ALONE = 15
_CPUS, _MEMORY_MB = 0.05, 64
"""The size of a Pod."""


def measure(bench: Bench) -> list[Figure]:
    if bench.small:
        return []  # A start takes longer than the small run has.
    figures = uvloop.run(_on_processes(bench))
    try:
        with Dockerd() as dockerd:
            figures += uvloop.run(_on_docker(bench, dockerd))
    except CannotRun as reason:
        print(f"Docker is not measured: {reason}")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder,
            shared_cluster(Path(folder)) as cluster,
        ):
            figures += uvloop.run(_on_kubernetes(bench, cluster))
    except CannotRunKubernetes as reason:
        print(f"Kubernetes is not measured: {reason}")
    return figures


async def _on_processes(bench: Bench) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder:
        async with FirstCalls.collected() as calls:
            settings = pool_settings("process", "bench", calls, size=300, hot=300)
            settings["backends.process.command"] = f"{sys.executable} -IS {_BOT}"
            url = bench.database("first_calls_process")
            async with (
                installation(url, Path(folder), settings) as installed,
                served_pools(installed, calls, size=300) as pools,
            ):
                return [
                    await _figure(f"process_{kind}", starts, at_once=(50, 300))
                    for kind, starts in _kinds(pools).items()
                ]


def _kinds(pools: Pools) -> dict[str, _Starts]:
    return {"hot": pools.hot, "warm": pools.warm, "cold": pools.cold}


async def _figure(
    name: str, start: _Starts, *, alone: int = _ALONE, at_once: Sequence[int]
) -> Figure:
    """Measure bots alone and together; the first start is not counted."""
    await start(1)
    times = [time_s for _ in range(alone) for time_s in await start(1)]
    together = {count: await start(count) for count in at_once}
    return Figure(
        name=f"first_call_{name}_ms",
        rounds=[time_s * 1000 for time_s in times],
        at_most=True,
        detail=_shown(together),
    )


def _shown(together: Mapping[int, Sequence[float]]) -> dict[str, int]:
    return {
        f"{name}_of_{count}_ms": round(percentile(times, share) * 1000)
        for count, times in together.items()
        for name, share in (("p50", 50), ("last", 100))
    }


async def _on_docker(bench: Bench, dockerd: Dockerd) -> list[Figure]:
    dockerd.load(archive(["bench:1"], _BOT_COMMAND, _BOT_FILES))
    async with FirstCalls.collected() as calls, BareAgents.answered(calls) as agents:
        bare = BareDocker(dockerd=dockerd, image="bench:1", agents=agents)
        with tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder:
            url = bench.database("first_calls_docker")
            settings = pool_settings("docker", "bench:1", calls, size=50, hot=50)
            async with (
                docker_installation(dockerd, url, Path(folder), **settings) as installed,
                served_pools(installed, calls, size=50) as pools,
            ):
                figures = await _docker_starts(pools, bare)
                kinds = _kinds(pools) | {"start": bare.starts, "run": bare.runs}
                for kind, starts in kinds.items():
                    figures.append(await _figure(f"docker_{kind}", starts, at_once=(50,)))
        many = await _many_on_docker(bench, bare, 300)
    return [
        replace(figure, detail={**figure.detail, **many.get(figure.name, {})}) for figure in figures
    ]


async def _many_on_docker(
    bench: Bench, bare: BareDocker, count: int
) -> dict[str, Mapping[str, int]]:
    """Start many containers at once, with as few others on the machine as possible."""
    found: dict[str, Mapping[str, int]] = {}

    async def measure(kind: str, starts: _Starts) -> None:
        found[f"first_call_docker_{kind}_ms"] = _shown({count: await starts(count)})

    calls = bare.agents.calls
    for hot in (count, 0):
        with tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder:
            url = bench.database(f"first_calls_docker_{hot}_hot")
            settings = pool_settings("docker", bare.image, calls, size=count, hot=hot)
            async with (
                docker_installation(bare.dockerd, url, Path(folder), **settings) as installed,
                served_pools(installed, calls, size=count) as pools,
            ):
                if hot:
                    await measure("hot", pools.hot)
                else:
                    await measure("cold", pools.cold)
                    await measure("warm", pools.warm)
    await measure("start", bare.starts)
    await measure("run", bare.runs)
    return found


async def _docker_starts(pools: Pools, bare: BareDocker) -> list[Figure]:
    """Compare single starts with a user's own, in turns."""
    rounds = []
    for number in range(_ALONE + 1):
        times = [(await start(1))[0] for start in (bare.starts, pools.warm, pools.hot, bare.runs)]
        if number:
            rounds.append(times)
    starts, warm, hot, runs = zip(*rounds, strict=True)
    return [
        Figure(
            name="hot_p99_vs_docker_warm",
            rounds=[percentile(hot, 99) / statistics.median(warm)],
            goal=0.1,
            at_most=True,
        ),
        Figure(
            name="docker_warm_vs_docker_start",
            rounds=[ours / theirs for ours, theirs in zip(warm, starts, strict=True)],
            goal=1.15,
            at_most=True,
            # The environment of a container is fixed when it is created.
            detail={
                "limit": round(
                    statistics.median(run / start for run, start in zip(runs, starts, strict=True)),
                    2,
                )
            },
        ),
    ]


async def _on_kubernetes(bench: Bench, cluster: Cluster) -> list[Figure]:
    image = "docker.io/library/bench:1"
    cluster.import_image(archive([image], _BOT_COMMAND, _BOT_FILES))
    spec = ContainerSpec(
        name="bare", pool_name="bare", image=image, cpus=_CPUS, memory_mb=_MEMORY_MB, stop_grace_s=1
    )
    async with FirstCalls.collected() as calls, BareAgents.answered(calls) as agents:
        sizes = {"cpus": _CPUS, "memory_mb": _MEMORY_MB, "stop_grace_s": 1}
        settings = pool_settings("kubernetes", image, calls, size=_PODS, hot=_PODS, **sizes)
        with (
            tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder,
            cluster.namespace() as namespace,
            cluster.namespace() as bare_namespace,
        ):
            url = bench.database("first_calls_kubernetes")
            bare = BarePods(cluster=cluster, namespace=bare_namespace, spec=spec, agents=agents)
            async with (
                kubernetes_installation(
                    cluster, namespace, url, Path(folder), kubeconfig=None, **settings
                ) as installed,
                served_pools(installed, calls, size=_PODS) as pools,
            ):
                kinds = _kinds(pools) | {"create": bare.creates}
                return [
                    await _figure(f"kubernetes_{kind}", starts, alone=5, at_once=(_PODS,))
                    for kind, starts in kinds.items()
                ]
