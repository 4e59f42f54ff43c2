"""The steps of a deploying slot: the container exists, the gate is passed, the start is issued.

What the next worker finds when the process dies, and what it does:

- before the container is made: phase `creating`; the same step again;
- after it, before the commit: no id yet; finds it by name and mark, and adopts it;
- at the gate: a waiting phase; the poll of any replica opens the gate;
- before the start: phase `starting`, not issued; starts it;
- after it, before the commit: the same; a backend does not run one assignment twice;
- after the commit: the looks, the agent's call or the deadline decide.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from botpool.backends.protocol import Backend, StartRequest
from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    BudgetExhausted,
    ContainerGone,
    StartSuperseded,
)
from botpool.domain.ids import ContainerId
from botpool.domain.records import LeasedSlot
from botpool.domain.states import SlotPhase
from botpool.engine.lifecycle.container_environment import container_environment
from botpool.engine.lifecycle.deployment_statuses import ISSUED
from botpool.engine.lifecycle.image_gate import ImageGate
from botpool.engine.lifecycle.observer import Observer
from botpool.engine.lifecycle.transitions import Transitions, spec_of
from botpool.engine.observability import event_log
from botpool.engine.runtime.clock import loop_time
from botpool.engine.runtime.leases import Lease

_log = structlog.get_logger()


_WAITING = frozenset({SlotPhase.WAITING_FOR_IMAGE, SlotPhase.WAITING_FOR_START})


class _TakenAway(Exception):
    """A fenced write found that the slot is no longer this step's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployer:
    transitions: Transitions
    observer: Observer
    image_gate: ImageGate
    backends: Mapping[str, Backend]
    public_url: str
    secret: bytes
    refused: Callable[[str], None]
    """Told of a backend that refused something: its health has changed."""

    async def step(self, slot: LeasedSlot, lease: Lease) -> None:
        if slot.start_issued_at is not None:
            await self._look_at_deadline(slot)
        elif slot.phase in _WAITING:
            await self._waited_too_long(slot)
        else:
            await self._deploy(slot, lease)

    async def _deploy(self, slot: LeasedSlot, lease: Lease) -> None:
        gone: ContainerGone | None = None
        # Let through by an earlier step, its start may have been sent by that one.
        is_first = slot.start_allowed_at is None
        while True:
            try:
                if slot.phase is not SlotPhase.STARTING or gone:
                    slot = await self._prepare(slot, lease, gone=gone)
                if slot.phase is SlotPhase.STARTING:
                    await self._issue_start(slot, lease)
                else:
                    await self.transitions.return_lease(slot)
            except ContainerGone as error:
                if gone is None:
                    gone = error
                    continue
                await self._give_up(slot, str(error))
            except _TakenAway:
                await self.transitions.abandon_step(slot, wanted="deploy")
            except (BackendRefused, StartSuperseded) as error:
                refused = isinstance(error, BackendRefused)
                if refused:
                    self.refused(slot.backend)
                await self._give_up(slot, str(error), nothing_started=refused and is_first)
            except BackendUnavailable as error:
                await self._wait(slot, error)
            return

    async def _prepare(
        self, slot: LeasedSlot, lease: Lease, *, gone: ContainerGone | None
    ) -> LeasedSlot:
        """See that the container exists, and pass the gate if it is open."""
        if slot.container_id is not None and slot.matches_pool and gone is None:
            slot = await self._record(slot, lease, slot.container_id, reason="the container exists")
        else:
            backend = self.backends[slot.backend]
            made = await lease.call(
                lambda timeout_s: backend.ensure(spec_of(slot), timeout_s=timeout_s)
            )
            if gone is not None:
                event_log.container_recreated(slot, made, attempt=slot.attempts)
            reason = "the container was gone and made again" if gone else "the container was made"
            slot = await self._record(slot, lease, made, reason=reason)
        if slot.phase in _WAITING:
            passed = await self.image_gate.open(slot.backend)
            if slot.slot_id in passed:
                return replace(slot, phase=SlotPhase.STARTING, version=passed[slot.slot_id])
        return slot

    async def _record(
        self, slot: LeasedSlot, lease: Lease, container_id: ContainerId, *, reason: str
    ) -> LeasedSlot:
        taken_at = loop_time()
        policy, backend = self.transitions.policy, self.backends[slot.backend]
        row = await self.transitions.database.fetch_one(
            "record_container",
            {
                "slot_id": slot.slot_id,
                "assignment_id": slot.assignment_id,
                "version": slot.version,
                "container_id": container_id,
                "image_host": backend.image_host,
                "image": slot.image,
                "limits": slot.limits,
                "image_known_s": policy.image_known_s,
                "starts_limited": backend.concurrent_starts is not None,
                "wait_timeout_s": policy.deploy_wait_timeout_s,
                "lease_s": policy.lease_s,
                "reason": reason,
            },
        )
        if row is None:
            raise _TakenAway
        lease.renewed(taken_at=taken_at, lease_s=policy.lease_s)
        if row["from_phase"] != row["phase"]:
            passed = SlotPhase(row["from_phase"])
            self.transitions.metrics.phase_passed(
                slot.pool_name, passed, after_s=row["from_phase_s"]
            )
        return replace(
            slot,
            container_id=container_id,
            created_image=slot.image,
            created_limits=slot.limits,
            phase=SlotPhase(row["phase"]),
            version=row["version"],
            lease_until=row["lease_until"],
        )

    async def _issue_start(self, slot: LeasedSlot, lease: Lease) -> None:
        assert slot.container_id is not None
        assert slot.assignment_id is not None
        order = StartRequest(
            container_id=slot.container_id,
            assignment_id=slot.assignment_id,
            correlation_id=slot.correlation_id or "",
            environment=container_environment(
                slot, slot.container_id, public_url=self.public_url, secret=self.secret
            ),
        )
        backend = self.backends[slot.backend]
        deployment_id = await lease.call(
            lambda timeout_s: backend.start(order, timeout_s=timeout_s)
        )
        row = await self.transitions.database.fetch_one(
            "record_start",
            {
                "slot_id": slot.slot_id,
                "assignment_id": slot.assignment_id,
                "version": slot.version,
                "deployment_id": deployment_id,
                "timeout_s": self.transitions.policy.deploy_timeout_s,
            },
        )
        if row is None:
            raise _TakenAway
        if deployment_id is not None:
            event_log.deployment_status_changed(slot, deployment_id, old=None, new=ISSUED)

    async def _look_at_deadline(self, slot: LeasedSlot) -> None:
        """The timeout of the start has passed: one last look decides."""
        await self.observer.observe(slot.backend, container_id=slot.container_id)
        # Still ours if the backend did not answer: no evidence, so wait for it.
        await self.transitions.postpone(slot)

    async def _waited_too_long(self, slot: LeasedSlot) -> None:
        """A slot at the gate is due only when its time there is up."""
        assert slot.phase is not None
        limit_s = self.transitions.policy.deploy_wait_timeout_s
        await self._give_up(slot, f"{slot.phase.replace('_', ' ')} for more than {limit_s:g} s")

    async def handle_unexpected_error(self, slot: LeasedSlot, error: Exception) -> None:
        """An error that nobody foresaw: tried again, no longer than a backend is waited for."""
        if self._has_waited_enough(slot):
            await self._give_up(slot, f"an unexpected {type(error).__name__}: see the log")
        else:
            await self.transitions.postpone(slot)

    async def _wait(self, slot: LeasedSlot, error: BackendUnavailable) -> None:
        # A spent budget is no trouble: it was made to be spent.
        log = _log.info if isinstance(error, BudgetExhausted) else _log.warning
        log("deploy.unavailable", slot=slot.slot_id, problem=str(error))
        if self._has_waited_enough(slot):
            await self._give_up(slot, str(error))
        else:
            await self.transitions.postpone(slot, after=error)

    def _has_waited_enough(self, slot: LeasedSlot) -> bool:
        assert slot.phase_at is not None
        limit = timedelta(seconds=self.transitions.policy.deploy_wait_timeout_s)
        return slot.now - slot.phase_at >= limit

    async def _give_up(
        self, slot: LeasedSlot, reason: str, *, nothing_started: bool = False
    ) -> None:
        if not await self.transitions.fail_deployment(
            slot, reason=reason, nothing_started=nothing_started
        ):
            await self.transitions.abandon_step(slot, wanted="fail the deployment")
