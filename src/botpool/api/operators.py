"""For operators: pools and slots, to read, to close and to put right."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query

from botpool.api import schemas
from botpool.api.auth import Operator, Service
from botpool.api.parameters import PlatformQuery, PoolPath, SlotPath, WrittenPlainly
from botpool.api.patterns import VISIBLE
from botpool.api.problems import described
from botpool.domain.errors import SlotInUse
from botpool.domain.ids import PoolName, SlotId
from botpool.domain.records import Pool
from botpool.domain.states import SlotStatus
from botpool.engine.replica import Replica

_ERRORS = described(401, 403, 404, 422, 503)
_MOST_MINUTES = 24 * 60

routes = APIRouter(prefix="/v1", tags=["operators"])


async def _correlation(
    x_correlation_id: Annotated[
        str | None, Header(alias="X-Correlation-ID", max_length=128, pattern=VISIBLE)
    ] = None,
) -> str | None:
    return x_correlation_id


Correlation = Annotated[str | None, Depends(_correlation)]


@routes.get("/pools", responses=described(401, 403, 503))
async def list_pools(replica: Service, _: Operator) -> schemas.Pools:
    """Every pool with its figures."""
    pools = await replica.queries.pools()
    return schemas.Pools(pools=[await _shown(replica, pool) for pool in pools])


@routes.get("/pools/{platform}", responses=_ERRORS)
async def get_pool(replica: Service, _: Operator, platform: PoolPath) -> schemas.PoolAnswer:
    """One pool with its figures."""
    return await _pool_answer(replica, platform)


@routes.get("/pools/{platform}/activity", responses=_ERRORS)
async def pool_activity(
    replica: Service,
    _: Operator,
    platform: PoolPath,
    minutes: Annotated[int, Query(ge=1, le=_MOST_MINUTES), WrittenPlainly] = 60,
) -> schemas.Activity:
    """A pool's last minutes, oldest first; the last is the present one, so far."""
    found = await replica.queries.pool_samples(PoolName(platform), minutes)
    return schemas.Activity(minutes=[schemas.PoolSample.model_validate(each) for each in found])


@routes.post("/pools/{platform}/drain", status_code=202, responses=_ERRORS)
async def drain_pool(
    replica: Service, key: Operator, platform: PoolPath, correlation_id: Correlation
) -> schemas.PoolAnswer:
    """Cordon all slots of a pool and admit nobody new. Running bots stay."""
    await replica.pools.drain(
        PoolName(platform),
        drained=True,
        reason=f"drained by {key.name}",
        correlation_id=correlation_id,
    )
    return await _pool_answer(replica, platform)


@routes.post("/pools/{platform}/undrain", status_code=202, responses=_ERRORS)
async def undrain_pool(
    replica: Service, key: Operator, platform: PoolPath, correlation_id: Correlation
) -> schemas.PoolAnswer:
    """Open a drained pool again."""
    await replica.pools.drain(
        PoolName(platform),
        drained=False,
        reason=f"undrained by {key.name}",
        correlation_id=correlation_id,
    )
    return await _pool_answer(replica, platform)


@routes.get("/slots", responses=described(401, 403, 422, 503))
async def list_slots(
    replica: Service, _: Operator, platform: PlatformQuery = None, status: SlotStatus | None = None
) -> schemas.Slots:
    """Slots, by pool and number."""
    slots = await replica.queries.slots(pool_name=platform, status=status)
    return schemas.Slots(slots=[schemas.Slot.model_validate(slot) for slot in slots])


@routes.get("/slots/{id}", responses=_ERRORS)
async def get_slot(replica: Service, _: Operator, slot_id: SlotPath) -> schemas.SlotAnswer:
    """One slot."""
    return await _slot_answer(replica, slot_id)


@routes.get("/slots/{id}/history", responses=_ERRORS)
async def slot_history(replica: Service, _: Operator, slot_id: SlotPath) -> schemas.SlotHistory:
    """A slot's history, newest first; also of one that was deleted."""
    rows = await replica.queries.slot_history(SlotId(slot_id))
    return schemas.SlotHistory(events=[schemas.SlotEvent.model_validate(row) for row in rows])


@routes.get("/slots/{id}/assignments", responses=_ERRORS)
async def slot_assignments(replica: Service, _: Operator, slot_id: SlotPath) -> schemas.Assignments:
    """Who was in a slot, newest first; the last two hundred."""
    found = await replica.queries.slot_assignments(SlotId(slot_id))
    return schemas.Assignments(
        assignments=[schemas.Assignment.model_validate(each) for each in found]
    )


