"""API keys: shown once at their creation and stored as hashes."""

from collections.abc import Callable

from botpool.domain.callers import DEFAULT_TENANT_ID, default_min_priority
from botpool.domain.errors import NotFound
from botpool.domain.ids import TenantId
from botpool.domain.tenants import ApiKey
from botpool.domain.tokens import hash_api_key, new_api_key, shown_prefix
from botpool.engine.audit import audit_row
from botpool.engine.runtime.clock import loop_time
from botpool.store.api_keys import (
    find_api_key,
    find_api_key_by_id,
    insert_api_key,
    list_api_keys,
    record_api_key_uses,
    revoke_api_key,
    rotate_api_key,
)
from botpool.store.database import Database, Transaction

_CACHE_S = 10.0
_CACHE_SIZE = 1000


class ApiKeys:
    """Creates, finds, rotates and revokes API keys.

    Valid keys are cached for ten seconds, so a revoked or expired key stops working within that
    time. The use of keys is recorded about once a minute, not with each request.
    """

    def __init__(self, database: Database, *, monotonic: Callable[[], float] = loop_time) -> None:
        self._database = database
        self._monotonic = monotonic
        self._cache: dict[bytes, tuple[float, ApiKey]] = {}
        self._used: set[int] = set()

    async def create(
        self,
        name: str,
        scope: str,
        *,
        tenant_id: TenantId = DEFAULT_TENANT_ID,
        lifetime_s: float | None = None,
        min_priority: int | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key and return its record and its text, which is not stored."""
        text = new_api_key()
        key = await self.adopt(
            text,
            name,
            scope,
            tenant_id=tenant_id,
            lifetime_s=lifetime_s,
            min_priority=min_priority,
        )
        assert key is not None, "256 random bits do not collide"
        return key, text

    async def adopt(
        self,
        text: str,
        name: str,
        scope: str,
        *,
        tenant_id: TenantId = DEFAULT_TENANT_ID,
        lifetime_s: float | None = None,
        min_priority: int | None = None,
    ) -> ApiKey | None:
        """Store a given text as a key; None if the key exists."""

        async def work(transaction: Transaction) -> ApiKey | None:
            inserted = insert_api_key.statement(
                name=name,
                scope=scope,
                tenant_id=tenant_id,
                prefix=shown_prefix(text),
                key_hash=hash_api_key(text),
                lifetime_s=lifetime_s,
                min_priority=default_min_priority(scope) if min_priority is None else min_priority,
            )
            await transaction.run([inserted])
            if (key := inserted.result) is not None:
                await transaction.run(audit_row("key.create", f"key {key.id}", after=_shown(key)))
            return key

        return await self._database.transact(work)

    async def rotate(self, key_id: int, *, overlap_s: float) -> tuple[ApiKey, str]:
        """Give a key a new text and return it; the former text works until the overlap ends.

        The key keeps its id, and with it its sessions and idempotency keys.
        """
        text = new_api_key()

        async def work(transaction: Transaction) -> ApiKey:
            former = find_api_key_by_id.statement(key_id=key_id)
            rotated = rotate_api_key.statement(
                key_id=key_id,
                prefix=shown_prefix(text),
                key_hash=hash_api_key(text),
                overlap_s=overlap_s,
            )
            await transaction.run([former, rotated])
            if rotated.result is None:
                raise NotFound("valid API key", key_id)
            before, after = _shown(former.result), _shown(rotated.result)
            await transaction.run(
                audit_row("key.rotate", f"key {key_id}", before=before, after=after)
            )
            return rotated.result

        key = await self._database.transact(work)
        self._cache.clear()
        return key, text

    async def find(self, text: str) -> ApiKey | None:
        """Find a key by its text; None if the key is unknown, revoked or expired."""
        key_hash = hash_api_key(text)
        if (cached := self._cache.get(key_hash)) and self._monotonic() - cached[0] < _CACHE_S:
            self._used.add(cached[1].id)
            return cached[1]
        key = await find_api_key(self._database, key_hash=key_hash)
        if key is None:
            self._cache.pop(key_hash, None)
            return None
        if len(self._cache) >= _CACHE_SIZE:
            self._cache.clear()
        self._cache[key_hash] = (self._monotonic(), key)
        self._used.add(key.id)
        return key

    def mark_used(self, key: ApiKey) -> None:
        """Remember the use of a key, until `record_uses` stores it."""
        self._used.add(key.id)

    async def record_uses(self) -> None:
        """Store which keys were used since the last call."""
        if self._used:
            used, self._used = self._used, set()
            await record_api_key_uses(self._database, key_ids=sorted(used))

    async def find_by_id(self, key_id: int) -> ApiKey | None:
        """Find a key again while it reads a stream. Not cached, because streams are few."""
        return await find_api_key_by_id(self._database, key_id=key_id)

    async def list_all(self) -> list[ApiKey]:
        return await list_api_keys(self._database)

    async def revoke(self, key_id: int) -> ApiKey:
        """Revoke a key and drop the cache of this replica."""

        async def work(transaction: Transaction) -> ApiKey:
            former = find_api_key_by_id.statement(key_id=key_id)
            revoked = revoke_api_key.statement(key_id=key_id)
            await transaction.run([former, revoked])
            if revoked.result is None:
                raise NotFound("API key", key_id)
            before, after = _shown(former.result), _shown(revoked.result)
            await transaction.run(
                audit_row("key.revoke", f"key {key_id}", before=before, after=after)
            )
            return revoked.result

        key = await self._database.transact(work)
        self._cache.clear()
        return key


def _shown(key: ApiKey | None) -> dict[str, object] | None:
    """Return what the audit log shows of a key: no hash, only its first characters."""
    if key is None:
        return None
    return {
        "name": key.name,
        "scope": key.scope,
        "tenant": key.tenant,
        "prefix": key.prefix,
        "expiresAt": key.expires_at,
        "revokedAt": key.revoked_at,
        "overlapEndsAt": key.overlap_ends_at,
    }
