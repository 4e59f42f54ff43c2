"""Scheduled bots, for tests of the engine with a frozen clock."""

from datetime import UTC, datetime, timedelta
from typing import Any

from botpool.domain.bots import AdmittedBot
from botpool.domain.ids import AssignmentId, BotId
from botpool.engine.admission.bookings import BotUpdate
from botpool.engine.replica import Replica
from tests.support.replicas import CALLER, Stage, bot_request, key

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)
"""The time at which the clock of engine tests is frozen."""
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


async def book(
    replica: Replica, join_at: datetime, idempotency: str | None = None, **changes: Any
) -> AdmittedBot:
    request = bot_request(join_at=join_at, **changes)
    return await replica.bookings.book(request, key(idempotency) if idempotency else None)


async def due(stage: Stage, replica: Replica, join_at: datetime) -> None:
    """Move the clock to the start of the bots that join at a time, and poll."""
    (row,) = stage.rows(
        "SELECT min(starts_at) AS at, botpool_now() AS now FROM bookings "
        "WHERE due_at IS NULL AND ended_at IS NULL"
    )
    stage.clock.move(max(0.0, (row["at"] - row["now"]).total_seconds()))
    await replica.due_bots.poll()


async def waiting_bot(stage: Stage, replica: Replica) -> tuple[BotId, AssignmentId]:
    """Return a scheduled bot whose agent waits in its container for the join time."""
    bot_id = (await book(replica, NOW + HOUR)).bot.id
    await due(stage, replica, NOW + HOUR)
    await stage.step(replica)
    slot = stage.slot_of(bot_id)
    assignment = AssignmentId(slot["assignment_id"])
    await replica.agents.identify(assignment, slot["container_id"], "boot")
    return bot_id, assignment


def booking(stage: Stage, bot_id: BotId) -> dict[str, Any]:
    (row,) = stage.rows("SELECT * FROM bookings WHERE bot_id = %s", bot_id)
    return row


def held(stage: Stage) -> int:
    return sum(slot["held"] and slot["status"] == "idle" for slot in stage.slots())


async def move(replica: Replica, bot_id: BotId, join_at: datetime) -> AdmittedBot:
    return await replica.bookings.update(bot_id, BotUpdate(join_at=join_at), CALLER)
