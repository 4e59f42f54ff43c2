"""One running control plane: its services, and the loops that carry the work on."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from botpool.backends.protocol import Backend
from botpool.domain.errors import BotpoolError
from botpool.domain.policy import Policy
from botpool.engine.admission.admission import Admission
from botpool.engine.admission.estimates import Estimates
from botpool.engine.admission.matcher import Matcher
from botpool.engine.agents.agents import Agents
from botpool.engine.agents.heartbeats import Heartbeats
from botpool.engine.api_keys import ApiKeys
from botpool.engine.lifecycle.bot_endings import BotEndings
from botpool.engine.lifecycle.deployment import Deployer
from botpool.engine.lifecycle.descriptions import Describer
from botpool.engine.lifecycle.image_gate import ImageGate
from botpool.engine.lifecycle.observer import Observer
from botpool.engine.lifecycle.queue_poller import QueuePoller
from botpool.engine.lifecycle.reconciler import Reconciler
from botpool.engine.lifecycle.release import Releaser
from botpool.engine.lifecycle.reset import Resetter
from botpool.engine.lifecycle.shutdown import Shutdown
from botpool.engine.lifecycle.slot_handover import SlotHandover
from botpool.engine.lifecycle.stop_bot import BotStopper
from botpool.engine.lifecycle.transitions import Transitions
from botpool.engine.maintenance.cleanup import Cleanup
from botpool.engine.maintenance.recovery import Recovery
from botpool.engine.maintenance.recovery_actions import RecoveryActions
from botpool.engine.maintenance.vacuum import INTERVAL_S as VACUUM_INTERVAL_S
from botpool.engine.maintenance.vacuum import Vacuum
from botpool.engine.observability.instrumented_backend import InstrumentedBackend
from botpool.engine.observability.metrics import Metrics
from botpool.engine.observability.metrics_export import MetricsExport
from botpool.engine.observability.pool_samples import PoolSamples
from botpool.engine.observability.readiness import Readiness
from botpool.engine.operations.pool_commands import PoolCommands
from botpool.engine.operations.slot_commands import SlotCommands
from botpool.engine.queries import Queries
from botpool.engine.runtime.loop import Loop
from botpool.engine.runtime.wakeups import Wakeups
from botpool.engine.stream.changes import ChangeStream
from botpool.store.database import Database

_log = structlog.get_logger()
_HEALTH_INTERVAL_S = 60.0
_ALIVE_INTERVAL_S = 10.0
_SAMPLE_INTERVAL_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who this replica is to the others, and to the containers it starts."""

    owner: str
    public_url: str
    secret: bytes


