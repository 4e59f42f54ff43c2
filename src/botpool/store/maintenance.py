"""Statements of cleanup, retention and vacuum, and the list of applied migrations."""

from collections.abc import Sequence
from dataclasses import dataclass

from botpool.domain.ids import BotId, ContainerId
from botpool.domain.slots import Stray
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """Live and dead rows of the tables that every step of a slot writes."""

    live: int
    dead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedMigration:
    """A migration of the database's schema."""

    name: str
    compatible_with: str | None
    """The oldest migration whose versions can serve the schema; None if no older version can."""


@query
def list_migrations() -> list[AppliedMigration]:
    """List the applied migrations in order."""


@query
def record_strays(
    *, backend: str, container_ids: Sequence[ContainerId], names: Sequence[str], age_s: float
) -> list[Stray]:
    """Record a backend's stray containers; the result are those older than `age_s`."""


@query
def prune_history(*, days: int, limit: int) -> list[int]:
    """Delete a batch of old history; one row per deleted row."""


@query
def prune_idempotency_keys(*, days: int, limit: int) -> list[str]:
    """Delete a batch of expired idempotency keys; one row per deleted key."""


@query
def prune_bots(*, days: int, limit: int) -> list[BotId]:
    """Delete the assignments and heartbeats of a batch of old bots; the result are the bots."""


@query
def delete_bots(*, bot_ids: Sequence[BotId]) -> list[BotId]:
    """Delete bots that have no assignments."""


@query
def renumber_restored_history(*, limit: int) -> list[int]:
    """Renumber a batch of history from another server; one row per renumbered row."""


@query
def count_dead_rows() -> RowCounts:
    """Count live and dead rows of slots and queue."""


@query
def vacuum_tables() -> None:
    """Vacuum slots and queue."""
