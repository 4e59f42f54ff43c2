"""Replicas of the engine on a real Kubernetes, stepped by the test, which is also the agent."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from botpool.backends.kubernetes import KubernetesBackend
from botpool.domain.ids import BotId
from botpool.domain.policy import Policy
from botpool.domain.pools import PoolSpec
from botpool.engine.replica import Identity, Replica
from botpool.store.database import Database
from tests.backends.kubernetes_harness import KubernetesHarness
from tests.support.bot_image import PYTHON, archive
from tests.support.kubernetes import Cluster, TestNode
from tests.support.replicas import Stage, bot_request, pool

IMAGE = "docker.io/library/botpool-test-waiting:1"
PROGRAM = b"import signal, sys\nsignal.signal(15, lambda *_: sys.exit(0))\nsignal.pause()\n"
POOL = replace(
    pool(2), backend="kubernetes", image=IMAGE, cpus=0.01, memory_mb=64, stop_grace_s=1.0
)
_WAIT_S = 180.0


def import_waiting_program(cluster: Cluster) -> None:
    cluster.import_image(
        archive([IMAGE], [PYTHON, "/bot/program.py"], {"/bot/program.py": PROGRAM})
    )


@dataclass
class SteppedInstallation:
    """Replicas of the engine on a real cluster."""

    stage: Stage
    harness: KubernetesHarness
    replicas: list[Replica]

    async def add_replica(
        self, pool: PoolSpec = POOL, policy: Policy | None = None, **settings: Any
    ) -> Replica:
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
        replica = Replica(database, {"kubernetes": backend}, policy or Policy(), identity)
        await replica.pools.configure([pool])
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
