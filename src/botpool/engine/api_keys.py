"""API keys: made once, shown once, kept as hashes."""

from collections.abc import Callable

from botpool.domain.errors import NotFound
from botpool.domain.records import ApiKey
from botpool.domain.tokens import hash_api_key, new_api_key, shown_prefix
from botpool.engine.runtime.clock import loop_time
from botpool.store.database import Database

SCOPES = ("user", "operator", "admin")
"""Each includes those before it."""

_TRUSTED_S = 10.0
_REMEMBERED = 1000


class ApiKeys:
    """Finds keys, remembering good ones for ten seconds: a revoked key dies within that time."""

    def __init__(self, database: Database, *, monotonic: Callable[[], float] = loop_time) -> None:
        self._database = database
        self._monotonic = monotonic
        self._known: dict[bytes, tuple[float, ApiKey]] = {}

    async def create(self, name: str, scope: str) -> tuple[ApiKey, str]:
        """A new key, and its text, which is never to be had again."""
        text = new_api_key()
        key = await self.adopt(text, name, scope)
        assert key is not None, "256 random bits do not collide"
        return key, text

    async def adopt(self, text: str, name: str, scope: str) -> ApiKey | None:
        """Take a given text as a key; None when it is one already."""
        row = await self._database.fetch_one(
            "insert_api_key",
            {
                "name": name,
                "scope": scope,
                "prefix": shown_prefix(text),
                "key_hash": hash_api_key(text),
            },
        )
        return ApiKey(**row) if row else None

    async def find(self, text: str) -> ApiKey | None:
        key_hash = hash_api_key(text)
        if (known := self._known.get(key_hash)) and self._monotonic() - known[0] < _TRUSTED_S:
            return known[1]
        row = await self._database.fetch_one("find_api_key", {"key_hash": key_hash})
        if row is None:
            self._known.pop(key_hash, None)
            return None
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        key = ApiKey(**row)
        self._known[key_hash] = (self._monotonic(), key)
        return key

    async def find_by_id(self, key_id: int) -> ApiKey | None:
        """The key behind a session. Not remembered: sessions are few."""
        row = await self._database.fetch_one("find_api_key_by_id", {"key_id": key_id})
        return ApiKey(**row) if row else None

    async def list_all(self) -> list[ApiKey]:
        return [ApiKey(**row) for row in await self._database.fetch("list_api_keys", {})]

    async def revoke(self, key_id: int) -> ApiKey:
        row = await self._database.fetch_one("revoke_api_key", {"key_id": key_id})
        if row is None:
            raise NotFound("API key", key_id)
        self._known.clear()
        return ApiKey(**row)
