"""Routes for operators: run the recovery pass and the cleanup."""

from fastapi import APIRouter

from botpool.api import operator_schemas as schemas
from botpool.api.auth import Operator, Service
from botpool.api.problems import error_responses

routes = APIRouter(prefix="/v1/maintenance", tags=["operators"])


@routes.post("/recover", responses=error_responses(401, 403, 503))
async def recover(replica: Service, _: Operator) -> schemas.RecoveryCounts:
    """Run the recovery pass now and return its counts."""
    return schemas.RecoveryCounts.model_validate(await replica.recovery.recover())


@routes.post("/cleanup", responses=error_responses(401, 403, 422, 503))
async def cleanup(replica: Service, _: Operator, force: bool = False) -> schemas.CleanupCounts:
    """Run the cleanup now. `force` deletes stray containers even if there are many of them."""
    return schemas.CleanupCounts.model_validate(await replica.cleanup.clean(all_strays=force))
