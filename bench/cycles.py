"""Whole cycles through the engine, with all rows, fences and constraints.

A cycle is admitted → ended → stop confirmed → idle. The caller plays the user who requests the bot,
the agent that reports its end, and the backend that observes the stopped container. Of the
replica's loops only the vacuum runs, because the cycles themselves cause its work.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from bench.closed_loop import per_second
from bench.null_backend import NullBackend
from botpool.domain.bot_ending import BotEnding
from botpool.domain.bots import BotRequest
from botpool.domain.callers import DEFAULT_TENANT, DEFAULT_TENANT_ID, Caller
from botpool.domain.communication import Outcome
from botpool.domain.fenced_slots import ObservedSlot
from botpool.domain.ids import PoolName
from botpool.domain.observation import ContainerState, Observation
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus, SlotStatus
from botpool.engine.maintenance.vacuum import INTERVAL_S
from botpool.engine.replica import Identity, Replica
from botpool.engine.runtime.loop import Loop
from botpool.store.database import Database
from botpool.store.query import Statement
from botpool.store.queue import ClaimedSlot
from botpool.store.releases import EndedBot

POOL = PoolName("google-meet")
BOT_REQUEST = BotRequest(
    caller=Caller(
        key_id=1, key_name="bench", scope="user", tenant_id=DEFAULT_TENANT_ID, tenant=DEFAULT_TENANT
    ),
    pool_name=POOL,
    meeting_url="https://meet.google.com/abc-defg-hij",
    bot_display_name="Botpool",
    bot_data={},
    priority=100,
    queue_timeout_ms=600_000,
    correlation_id="bench",
)
_END = BotEnding(status=BotStatus.CANCELLED, reason="stopped by its user")


class RecordingDatabase(Database):
    """Records the assignment and the slot of each bot, which an agent or an observer would know."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.claimed: dict[int, ClaimedSlot] = {}
        self.ended: dict[int, EndedBot] = {}

    async def commit(self, statements: Sequence[Statement[Any]]) -> None:
        await super().commit(statements)
        for statement in statements:
            if statement.name == "admit_to_idle_slots":
                self.claimed.update((row.bot_id, row) for row in statement.result)
            elif statement.name == "end_bots":
                self.ended.update((row.bot_id, row) for row in statement.result)


class Cycles:
    def __init__(self, database: RecordingDatabase) -> None:
        self._claimed, self._ended = database.claimed, database.ended
        identity = Identity(owner="bench", public_url="http://127.0.0.1", agent_keys=(b"bench",))
        self.replica = Replica(database, {"null": NullBackend()}, Policy(), identity)

    @classmethod
    @asynccontextmanager
    async def on(cls, url: str) -> AsyncIterator["Cycles"]:
        database = RecordingDatabase(url)
        await database.open()
        cycles = cls(database)
        vacuum = Loop("vacuum", cycles.replica.vacuum.vacuum_if_due, interval_s=INTERVAL_S)
        vacuum.start()
        try:
            yield cycles
        finally:
            await vacuum.stop()
            await database.close()

    async def one(self) -> None:
        bot = (await self.replica.admission.admit(BOT_REQUEST)).bot
        assert await self.replica.bot_endings.end(self._claimed.pop(bot.id).assignment_id, _END)
        assert bot.container_id is not None
        await self.replica.reconciler.releaser.apply(
            _observed_slot(self._ended.pop(bot.id)),
            Observation(container_id=bot.container_id, state=ContainerState.STOPPED),
        )

    async def per_second(self, *, callers: int, seconds: float) -> float:
        """Return the cycles per second of concurrent callers."""
        return await per_second(self.one, callers=callers, seconds=seconds)


def _observed_slot(ended: EndedBot) -> ObservedSlot:
    now = datetime.now(UTC)
    assert ended.container_id is not None and ended.bot_id is not None
    return ObservedSlot(
        slot_id=ended.slot_id,
        slot_name=ended.slot_name,
        pool_name=POOL,
        backend="null",
        container_id=ended.container_id,
        status=SlotStatus.RELEASING,
        assignment_id=ended.assignment_id,
        run_id=ended.assignment_id,
        phase=None,
        deployment_id=None,
        deployment_status=None,
        start_issued_at=None,
        deployment_ended_at=None,
        leads=False,
        stop_issued_at=now,
        delete_issued_at=None,
        version=ended.version,
        bot_id=ended.bot_id,
        bot_status=BotStatus.CANCELLED,
        correlation_id=BOT_REQUEST.correlation_id,
        leave_by=None,
        finishing_at=None,
        outcome=Outcome.REPORT,
        stop_grace_s=30.0,
        running_at=now,
        observed_running_at=now,
        failure=None,
        infrastructure_fault=False,
        unconfirmed_reason=None,
        unconfirmed_node=None,
        needs_heartbeats=True,
        last_heartbeat_at=None,
        status_unreliable_at=None,
        now=now,
    )
