"""The database itself: reached, current, safe, roomy, in time, and heard by every replica."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botpool.domain.errors import BotpoolError, SchemaMismatch
from botpool.engine.maintenance.doctor.findings import Check, Finding
from botpool.store.migrations import check_schema
from botpool.store.readonly_connection import ReadonlyConnection

_OLDEST = 140_000
_SKEW_S = 5.0
_HEARD_WITHIN_S = 1.0
_CONNECTIONS_OF_A_REPLICA = 17  # its pool, and the one that listens
_LONGEST_TRANSACTION_MS = 30_000

REACH = Check(
    name="database",
    meaning="the database answers",
    remedy="Start it, or correct database.url; then examine again: most was not looked at.",
)
VERSION = Check(
    name="database_version",
    meaning="PostgreSQL 14 or later, and not a standby",
    remedy="Upgrade PostgreSQL to 14 or later; database.url must name the primary.",
)
SCHEMA = Check(
    name="schema",
    meaning="the schema is the one that this version knows",
    remedy="Run 'botpool migrate' with the version that serves; then examine again: what must "
    "always hold was not looked at.",
)
DURABILITY = Check(
    name="durability",
    meaning="a commit survives a power cut (fsync, full_page_writes, synchronous_commit)",
    remedy="Turn these settings on: bots that were accepted may be lost.",
)
AUTOVACUUM = Check(
    name="autovacuum",
    meaning="dead rows are removed",
    remedy="Turn autovacuum on: slots and heartbeats are updated all the time.",
)
CONNECTIONS = Check(
    name="connections",
    meaning="there is room for the 17 connections of one more replica",
    remedy="Raise max_connections, or end what else is connected.",
)
TIMEOUTS = Check(
    name="timeouts",
    meaning="the server does not end our idle connections, nor transactions of 30 s",
    remedy="Turn idle_session_timeout and transaction_timeout off for Botpool's user "
    "(ALTER ROLE … SET).",
)
CLOCK = Check(
    name="clock",
    meaning="the database's clock and this machine's differ by less than 5 s",
    remedy="Synchronise both by NTP. The database's clock decides; logs and tokens show ours.",
)
LISTEN = Check(
    name="listen",
    meaning="a NOTIFY on one connection is heard on another within a second",
    remedy="Connect past the pooler, or use its session mode. Until then replicas poll.",
)
SIZE = Check(
    name="size",
    meaning="for information: the database's size, dead rows of its busiest tables",
    remedy="Nothing.",
)
REPLICAS = Check(
    name="replicas",
    meaning="at least one replica is connected",
    remedy="Start one: 'botpool serve', or 'botpool up'.",
)

CHECKS = (
    REACH,
    VERSION,
    SCHEMA,
    DURABILITY,
    AUTOVACUUM,
    CONNECTIONS,
    TIMEOUTS,
    CLOCK,
    LISTEN,
    SIZE,
    REPLICAS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The answer of `read_server_facts`."""

    version: str
    version_number: int
    is_standby: bool
    is_read_only: bool
    fsync: bool
    full_page_writes: bool
    synchronous_commit: bool
    autovacuum: bool
    max_connections: int
    reserved_connections: int
    used_connections: int
    idle_session_timeout_ms: int | None
    transaction_timeout_ms: int | None
    clock: datetime


def judge_server(facts: ServerFacts, *, asked_at: datetime, answered_at: datetime) -> list[Finding]:
    """What the server's own words mean. Its clock was read somewhere between the two times."""
    return [
        _version(facts),
        _durability(facts),
        AUTOVACUUM.ok() if facts.autovacuum else AUTOVACUUM.warning("autovacuum is off"),
        _connections(facts),
        _timeouts(facts),
        _clock(facts.clock, asked_at, answered_at),
    ]


def _version(facts: ServerFacts) -> Finding:
    found = f"PostgreSQL {facts.version}"
    if facts.is_standby or facts.is_read_only:
        return VERSION.wrong(f"{found}, which takes no writes")
    return VERSION.ok(found) if facts.version_number >= _OLDEST else VERSION.wrong(found)