@routes.post("/slots/{id}/cordon", status_code=202, responses=_ERRORS)
async def cordon_slot(
    replica: Service, key: Operator, slot_id: SlotPath, correlation_id: Correlation
) -> schemas.SlotAnswer:
    """Let a slot finish its bot and take no other."""
    await replica.pools.cordon(
        SlotId(slot_id),
        cordoned=True,
        reason=f"cordoned by {key.name}",
        correlation_id=correlation_id,
    )
    return await _slot_answer(replica, slot_id)


@routes.post("/slots/{id}/uncordon", status_code=202, responses=_ERRORS)
async def uncordon_slot(
    replica: Service, key: Operator, slot_id: SlotPath, correlation_id: Correlation
) -> schemas.SlotAnswer:
    """Let a slot take bots again."""
    await replica.pools.cordon(
        SlotId(slot_id),
        cordoned=False,
        reason=f"uncordoned by {key.name}",
        correlation_id=correlation_id,
    )
    return await _slot_answer(replica, slot_id)


@routes.post("/slots/{id}/release", status_code=202, responses=_ERRORS)
async def release_slot(replica: Service, key: Operator, slot_id: SlotPath) -> schemas.SlotAnswer:
    """Take a slot away from its bot, which fails with code `operator`."""
    await replica.slot_commands.release(SlotId(slot_id), reason=f"released by {key.name}")
    return await _slot_answer(replica, slot_id)


@routes.post("/slots/{id}/recover", status_code=202, responses=_ERRORS)
async def recover_slot(
    replica: Service, key: Operator, slot_id: SlotPath, correlation_id: Correlation
) -> schemas.SlotAnswer:
    """Reset a slot now. A bot that is still deploying is tried again; one that runs fails."""
    await replica.slot_commands.recover(
        SlotId(slot_id), reason=f"recovered by {key.name}", correlation_id=correlation_id
    )
    return await _slot_answer(replica, slot_id)


@routes.delete("/slots/{id}", status_code=202, responses={**_ERRORS, **described(409)})
async def delete_slot(
    replica: Service,
    key: Operator,
    slot_id: SlotPath,
    correlation_id: Correlation,
    force: bool = False,
) -> schemas.SlotAnswer:
    """Delete a slot and its container; one with a live bot only with `force`, and its bot fails."""
    slot = await _slot_answer(replica, slot_id)
    reason = f"deleted by {key.name}"
    if force:
        await replica.slot_commands.delete(
            SlotId(slot_id), reason=reason, correlation_id=correlation_id
        )
        return slot
    if not await replica.pools.remove(
        SlotId(slot_id), reason=reason, correlation_id=correlation_id
    ):
        raise SlotInUse(slot_id)
    return schemas.SlotAnswer(slot=slot.slot.model_copy(update={"status": SlotStatus.DELETING}))


@routes.post("/maintenance/recover", responses=described(401, 403, 503))
async def recover(replica: Service, _: Operator) -> schemas.RecoveredAnswer:
    """Run the recovery pass now."""
    return schemas.RecoveredAnswer.model_validate(await replica.recovery.recover())


@routes.post("/maintenance/cleanup", responses=described(401, 403, 422, 503))
async def cleanup(replica: Service, _: Operator, force: bool = False) -> schemas.CleanedAnswer:
    """Run the cleanup now. `force`: delete containers without a slot, however many there are."""
    return schemas.CleanedAnswer.model_validate(await replica.cleanup.clean(all_strays=force))


async def _slot_answer(replica: Replica, slot_id: int) -> schemas.SlotAnswer:
    slot = await replica.queries.slot(SlotId(slot_id))
    return schemas.SlotAnswer(slot=schemas.Slot.model_validate(slot))


async def _pool_answer(replica: Replica, platform: str) -> schemas.PoolAnswer:
    (pool,) = await replica.queries.pools(PoolName(platform))
    return schemas.PoolAnswer(pool=await _shown(replica, pool))


async def _shown(replica: Replica, pool: Pool) -> schemas.Pool:
    health = await replica.readiness.backend_health(pool.backend)
    return schemas.Pool(
        pool_name=pool.pool_name,
        backend=pool.backend,
        backend_health=schemas.BackendHealth.model_validate(health),
        image=pool.image,
        size=pool.size,
        max_size=pool.max_size,
        slots_by_status={SlotStatus(name): n for name, n in pool.slots_by_status.items()},
        queue_depth=pool.queue_depth,
        oldest_wait_ms=pool.oldest_wait_ms,
        warm_hit_ratio=pool.warm_ratio,
        time_to_running_p50_ms=pool.time_to_running_p50_ms,
        time_to_running_p95_ms=pool.time_to_running_p95_ms,
        drained=pool.drained_at is not None,
    )
