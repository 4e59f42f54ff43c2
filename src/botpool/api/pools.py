"""Routes for operators: pools."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AfterValidator

from botpool.api import operator_schemas as schemas
from botpool.api.auth import Operator, Service
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.parameters import CorrelationHeader, DecimalDigits, PoolPath
from botpool.api.problems import error_responses
from botpool.domain.ids import PoolName
from botpool.domain.plan.document import plan_document
from botpool.domain.plan.policies import Goal
from botpool.domain.pools import Pool
from botpool.domain.warm_floors import WarmFloors
from botpool.domain.warm_target import check_time_zone
from botpool.engine.replica import Replica

_ERRORS = error_responses(401, 403, 404, 422, 503)
_MAX_MINUTES = 24 * 60
_MAX_HOURS = 72
_MAX_LISTED = 500
_DAY_MS = 86_400_000
_MAX_REPLAY_MS = 90 * _DAY_MS

routes = APIRouter(prefix="/v1", tags=["operators"], route_class=AuthenticatedRoute)


@routes.get("/pools", responses=error_responses(401, 403, 503))
async def list_pools(replica: Service, _: Operator) -> schemas.Pools:
    """List all pools with their figures."""
    pools, warm = await replica.queries.pools(), await replica.standby_keeper.floors()
    return schemas.Pools(
        pools=[await _pool_schema(replica, pool, warm.get(pool.pool_name)) for pool in pools]
    )


@routes.get("/pools/{platform}", responses=_ERRORS)
async def get_pool(replica: Service, _: Operator, platform: PoolPath) -> schemas.PoolResponse:
    """Get one pool with its figures."""
    return await _pool_response(replica, platform)


@routes.get("/pools/{platform}/activity", responses=_ERRORS)
async def pool_activity(
    replica: Service,
    _: Operator,
    platform: PoolPath,
    minutes: Annotated[int, Query(ge=1, le=_MAX_MINUTES), DecimalDigits] = 60,
) -> schemas.Activity:
    """Get the pool's last minutes, oldest first. The last entry is the current minute so far."""
    found = await replica.queries.pool_samples(platform, minutes)
    return schemas.Activity(minutes=[schemas.PoolSample.of(each) for each in found])


@routes.get("/pools/{platform}/schedule", responses=_ERRORS)
async def pool_schedule(
    replica: Service,
    _: Operator,
    platform: PoolPath,
    hours: Annotated[int, Query(ge=1, le=_MAX_HOURS), DecimalDigits] = 6,
) -> schemas.Schedule:
    """Get the bookings of the pool's next hours, in slices of ten minutes, and the score."""
    found = await replica.schedules.schedule(platform, hours)
    return schemas.Schedule.of(
        found.pool,
        slices=[schemas.ScheduleSlice.of(each) for each in found.slices],
        bookings=[schemas.Booking.of(each) for each in found.bookings[:_MAX_LISTED]],
        score=[schemas.OnTimeScore.of(each) for each in found.record],
    )


@routes.get("/pools/{platform}/plan", responses=_ERRORS)
async def plan_pool(
    replica: Service,
    _: Operator,
    platform: PoolPath,
    replay_ms: Annotated[
        int, Query(alias="replayMs", ge=60_000, le=_MAX_REPLAY_MS), DecimalDigits
    ] = 7 * _DAY_MS,
    slo: Annotated[float, Query(gt=0, le=1, allow_inf_nan=False)] = 0.999,
    within_ms: Annotated[int, Query(alias="withinMs", ge=1, le=_DAY_MS), DecimalDigits] = 5_000,
    timezone: Annotated[str, Query(max_length=64), AfterValidator(check_time_zone)] = "UTC",
) -> schemas.PlanResponse:
    """Replay the pool's recorded bots under other warm floors, and recommend settings."""
    goal = Goal(slo=slo, within_s=within_ms / 1000)
    plan = await replica.plans.plan(
        platform, replay_s=replay_ms / 1000, goal=goal, timezone=timezone
    )
    return schemas.PlanResponse.model_validate({"plan": plan_document(plan)})


@routes.post("/pools/{platform}/drain", status_code=202, responses=_ERRORS)
async def drain_pool(
    replica: Service, caller: Operator, platform: PoolPath, correlation_id: CorrelationHeader = None
) -> schemas.PoolResponse:
    """Cordon all slots of the pool and refuse new bots with 503. Running bots continue."""
    reason = f"drained by {caller.key_name}"
    await replica.pools.drain(platform, drained=True, reason=reason, correlation_id=correlation_id)
    return await _pool_response(replica, platform)


@routes.post("/pools/{platform}/undrain", status_code=202, responses=_ERRORS)
async def undrain_pool(
    replica: Service, caller: Operator, platform: PoolPath, correlation_id: CorrelationHeader = None
) -> schemas.PoolResponse:
    """Uncordon all slots of a drained pool and admit bots again."""
    reason = f"undrained by {caller.key_name}"
    await replica.pools.drain(platform, drained=False, reason=reason, correlation_id=correlation_id)
    return await _pool_response(replica, platform)


async def _pool_response(replica: Replica, platform: PoolName) -> schemas.PoolResponse:
    (pool,) = await replica.queries.pools(platform)
    warm = (await replica.standby_keeper.floors()).get(platform)
    return schemas.PoolResponse(pool=await _pool_schema(replica, pool, warm))


async def _pool_schema(replica: Replica, pool: Pool, warm: WarmFloors | None) -> schemas.Pool:
    health = await replica.readiness.backend_health(pool.backend)
    if health.address:
        health = replace(health, detail=f"{health.detail} ({health.address})")
    return schemas.Pool.of(
        pool,
        backend_health=health,
        warm_hit_ratio=pool.warm_ratio,
        drained=pool.drained_at is not None,
        warm=warm and schemas.WarmFloors.of(warm),
        removed=pool.pool_name not in replica.pools.configured,
    )
