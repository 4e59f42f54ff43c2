"""Routes for tenants: operators read them, admins create and change them."""

from fastapi import APIRouter

from botpool.api import tenant_schemas as schemas
from botpool.api.auth import Admin, Operator, Service
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.parameters import TenantPath
from botpool.api.problems import error_responses
from botpool.domain.tenants import TenantChanges

routes = APIRouter(prefix="/v1/tenants", tags=["admins"], route_class=AuthenticatedRoute)


@routes.post("", status_code=201, responses=error_responses(400, 401, 403, 409, 413, 415, 422, 503))
async def create_tenant(
    replica: Service, _: Admin, body: schemas.TenantCreate
) -> schemas.TenantResponse:
    """Create a tenant. Its keys are created with `POST /v1/keys`."""
    created = await replica.tenants.create(body.name, **_changes(body))
    return schemas.TenantResponse(tenant=schemas.Tenant.of(created))


@routes.get("", responses=error_responses(401, 403, 503))
async def list_tenants(replica: Service, _: Operator) -> schemas.Tenants:
    """List all tenants, with their bots in slots and in queues."""
    tenants = await replica.tenants.list_all()
    return schemas.Tenants(tenants=[schemas.Tenant.of(tenant) for tenant in tenants])


@routes.patch("/{name}", responses=error_responses(400, 401, 403, 404, 413, 415, 422, 503))
async def change_tenant(
    replica: Service, _: Admin, name: TenantPath, body: schemas.TenantUpdate
) -> schemas.TenantResponse:
    """Change the weight and the quotas of a tenant. Absent fields stay; null removes a quota.

    A lower quota ends no bot: it refuses new ones until the tenant is below it.
    """
    changed = await replica.tenants.change(name, _changes(body))
    return schemas.TenantResponse(tenant=schemas.Tenant.of(changed))


def _changes(body: schemas.TenantUpdate) -> TenantChanges:
    """Return the fields that the request contains."""
    changes: TenantChanges = {}
    for name in TenantChanges.__annotations__:
        if name in body.model_fields_set:
            changes[name] = getattr(body, name)  # type: ignore[literal-required]
    return changes