class Replica:
    """Everything the outside may ask for; `start` and `stop` run what happens by itself."""

    def __init__(
        self,
        database: Database,
        backends: Mapping[str, Backend],
        policy: Policy,
        identity: Identity,
    ) -> None:
        self.policy = policy
        self.identity = identity
        self.database = database
        self.metrics = Metrics()
        self.metrics_export = MetricsExport(database, self.metrics)
        backends = {
            name: InstrumentedBackend(backend, self.metrics) for name, backend in backends.items()
        }
        self.wakeups = Wakeups(database, owner=identity.owner)
        self.matcher = Matcher(database, self.wakeups, self.metrics)
        self.image_gate = ImageGate(
            database=database,
            wakeups=self.wakeups,
            policy=policy,
            metrics=self.metrics,
            backends=backends,
        )
        self.transitions = Transitions(
            database=database,
            wakeups=self.wakeups,
            policy=policy,
            image_gate=self.image_gate,
            bot_endings=BotEndings(database, self.wakeups, self.metrics),
            metrics=self.metrics,
            owner=identity.owner,
        )
        estimates = Estimates(database)
        self.admission = Admission(
            database, self.wakeups, self.matcher, estimates, policy, self.metrics
        )
        self.bot_stopper = BotStopper(transitions=self.transitions, admission=self.admission)
        self.shutdown = Shutdown(transitions=self.transitions, admission=self.admission)
        self.agents = Agents(
            database=database,
            transitions=self.transitions,
            heartbeats=Heartbeats(database),
            metrics=self.metrics,
        )
        self.recovery = Recovery(
            database=database,
            policy=policy,
            backends=backends,
            actions=RecoveryActions(
                database=database,
                policy=policy,
                transitions=self.transitions,
                wakeups=self.wakeups,
                metrics=self.metrics,
            ),
        )
        self.pools = PoolCommands(
            transitions=self.transitions, matcher=self.matcher, backends=sorted(backends)
        )
        self.slot_commands = SlotCommands(transitions=self.transitions, pools=self.pools)
        self.api_keys = ApiKeys(database)
        self.queries = Queries(database=database, backends=backends, estimates=estimates)
        self.changes = ChangeStream(database)
        self.pool_samples = PoolSamples(database=database)
        self.vacuum = Vacuum(database)
        self.readiness = Readiness(database, backends, self.wakeups)
        self.queue_poller = QueuePoller(
            database=database,
            matcher=self.matcher,
            image_gate=self.image_gate,
            metrics=self.metrics,
        )
        self.cleanup = Cleanup(
            database=database,
            policy=policy,
            queue_poller=self.queue_poller,
            recovery=self.recovery,
            backends=backends,
        )
        self.describer = Describer(database=database, policy=policy, backends=backends)
        freeing = SlotHandover(
            database,
            self.matcher,
            self.wakeups,
            self.metrics,
            attempts=policy.deploy_attempts,
        )
        releaser = Releaser(transitions=self.transitions, freeing=freeing, backends=backends)
        self.observer = Observer(transitions=self.transitions, releaser=releaser, backends=backends)
        self.reconciler = Reconciler(
            transitions=self.transitions,
            deployer=Deployer(
                transitions=self.transitions,
                observer=self.observer,
                image_gate=self.image_gate,
                backends=backends,
                public_url=identity.public_url,
                secret=identity.secret,
                refused=self.readiness.expire_health,
            ),
            releaser=releaser,
            resetter=Resetter(
                transitions=self.transitions, matcher=self.matcher, backends=backends
            ),
            backends=backends,
        )
        self._backends = backends
        self._loops = (
            Loop(
                "steps",
                self.reconciler.run_due_steps,
                interval_s=policy.queue_poll_s,
                wake=self.wakeups.slots,
            ),
            Loop("queue", self.queue_poller.keep, interval_s=policy.queue_poll_s),
            Loop("recovery", self.recovery.run, interval_s=policy.recovery_interval_s),
            Loop("cleanup", self.cleanup.run, interval_s=policy.cleanup_interval_s),
            Loop("liveness", self._say_alive, interval_s=_ALIVE_INTERVAL_S),
            Loop("pool_samples", self.pool_samples.record, interval_s=_SAMPLE_INTERVAL_S),
            Loop("vacuum", self.vacuum.vacuum_if_due, interval_s=VACUUM_INTERVAL_S),
            Loop(
                "observation",
                self.observer.observe_due_backends,
                interval_s=policy.observe_interval_s,
            ),
            Loop(
                "health",
                self.readiness.check_backends,
                interval_s=_HEALTH_INTERVAL_S,
                wake=self.readiness.wake,
            ),
            Loop(
                "descriptions",
                self.describer.describe_due,
                interval_s=policy.describe_interval_s,
            ),
        )
        for loop in self._loops:
            loop.on_outage = self.metrics.round_lost
        self.metrics.watch(
            steps_under_way=lambda: len(self.reconciler.under_way),
            listening=lambda: self.wakeups.listening,
        )
        self._watchers: list[asyncio.Task[None]] = []

    async def start(self, *, alone: bool = False) -> None:
        """`alone`: no other replica can be at work, so leases still out are a dead one's."""
        if alone:
            await self.database.fetch("return_leases", {"owner": None})
        self.wakeups.start()
        for loop in self._loops:
            loop.start()
        self._watchers = [
            asyncio.create_task(self._watch(name), name=f"watch {name}") for name in self._backends
        ]

    async def stop(self, *, within_s: float = 10.0) -> None:
        """End the loops and hand the leases back, so that another replica goes on at once."""
        await self.changes.close()
        for task in self._watchers:
            task.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        for loop in self._loops:
            await loop.stop()
        with contextlib.suppress(BotpoolError):
            await self.reconciler.return_leases(within_s=within_s)
        await self.wakeups.stop()

    async def _say_alive(self) -> None:
        await self.recovery.record_liveness()

    async def _watch(self, backend: str) -> None:
        """Look at once where a backend hints at a change. The regular looks stand behind it."""
        while True:
            try:
                async for container_id in self._backends[backend].changes():
                    await self.observer.observe(backend, container_id=container_id)
            except BotpoolError as error:
                _log.warning("watch.failed", backend=backend, problem=str(error))
            except Exception:
                _log.exception("watch.failed", backend=backend)
            await asyncio.sleep(self.policy.queue_poll_s)
