"""Our side: whole cycles through the engine, with every row, fence and constraint.

A cycle is admitted → ended → stop confirmed → idle. The caller plays the parts that are not ours:
the user who asks for a bot, the agent who reports its end, and the backend whose look shows the
container stopped. Of the replica's loops the one runs that follows from the cycles themselves: what
they leave dead is cleared away.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from bench.closed_loop import per_second
from bench.null_backend import NullBackend
from botpool.domain.decisions import BotEnding
from botpool.domain.ids import PoolName
from botpool.domain.observation import ContainerState, Observation
from botpool.domain.policy import Policy
from botpool.domain.records import BotRequest, ObservedSlot
from botpool.domain.states import BotStatus, SlotStatus
from botpool.engine.maintenance.vacuum import INTERVAL_S
from botpool.engine.replica import Identity, Replica
from botpool.engine.runtime.loop import Loop
from botpool.store.database import Database, Rows

POOL = PoolName("google-meet")
WISH = BotRequest(
    pool_name=POOL,
    meeting_url="https://meet.google.com/abc-defg-hij",
    bot_display_name="Botpool",
    bot_data={},
    priority=100,
    queue_timeout_ms=600_000,
    correlation_id="bench",
)
_END = BotEnding(status=BotStatus.CANCELLED, reason="stopped by its user")


class NotingDatabase(Database):
    """Remembers what an agent or a look would know: the assignment, and the slot as it is."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.known: dict[int, dict[str, Any]] = {}

    async def fetch(self, name: str, parameters: Mapping[str, Any]) -> Rows:
        rows = await super().fetch(name, parameters)
        if name in ("admit_to_idle_slots", "end_bots"):
            for row in rows:
                self.known[row["bot_id"]] = row
        return rows


class Cycles:
    def __init__(self, database: NotingDatabase) -> None:
        self._known = database.known
        identity = Identity(owner="bench", public_url="http://127.0.0.1", secret=b"bench")
        self.replica = Replica(database, {"null": NullBackend()}, Policy(), identity)

    @classmethod
    @asynccontextmanager
    async def on(cls, url: str) -> AsyncIterator["Cycles"]:
        database = NotingDatabase(url)
        await database.open()
        cycles = cls(database)
        tidying = Loop("tidying", cycles.replica.vacuum.tidy, interval_s=INTERVAL_S)
        tidying.start()
        try:
            yield cycles
        finally:
            await tidying.stop()
            await database.close()

    async def one(self) -> None:
        bot = (await self.replica.admission.admit(WISH)).bot
        assert await self.replica.transitions.end_bot(self._known[bot.id]["assignment_id"], _END)
        await self.replica.reconciler.releaser.judge(
            _looked_at(self._known.pop(bot.id)),
            Observation(container_id=bot.container_id, state=ContainerState.STOPPED),
        )

    async def per_second(self, *, callers: int, seconds: float) -> float:
        """Cycles by that many callers at once, each one after the other."""
        return await per_second(self.one, callers=callers, seconds=seconds)


def _looked_at(row: Mapping[str, Any]) -> ObservedSlot:
    now = datetime.now(UTC)
    return ObservedSlot(
        slot_id=row["slot_id"],
        slot_name=row["slot_name"],
        pool_name=POOL,
        backend="null",
        container_id=row["container_id"],
        status=SlotStatus.RELEASING,
        assignment_id=row["assignment_id"],
        deployment_id=None,
        start_issued_at=None,
        deployment_ended_at=None,
        stop_issued_at=now,
        delete_issued_at=None,
        version=row["version"],
        bot_id=row["bot_id"],
        bot_status=BotStatus.CANCELLED,
        correlation_id=WISH.correlation_id,
        leave_by=None,
        running_at=now,
        observed_running_at=now,
        failure=None,
        last_heartbeat_at=None,
        status_unreliable_at=None,
        now=now,
    )
