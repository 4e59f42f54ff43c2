"""Checks of the database: connection, version, settings, clock, schema, size and replicas."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

from botpool.domain.errors import BotpoolError, SchemaMismatch
from botpool.engine.maintenance.doctor.findings import Check, Finding
from botpool.store import doctor
from botpool.store.doctor import ConnectedReplicas, ServerFacts
from botpool.store.liveness import list_live_replicas
from botpool.store.migrations import check_schema
from botpool.store.readonly_connection import ReadonlyConnection

_OLDEST_VERSION = 140_000
_MAX_SKEW_S = 5.0
_NOTIFY_TIMEOUT_S = 1.0
_CONNECTIONS_OF_A_REPLICA = 17  # its pool, and the connection that listens
_LONGEST_TRANSACTION_MS = 30_000
_LONG_TRANSACTION_S = 60.0
_LIVE_S = 60.0

REACHABLE = Check(
    name="database",
    meaning="the database answers",
    remedy="Start the database, or correct database.url; then run the doctor again, because most "
    "checks need the database.",
)
VERSION = Check(
    name="database_version",
    meaning="PostgreSQL 14 or later, and not a standby",
    remedy="Upgrade PostgreSQL to 14 or later; database.url must name the primary.",
)
SCHEMA = Check(
    name="schema",
    meaning="the schema is the one that this version knows",
    remedy="Run 'botpool migrate' with the version that serves; then run the doctor again, because "
    "the invariants were not checked.",
)
DURABILITY = Check(
    name="durability",
    meaning="a commit survives a power cut (fsync, full_page_writes, synchronous_commit)",
    remedy="Turn these settings on: without them a crash may lose accepted bots.",
)
AUTOVACUUM = Check(
    name="autovacuum",
    meaning="autovacuum is on",
    remedy="Turn autovacuum on: updates of slots and heartbeats leave many dead rows.",
)
CONNECTIONS = Check(
    name="connections",
    meaning="there is room for the 17 connections of one more replica",
    remedy="Raise max_connections, or close connections of other programs.",
)
TIMEOUTS = Check(
    name="timeouts",
    meaning="the server ends neither idle connections nor transactions of up to 30 s",
    remedy="Turn idle_session_timeout and transaction_timeout off for Botpool's user "
    "(ALTER ROLE … SET).",
)
CLOCK = Check(
    name="clock",
    meaning="the database's clock and this machine's differ by less than 5 s",
    remedy="Synchronise both with NTP. Botpool decides by the database's clock; logs show this "
    "machine's.",
)
LISTEN = Check(
    name="listen",
    meaning="a NOTIFY on one connection reaches another within a second",
    remedy="Bypass the connection pooler, or use its session mode. Until then replicas poll.",
)
SIZE = Check(
    name="size",
    meaning="for information: the size of the database and the dead rows of its busiest tables",
    remedy="Nothing.",
)
REPLICAS = Check(
    name="replicas",
    meaning="at least one replica is connected",
    remedy="Start a replica: 'botpool serve' or 'botpool up'.",
)
TRANSACTIONS = Check(
    name="open_transactions",
    meaning="no transaction has been open for more than a minute, in any database of the server",
    remedy="End it, if it is forgotten: pg_terminate_backend(<pid>), ROLLBACK PREPARED, "
    "pg_drop_replication_slot. Until then dead rows stay, and a transaction that has written holds "
    "back the stream of changes.",
)
PUBLIC_URL = Check(
    name="public_url",
    meaning="all replicas hand out the same address to containers",
    remedy="Set server.public_url of all replicas to one address that reaches all of them, such as "
    "the load balancer's: a container whose replica is down could not call any other.",
)

CHECKS = (
    REACHABLE,
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
    TRANSACTIONS,
    PUBLIC_URL,
)


def server_findings(
    facts: ServerFacts, *, asked_at: datetime, answered_at: datetime
) -> list[Finding]:
    """Evaluate the facts about a server, whose clock was read between the two times."""
    return [
        _check_version(facts),
        _durability(facts),
        AUTOVACUUM.ok() if facts.autovacuum else AUTOVACUUM.warning("autovacuum is off"),
        _connections(facts),
        _timeouts(facts),
        _check_clock(facts.clock, asked_at, answered_at),
    ]


def _check_version(facts: ServerFacts) -> Finding:
    found = f"PostgreSQL {facts.version}"
    if facts.is_standby or facts.is_read_only:
        return VERSION.wrong(f"{found}, which accepts no writes")
    return VERSION.ok(found) if facts.version_number >= _OLDEST_VERSION else VERSION.wrong(found)


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


def _check_clock(database_time: datetime, asked_at: datetime, answered_at: datetime) -> Finding:
    """Report skew only outside of the time of the query, because a slow answer is no skew."""
    ahead_s = (database_time - answered_at).total_seconds()
    behind_s = (asked_at - database_time).total_seconds()
    skew_s = max(ahead_s, behind_s, 0.0)
    found = f"{skew_s:.1f} s apart"
    if skew_s <= _MAX_SKEW_S:
        return CLOCK.ok(found)
    direction = "ahead" if ahead_s > 0 else "behind"
    return CLOCK.warning(f"{found}: the database's clock is {direction}")


def replicas_finding(replicas: ConnectedReplicas) -> Finding:
    """Evaluate which replicas are connected and hold leases."""
    if not replicas.connected:
        return REPLICAS.warning("no replica is connected")
    found = f"connections from {', '.join(replicas.connected)}"
    owners = replicas.lease_owners
    return REPLICAS.ok(f"{found}; leases of {', '.join(owners)}" if owners else found)


async def check_server(
    connection: ReadonlyConnection, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> AsyncIterator[Finding]:
    """Run the checks that need no schema."""
    try:
        # The first query warms up the connection, so that the second measures the clock closely.
        await doctor.read_server_facts(connection)
        asked_at = now()
        facts = await doctor.read_server_facts(connection)
        for finding in server_findings(facts, asked_at=asked_at, answered_at=now()):
            yield finding
    except BotpoolError as error:
        yield VERSION.not_checked(error)
    try:
        received = await connection.receives_notifications(within_s=_NOTIFY_TIMEOUT_S)
        yield LISTEN.ok() if received else LISTEN.warning("no notification arrived in a second")
    except BotpoolError as error:
        yield LISTEN.not_checked(error)


async def check_schema_version(connection: ReadonlyConnection) -> Finding:
    """Check that this version of Botpool knows the schema."""
    try:
        applied = await connection.applied_migrations()
        check_schema(applied)
    except SchemaMismatch as error:
        return SCHEMA.wrong(str(error))
    except BotpoolError as error:
        return SCHEMA.not_checked(error)
    return SCHEMA.ok(f"up to {max(migration.name for migration in applied or ())}")


async def check_activity(connection: ReadonlyConnection) -> AsyncIterator[Finding]:
    """Report the size of the database and the replicas that use it."""
    try:
        tables = await doctor.measure_tables(connection)
        yield SIZE.ok(f"{tables.size}; dead rows: {', '.join(tables.dead_rows)}")
    except BotpoolError as error:
        yield SIZE.not_checked(error)
    try:
        replicas = await doctor.list_replicas(connection)
        yield replicas_finding(replicas)
    except BotpoolError as error:
        yield REPLICAS.not_checked(error)
    try:
        yield await _check_transactions(connection)
    except BotpoolError as error:
        yield TRANSACTIONS.not_checked(error)
    try:
        live = await list_live_replicas(connection, within_s=_LIVE_S)
        addresses = sorted({each.public_url for each in live})
        found = ", ".join(addresses)
        yield PUBLIC_URL.warning(found) if len(addresses) > 1 else PUBLIC_URL.ok(found)
    except BotpoolError as error:
        yield PUBLIC_URL.not_checked(error)


async def _check_transactions(connection: ReadonlyConnection) -> Finding:
    found = await doctor.list_open_transactions(connection, longer_than_s=_LONG_TRANSACTION_S)
    return TRANSACTIONS.warning("; ".join(map(str, found))) if found else TRANSACTIONS.ok()
