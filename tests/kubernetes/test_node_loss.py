"""A lost node, on a real Kubernetes: bots run on, and no slot is handed over before its proof.

Replicas of the engine use the real backend and are stepped by the test. The test is the agent.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from botpool.backends.kubernetes import KubernetesBackend
from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.replica import Identity, Replica
from botpool.store.database import Database
from tests.backends.kubernetes_harness import KubernetesHarness
from tests.support.bot_image import PYTHON, archive
from tests.support.kubernetes import ApiError, Cluster, TestNode
from tests.support.replicas import Stage, bot_request, pool

pytestmark = pytest.mark.long

IMAGE = "docker.io/library/botpool-test-waiting:1"
PROGRAM = b"import signal, sys\nsignal.signal(15, lambda *_: sys.exit(0))\nsignal.pause()\n"
POOL = replace(
    pool(2), backend="kubernetes", image=IMAGE, cpus=0.01, memory_mb=64, stop_grace_s=1.0
)
_WAIT_S = 180.0


@dataclass
class Installation:
    """Replicas of the engine on a real cluster."""

    stage: Stage
    harness: KubernetesHarness
    replicas: list[Replica]

    async def add_replica(self, **settings: Any) -> Replica:
        """Add a replica whose backend has these settings."""
        backend: KubernetesBackend = await self.harness.open_backend(**settings)
        database = Database(self.stage.url)
        await database.open()
        self.stage.databases.append(database)
        identity = Identity(
            owner=f"replica-{len(self.replicas)}",
            public_url="http://127.0.0.1:1",
            agent_keys=(b"key",),
        )
        replica = Replica(database, {"kubernetes": backend}, Policy(), identity)
        await replica.pools.configure([POOL])
        self.replicas.append(replica)
        return replica

    async def advance(self) -> None:
        """Let every replica take its due steps and observe once."""
        for replica in self.replicas:
            await self.stage.step(replica)
            await replica.observer.observe("kubernetes")
            await replica.queue_poller.poll()

    async def until(self, condition: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + _WAIT_S
        while not condition():
            assert time.monotonic() < give_up_at, (self.stage.slots(), self.pods())
            await self.advance()
            await asyncio.sleep(0.2)

    async def run_bot(self, replica: Replica) -> BotId:
        bot = (await replica.admission.admit(bot_request(queue_timeout_ms=600_000))).bot.id
        await self.until(lambda: self.stage.statuses(bot) == ["JOINING_CALL"])
        return bot

    async def end_on_lost_node(self, node: TestNode, bot: BotId) -> None:
        """End a bot whose node is lost, and wait until its slot shows that."""
        assert await self.stage.end(self.replicas[0], bot)
        await self.until(lambda: self.stage.slots()[0]["unconfirmed_node"] == node.name)

    def pods(self) -> list[tuple[str, str | None, str]]:
        found = self.harness.cluster.pods(self.harness.namespace)
        return [
            (pod["metadata"]["name"], pod["spec"].get("nodeName"), pod["status"]["phase"])
            for pod in found
        ]


@pytest.fixture
async def installation(kubernetes: Cluster, stage: Stage) -> AsyncIterator[Installation]:
    kubernetes.import_image(
        archive([IMAGE], [PYTHON, "/bot/program.py"], {"/bot/program.py": PROGRAM})
    )
    with kubernetes.namespace() as namespace:
        harness = KubernetesHarness(kubernetes, namespace)
        try:
            yield Installation(stage, harness, [])
        finally:
            await harness.clear()


async def test_lost_node_keeps_its_slot_until_it_returns(
    kubernetes: Cluster, installation: Installation
) -> None:
    stage = installation.stage
    with kubernetes.node() as node:
        here = await installation.add_replica(
            node_selector=node.selector, tolerations=node.tolerations
        )
        bot = await installation.run_bot(here)
        assignment = AssignmentId(stage.slot_of(bot)["assignment_id"])
        node.pause_kubelet()
        node.wait_for_status("Unknown")
        await here.agents.heartbeat(assignment, bot)
        await here.agents.report(assignment, bot, BotStatus.IN_CALL, None)
        await installation.advance()
        await here.recovery.recover()
        assert stage.statuses(bot) == ["IN_CALL"], "a bot on a lost node runs on"

        await installation.end_on_lost_node(node, bot)
        installation.replicas.clear()
        elsewhere = await installation.add_replica()
        second = await installation.run_bot(elsewhere)
        waiting = (await elsewhere.admission.admit(bot_request(queue_timeout_ms=600_000))).bot.id
        assert {host for _, host, _ in installation.pods()} == {node.name, "node-1"}

        await force_delete(kubernetes, installation, node)
        for _ in range(5):
            await installation.advance()
        assert stage.statuses(bot, second, waiting) == ["DONE", "JOINING_CALL", "QUEUED"]
        assert stage.slots()[0]["status"] == "releasing"
        assert node.running_containers(installation.harness.namespace), "the container runs"

        node.resume_kubelet()
        await installation.until(lambda: stage.statuses(waiting) == ["JOINING_CALL"])
        assert stage.slots()[0]["assigned_bot_id"] == waiting


async def test_node_that_is_declared_dead_hands_its_slots_over(
    kubernetes: Cluster, installation: Installation
) -> None:
    stage = installation.stage
    with kubernetes.node() as node:
        here = await installation.add_replica(
            node_selector=node.selector, tolerations=node.tolerations
        )
        bot = await installation.run_bot(here)
        node.pause_kubelet()
        node.wait_for_status("Unknown")
        await installation.end_on_lost_node(node, bot)
        installation.replicas.clear()
        elsewhere = await installation.add_replica()
        await installation.run_bot(elsewhere)
        waiting = (await elsewhere.admission.admit(bot_request(queue_timeout_ms=600_000))).bot.id
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoExecute"}
        own = kubernetes.kubectl.request("GET", f"/api/v1/nodes/{node.name}")["spec"]["taints"]
        kubernetes.kubectl.request(
            "PATCH",
            f"/api/v1/nodes/{node.name}",
            {"spec": {"taints": [*own, taint]}},
            "application/merge-patch+json",
        )
        await installation.until(lambda: stage.statuses(waiting) == ["JOINING_CALL"])
        assert stage.slots()[0]["assigned_bot_id"] == waiting
        node.resume_kubelet()


async def test_forced_release_starts_the_next_bot_beside_the_lost_container(
    kubernetes: Cluster, installation: Installation
) -> None:
    stage = installation.stage
    with kubernetes.node() as node:
        here = await installation.add_replica(
            node_selector=node.selector, tolerations=node.tolerations
        )
        bot = await installation.run_bot(here)
        old = AssignmentId(stage.slot_of(bot)["assignment_id"])
        node.pause_kubelet()
        node.wait_for_status("Unknown")
        await installation.end_on_lost_node(node, bot)
        installation.replicas.clear()
        elsewhere = await installation.add_replica()
        slot_id = stage.slots()[0]["id"]
        await elsewhere.forced_release.release(slot_id, key_name="ops", bot_id=bot)
        following = await installation.run_bot(elsewhere)
        assert stage.slot_of(following)["id"] == slot_id
        assert node.running_containers(installation.harness.namespace), "the operator was wrong"
        assert (await elsewhere.agents.heartbeat(old, bot)).should_exit
        node.resume_kubelet()
        namespace = installation.harness.namespace
        await installation.until(lambda: not node.running_containers(namespace))
        assert stage.statuses(following) == ["JOINING_CALL"], "the next bot runs on"


async def force_delete(cluster: Cluster, installation: Installation, node: TestNode) -> None:
    """Do what any other client may do: delete the Pods of a node without their kubelet."""
    for name, host, _ in installation.pods():
        if host == node.name:
            path = f"/api/v1/namespaces/{installation.harness.namespace}/pods/{name}"
            with contextlib.suppress(ApiError):
                cluster.kubectl.request("DELETE", path, {"gracePeriodSeconds": 0})
