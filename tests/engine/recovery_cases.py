"""Slots that a recovery pass decides about, and time in which a replica is alive."""

from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.policy import Policy
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, bot_request

LONG_TIMEOUT = Policy(deploy_timeout_s=36_000)
"""No start times out, so that only the pass decides."""
LIVENESS_S = 29.0
"""A gap of more than 30 s is an outage of Botpool."""


async def start_bot(stage: Stage, replica: Replica) -> BotId:
    """Admit a bot and issue its start; its container does not run yet."""
    stage.backend.has_deployments = True
    bot = (await replica.admission.admit(bot_request())).bot
    while await stage.step(replica):
        pass
    return bot.id


async def pass_time(stage: Stage, replica: Replica, seconds: float) -> None:
    """Let time pass while the replica records its liveness."""
    await replica.liveness.record()
    while seconds > 0:
        stage.clock.move(min(seconds, LIVENESS_S))
        seconds -= LIVENESS_S
        await replica.liveness.record()


def write_heartbeat(stage: Stage, bot_id: BotId) -> None:
    """Write the row of a heartbeat without the slot change that an agent's call causes."""
    assignment = stage.slot_of(bot_id)["assignment_id"]
    stage.rows(
        "INSERT INTO bot_heartbeats VALUES (%s, %s, botpool_now()) "
        "ON CONFLICT (bot_id) DO UPDATE SET last_at = botpool_now()",
        bot_id,
        assignment,
    )


async def run_bot(stage: Stage, replica: Replica) -> BotId:
    """Run a bot until its slot is busy and its agent has sent a heartbeat."""
    bot = (await stage.run_bot(replica)).bot
    await replica.agents.heartbeat(AssignmentId(stage.slot_of(bot.id)["assignment_id"]), bot.id)
    return bot.id