def _durability(facts: ServerFacts) -> Finding:
    names = ("fsync", "full_page_writes", "synchronous_commit")
    off = [name for name in names if not getattr(facts, name)]
    return DURABILITY.warning(f"off: {', '.join(off)}") if off else DURABILITY.ok()


def _connections(facts: ServerFacts) -> Finding:
    free = facts.max_connections - facts.reserved_connections - facts.used_connections
    found = f"{facts.used_connections} of {facts.max_connections} in use"
    return (
        CONNECTIONS.ok(found) if free >= _CONNECTIONS_OF_A_REPLICA else CONNECTIONS.warning(found)
    )


def _timeouts(facts: ServerFacts) -> Finding:
    found = []
    if facts.idle_session_timeout_ms:
        found.append(f"idle_session_timeout is {facts.idle_session_timeout_ms} ms")
    if 0 < (facts.transaction_timeout_ms or 0) < _LONGEST_TRANSACTION_MS:
        found.append(f"transaction_timeout is {facts.transaction_timeout_ms} ms")
    return TIMEOUTS.warning(", ".join(found)) if found else TIMEOUTS.ok()


def _clock(theirs: datetime, asked_at: datetime, answered_at: datetime) -> Finding:
    """A slow answer is no skew: only what lies outside of the question counts."""
    ahead_s = (theirs - answered_at).total_seconds()
    behind_s = (asked_at - theirs).total_seconds()
    skew_s = max(ahead_s, behind_s, 0.0)
    found = f"{skew_s:.1f} s apart"
    if skew_s <= _SKEW_S:
        return CLOCK.ok(found)
    return CLOCK.warning(f"{found}: the database's is {'ahead' if ahead_s > 0 else 'behind'}")


def judge_replicas(row: Mapping[str, Any]) -> Finding:
    connected, at_work = row["connected"], row["at_work"]
    if not connected:
        return REPLICAS.warning("none is connected")
    found = f"connections from {', '.join(connected)}"
    return REPLICAS.ok(f"{found}; leases of {', '.join(at_work)}" if at_work else found)


async def examine_server(
    connection: ReadonlyConnection, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> AsyncIterator[Finding]:
    """What can be asked whatever the schema is."""
    try:
        await connection.fetch("read_server_facts", {})  # once before: the clock is read when warm
        asked_at = now()
        (row,) = await connection.fetch("read_server_facts", {})
        for finding in judge_server(ServerFacts(**row), asked_at=asked_at, answered_at=now()):
            yield finding
    except BotpoolError as error:
        yield VERSION.not_examined(error)
    try:
        heard = await connection.hears_notices(within_s=_HEARD_WITHIN_S)
        yield LISTEN.ok() if heard else LISTEN.warning("nothing was heard within a second")
    except BotpoolError as error:
        yield LISTEN.not_examined(error)


async def examine_schema(connection: ReadonlyConnection) -> Finding:
    try:
        applied = await connection.applied_migrations()
        check_schema(applied)
    except SchemaMismatch as error:
        return SCHEMA.wrong(str(error))
    except BotpoolError as error:
        return SCHEMA.not_examined(error)
    return SCHEMA.ok(f"up to {max(applied or ['nothing'])}")


async def examine_activity(connection: ReadonlyConnection) -> AsyncIterator[Finding]:
    """How large it has become, and who works on it. Needs our tables."""
    try:
        (measured,) = await connection.fetch("measure_tables", {})
        yield SIZE.ok(f"{measured['size']}; dead rows: {', '.join(measured['dead_rows'])}")
    except BotpoolError as error:
        yield SIZE.not_examined(error)
    try:
        (row,) = await connection.fetch("list_replicas", {})
        yield judge_replicas(row)
    except BotpoolError as error:
        yield REPLICAS.not_examined(error)
