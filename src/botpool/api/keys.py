"""Routes for API keys (scope `admin`)."""

from fastapi import APIRouter

from botpool.api import key_schemas as schemas
from botpool.api.auth import Admin, Service
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.parameters import KeyPath
from botpool.api.problems import error_responses

routes = APIRouter(prefix="/v1/keys", tags=["admins"], route_class=AuthenticatedRoute)


@routes.post("", status_code=201, responses=error_responses(400, 401, 403, 413, 415, 422, 503))
async def create_key(replica: Service, _: Admin, body: schemas.KeyCreate) -> schemas.NewKey:
    """Create an API key. Only this response contains the secret."""
    lifetime_s = None if body.expires_in_ms is None else body.expires_in_ms / 1000
    tenant_id = await replica.tenants.id_of(body.tenant)
    key, text = await replica.api_keys.create(
        body.name,
        body.scope,
        tenant_id=tenant_id,
        lifetime_s=lifetime_s,
        min_priority=body.min_priority,
    )
    return schemas.NewKey(key=schemas.Key.of(key), secret=text)


@routes.post("/{id}/rotate", responses=error_responses(400, 401, 403, 404, 413, 415, 422, 503))
async def rotate_key(
    replica: Service, _: Admin, key_id: KeyPath, body: schemas.KeyRotation
) -> schemas.NewKey:
    """Give an API key a new secret. The former one stays valid until the overlap ends.

    The key keeps its id, its sessions and its idempotency keys, and its lifetime begins anew.
    """
    key, text = await replica.api_keys.rotate(key_id, overlap_s=body.overlap_ms / 1000)
    return schemas.NewKey(key=schemas.Key.of(key), secret=text)


@routes.get("", responses=error_responses(401, 403, 503))
async def list_keys(replica: Service, _: Admin) -> schemas.Keys:
    """List all API keys, without their secrets."""
    keys = await replica.api_keys.list_all()
    return schemas.Keys(keys=[schemas.Key.of(key) for key in keys])


@routes.delete("/{id}", status_code=202, responses=error_responses(401, 403, 404, 422, 503))
async def revoke_key(replica: Service, _: Admin, key_id: KeyPath) -> schemas.Key:
    """Revoke an API key. All replicas refuse it after ten seconds at most."""
    return schemas.Key.of(await replica.api_keys.revoke(key_id))
