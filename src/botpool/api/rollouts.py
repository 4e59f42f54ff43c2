"""Routes for operators: image rollouts."""

from fastapi import APIRouter

from botpool.api import rollout_schemas as schemas
from botpool.api.auth import Operator, Service
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.parameters import CorrelationHeader, PoolPath
from botpool.api.problems import error_responses

routes = APIRouter(
    prefix="/v1/pools/{platform}/rollouts", tags=["operators"], route_class=AuthenticatedRoute
)


@routes.post(
    "",
    status_code=201,
    responses=error_responses(400, 401, 403, 404, 409, 413, 415, 422, 503),
)
async def start_rollout(
    replica: Service,
    _: Operator,
    platform: PoolPath,
    body: schemas.RolloutCreate,
    correlation_id: CorrelationHeader = None,
) -> schemas.RolloutResponse:
    """Start the rollout of a new image.

    Botpool pulls the image, gives it to the share of assignments, compares both revisions, and
    promotes the new one or rolls it back. Bots that run are not touched.
    """
    started = await replica.rollouts.start(
        platform, body.requested(), correlation_id=correlation_id
    )
    return schemas.RolloutResponse(rollout=schemas.Rollout.shown(started))


@routes.get("", responses=error_responses(401, 403, 404, 422, 503))
async def list_rollouts(replica: Service, _: Operator, platform: PoolPath) -> schemas.Rollouts:
    """List the last rollouts of the pool, newest first, with both revisions side by side."""
    found = await replica.rollouts.list(platform)
    return schemas.Rollouts(rollouts=[schemas.Rollout.shown(each) for each in found])


@routes.post("/promote", responses=error_responses(401, 403, 404, 409, 422, 503))
async def promote_rollout(
    replica: Service, _: Operator, platform: PoolPath, correlation_id: CorrelationHeader = None
) -> schemas.RolloutResponse:
    """Give all assignments the new revision now, without regard to the comparison."""
    promoted = await replica.rollouts.promote(platform, correlation_id=correlation_id)
    return schemas.RolloutResponse(rollout=schemas.Rollout.shown(promoted))


@routes.post("/rollback", responses=error_responses(401, 403, 404, 409, 422, 503))
async def roll_back_rollout(
    replica: Service, _: Operator, platform: PoolPath, correlation_id: CorrelationHeader = None
) -> schemas.RolloutResponse:
    """Keep the old revision, or return to it after the last promotion."""
    ended = await replica.rollouts.roll_back(platform, correlation_id=correlation_id)
    return schemas.RolloutResponse(rollout=schemas.Rollout.shown(ended))
