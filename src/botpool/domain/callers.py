"""Callers: which API key sent a request, with which rights, for which tenant."""

from dataclasses import dataclass

from botpool.domain.ids import TenantId

SCOPES = ("user", "operator", "admin")
"""Each scope includes the scopes before it."""

DEFAULT_TENANT_ID = TenantId(1)
DEFAULT_TENANT = "default"
"""The tenant that every installation has."""


LOWEST_PRIORITY = -(2**31 - 1)


def default_min_priority(scope: str) -> int:
    """The lowest priority number of a new key: users do not overtake others with negative ones."""
    return 0 if scope == "user" else LOWEST_PRIORITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The API key that sent a request, and its tenant."""

    key_id: int
    key_name: str
    scope: str
    tenant_id: TenantId
    tenant: str
    """The tenant's name."""
    min_priority: int = 0
    """The lowest priority number that the caller's bots may have."""
    posts_per_minute: int | None = None
    """The tenant's quota of requests for bots; None: no limit."""

    def has_scope(self, needed: str) -> bool:
        """Whether the key has at least this scope."""
        return SCOPES.index(self.scope) >= SCOPES.index(needed)

    @property
    def visible_tenant(self) -> TenantId | None:
        """The only tenant whose bots the caller sees; None: all tenants, for operators."""
        return None if self.has_scope("operator") else self.tenant_id
