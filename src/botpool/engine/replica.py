"""One running control plane: the parts of the engine and the loops that run them."""

import contextlib
from collections.abc import Callable, Mapping, Sequence

import structlog

from botpool.backends.protocol import Backend
from botpool.domain.container_template import ContainerTemplate
from botpool.domain.errors import BotpoolError
from botpool.domain.policy import Policy
from botpool.domain.public_url import address_problems
from botpool.engine.agents.standby_polls import LISTENING_READ_S
from botpool.engine.agents.standby_polls import READ_S as STANDBY_READ_S
from botpool.engine.lifecycle.standby_keeper import INTERVAL_S as STANDBY_INTERVAL_S
from botpool.engine.maintenance.liveness import WatchedListener
from botpool.engine.maintenance.vacuum import INTERVAL_S as VACUUM_INTERVAL_S
from botpool.engine.replica_parts import Identity, ReplicaParts
from botpool.engine.rollouts.controller import INTERVAL_S as ROLLOUT_INTERVAL_S
from botpool.engine.runtime.loop import Loop
from botpool.store.database import Database
from botpool.store.slot_leases import return_leases

__all__ = ["Identity", "Replica"]

_log = structlog.get_logger()
_HEALTH_INTERVAL_S = 60.0
_KEY_USES_INTERVAL_S = 60.0
_SAMPLE_INTERVAL_S = 15.0
_TIMES_INTERVAL_S = 60.0
_UNUSED_INTERVAL_S = 5.0
"""How often a replica looks whether an unused part has got work: bookings, standbys, webhooks."""


class Replica(ReplicaParts):
    """The services of one control plane; `start` and `stop` run its background loops."""

    def __init__(
        self,
        database: Database,
        backends: Mapping[str, Backend],
        policy: Policy,
        identity: Identity,
        templates: Mapping[str, ContainerTemplate] | None = None,
    ) -> None:
        super().__init__(database, backends, policy, identity, templates)
        self._has_checked_address = False
        self._loops = self._build_loops()

    def _build_loops(self) -> Sequence[Loop]:
        policy, liveness = self.policy, self.liveness
        steps, observe = self.reconciler.run_due_steps, self.observer.observe_due_backends
        health, describe = self.readiness.check_backends, self.describer.describe_due
        wake_steps, wake_health = self.wakeups.slots, self.readiness.wake
        loops = (
            Loop("steps", steps, interval_s=policy.queue_poll_s, wake=wake_steps),
            Loop("queue", self.queue_poller.poll, interval_s=policy.queue_poll_s),
            Loop(
                "schedule",
                self.due_bots.poll,
                interval_s=policy.queue_poll_s,
                unused_interval_s=_UNUSED_INTERVAL_S,
            ),
            Loop("schedule_times", self.due_bots.measure, interval_s=_TIMES_INTERVAL_S),
            Loop(
                "recovery",
                self.recovery.run,
                interval_s=policy.recovery_interval_s,
                wake=self._wake_recovery,
            ),
            Loop(
                "standbys",
                self.standby_keeper.keep,
                interval_s=STANDBY_INTERVAL_S,
                unused_interval_s=_UNUSED_INTERVAL_S,
            ),
            Loop(
                "standby_polls",
                self.standby_polls.answer_and_close,
                interval_s=STANDBY_READ_S,
                unused_interval_s=LISTENING_READ_S,
            ),
            Loop("cleanup", self.cleanup.run, interval_s=policy.cleanup_interval_s),
            Loop(
                "liveness",
                self._check_liveness,
                interval_s=liveness.interval_s,
                wake=liveness.wake,
            ),
            Loop(
                "rollouts",
                self.rollout_controller.run,
                interval_s=ROLLOUT_INTERVAL_S,
                wake=self.rollout_controller.wake,
            ),
            Loop("key_uses", self.api_keys.record_uses, interval_s=_KEY_USES_INTERVAL_S),
            Loop("pool_samples", self.pool_samples.record, interval_s=_SAMPLE_INTERVAL_S),
            Loop("vacuum", self.vacuum.vacuum_if_due, interval_s=VACUUM_INTERVAL_S),
            Loop("observation", observe, interval_s=policy.observe_interval_s),
            Loop("health", health, interval_s=_HEALTH_INTERVAL_S, wake=wake_health),
            Loop("descriptions", describe, interval_s=policy.describe_interval_s),
            Loop(
                "webhooks",
                self.webhook_dispatcher.run,
                interval_s=policy.queue_poll_s,
                unused_interval_s=_UNUSED_INTERVAL_S,
                wake=self.webhook_dispatcher.wake,
            ),
        )
        for loop in loops:
            loop.on_outage = self.metrics.round_lost
            loop.on_round = self.metrics.round_finished
        self.readiness.watch(loops, refused_writes=lambda: liveness.problem)
        return loops

    def watch_listener(self, listener: WatchedListener, *, connections: Callable[[], int]) -> None:
        """Check with each record of liveness that the HTTP server answers, and export metrics."""
        self.liveness.watch(listener)
        self.metrics.watch_listener(
            connections=connections, answers=lambda: self.liveness.listener_answers
        )

    async def start(self, *, alone: bool = False) -> None:
        """Start the loops. `alone`: no other replica runs, so all leases may be returned."""
        if alone:
            await return_leases(self.database, owner=None)
        self.wakeups.start()
        for loop in self._loops:
            loop.start()
        for name, backend in self._backends.items():
            self.change_watcher.start(name, backend)

    async def stop(self, *, within_s: float = 10.0) -> None:
        """Stop the loops and return the leases, so that another replica continues at once."""
        await self.changes.close()
        await self.change_watcher.stop()
        for loop in self._loops:
            await loop.stop()
        await self.webhook_dispatcher.stop()
        with contextlib.suppress(BotpoolError):
            await self.standby_polls.close()
            await self.reconciler.return_leases(within_s=within_s)
            await self.liveness.end()
        await self.wakeups.stop()

    async def _check_liveness(self) -> None:
        await self.clock_watch.check()
        await self.liveness.check()
        await self.epoch_watch.check()
        if not self._has_checked_address:
            await self._check_address()
            self._has_checked_address = True

    async def _check_address(self) -> None:
        """Warn if containers could reach only this replica at the address that it hands out.

        This follows the first record of liveness: of two starting replicas one sees the other.
        """
        others = [each.public_url for each in await self.liveness.others()]
        for problem in address_problems(self.identity.public_url, others, self._backends):
            _log.warning("public_url.unreachable", problem=problem)
