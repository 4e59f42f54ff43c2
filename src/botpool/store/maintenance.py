"""Statements of cleanup, retention and vacuum, and the list of applied migrations."""

from collections.abc import Sequence
from dataclasses import dataclass

from botpool.domain.ids import BotId, ContainerId
from botpool.store.statement import Statement, column, no_rows, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """Live and dead rows of the tables that every step of a slot writes."""

    live: int
    dead: int


def list_migrations() -> Statement[list[str]]:
    """Read the names of the applied migrations, as one list."""
    return Statement("list_migrations", {}, column("migrations", list))


def record_strays(
    *, backend: str, container_ids: Sequence[ContainerId], names: Sequence[str], age_s: float
) -> Statement[ContainerId]:
    """Record a backend's stray containers; the result are those older than `age_s`."""
    return Statement(
        "record_strays",
        {
            "backend": backend,
            "container_ids": list(container_ids),
            "names": list(names),
            "age_s": age_s,
        },
        column("container_id", ContainerId),
    )


def prune_history(*, days: int, limit: int) -> Statement[None]:
    """Delete a batch of old history; one row per deleted row."""
    return Statement("prune_history", {"days": days, "limit": limit}, no_rows)


def prune_idempotency_keys(*, days: int, limit: int) -> Statement[None]:
    """Delete a batch of expired idempotency keys; one row per deleted key."""
    return Statement("prune_idempotency_keys", {"days": days, "limit": limit}, no_rows)


def prune_bots(*, days: int, limit: int) -> Statement[BotId]:
    """Delete the assignments and heartbeats of a batch of old bots; the result are the bots."""
    return Statement("prune_bots", {"days": days, "limit": limit}, column("id", BotId))


def delete_bots(*, bot_ids: Sequence[BotId]) -> Statement[None]:
    """Delete bots that have no assignments."""
    return Statement("delete_bots", {"bot_ids": list(bot_ids)}, no_rows)


def renumber_restored_history(*, limit: int) -> Statement[None]:
    """Renumber a batch of history from another server; one row per renumbered row."""
    return Statement("renumber_restored_history", {"limit": limit}, no_rows)


def count_dead_rows() -> Statement[RowCounts]:
    """Count live and dead rows of slots and queue."""
    return Statement("count_dead_rows", {}, record_of(RowCounts))


def vacuum_tables() -> Statement[None]:
    """Vacuum slots and queue."""
    return Statement("vacuum_tables", {}, no_rows)
