"""The history says why a bot waits: no free slot, its tenant's quota, or the pool's pace."""

from dataclasses import replace

from botpool.domain import reasons
from botpool.domain.ids import BotId
from botpool.domain.pacing import Pacing
from tests.support.replicas import Stage, bot_request, pool
from tests.support.tenant_clients import Clients

PACING = Pacing(
    egress="office", per_minute=1, burst=1, pause_after_blocks=3, pause_s=300, recover_s=1000
)


def queued_reason(stage: Stage, bot_id: BotId) -> str:
    (row,) = stage.rows(
        "SELECT reason FROM history WHERE bot_id = %s AND to_state = 'QUEUED'", bot_id
    )
    return str(row["reason"])


async def test_bot_of_a_full_pool_waits_for_a_slot(stage: Stage) -> None:
    clients = Clients(stage, await stage.replica(pool(1)))
    await clients.tenant("a")
    _, waiting = await clients.post("a", 2)
    assert queued_reason(stage, waiting) == reasons.NO_FREE_SLOT


async def test_bot_of_a_tenant_at_its_quota_waits_for_the_quota(stage: Stage) -> None:
    clients = Clients(stage, await stage.replica(pool(5)))
    await clients.tenant("a", max_live=1)
    _, waiting = await clients.post("a", 2)
    assert queued_reason(stage, waiting) == reasons.TENANT_AT_QUOTA


async def test_bot_of_a_paced_pool_waits_for_the_pace(stage: Stage) -> None:
    replica = await stage.replica(replace(pool(5), pacing=PACING))
    request = bot_request(queue_timeout_ms=60_000)
    bots = [(await replica.admission.admit(request)).bot.id for _ in range(2)]
    assert queued_reason(stage, bots[1]) == reasons.PACED
