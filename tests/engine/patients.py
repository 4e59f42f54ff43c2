"""Slots that a recovery pass looks into, and time in which replicas live."""

from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.policy import Policy
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, wish

LONG = Policy(deploy_timeout_s=36_000)
"""The pass alone decides: no start times out."""
OFTEN_S = 29.0
"""A silence of more than 30 s is our own outage."""


async def deployed(stage: Stage, replica: Replica) -> BotId:
    """A bot whose start was issued, and whose container shows nothing yet."""
    stage.backend.has_deployments = True
    bot = (await replica.admission.admit(wish())).bot
    while await stage.step(replica):
        pass
    return bot.id


async def alive(stage: Stage, replica: Replica, seconds: float) -> None:
    """Time in which the replica lived: it said so often enough."""
    await replica.recovery.record_liveness()
    while seconds > 0:
        stage.clock.move(min(seconds, OFTEN_S))
        seconds -= OFTEN_S
        await replica.recovery.record_liveness()


def beat(stage: Stage, bot_id: BotId) -> None:
    """A heartbeat whose row was written, while the slot was left as it was."""
    assignment = stage.slot_of(bot_id)["assignment_id"]
    stage.rows(
        "INSERT INTO bot_heartbeats VALUES (%s, %s, botpool_now()) "
        "ON CONFLICT (bot_id) DO UPDATE SET last_at = botpool_now()",
        bot_id,
        assignment,
    )


async def busy(stage: Stage, replica: Replica) -> BotId:
    bot = (await stage.run_bot(replica)).bot
    await replica.agents.heartbeat(AssignmentId(stage.slot_of(bot.id)["assignment_id"]), bot.id)
    return bot.id
