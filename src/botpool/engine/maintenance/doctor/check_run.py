"""Runs all checks of the doctor, in the order of their dependencies."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field

from botpool.backends.protocol import Backend
from botpool.domain.errors import BotpoolError, DatabaseUnavailable
from botpool.domain.policy import Policy
from botpool.engine.maintenance.doctor import backends, database, incidents, listeners
from botpool.engine.maintenance.doctor.findings import Check, Finding, Result
from botpool.engine.maintenance.doctor.invariants import INVARIANTS, check_invariants
from botpool.store.readonly_connection import ReadonlyConnection

ALL_CHECKS: tuple[Check, ...] = (
    *database.CHECKS,
    *incidents.CHECKS,
    *listeners.CHECKS,
    *INVARIANTS,
    *backends.CHECKS,
)
"""Every check, in the order of the docs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The installation to check: a database and the configured backends."""

    database_url: str = field(repr=False)
    backends: Mapping[str, Backend]
    pool_backends: frozenset[str]
    """Backends of the configured pools. Other backends matter only while they have slots."""
    policy: Policy


async def run_checks(target: Target) -> AsyncGenerator[Finding, None]:
    """Run every check that can run, and yield the findings. Nothing is changed."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            connecting = ReadonlyConnection.connected(target.database_url)
            connection = await stack.enter_async_context(connecting)
        except DatabaseUnavailable as error:
            yield database.REACHABLE.wrong(str(error))
        else:
            yield database.REACHABLE.ok()
            async for finding in database.check_server(connection):
                yield finding
            schema = await database.check_schema_version(connection)
            yield schema
            if schema.result is Result.OK:
                async for finding in _check_contents(target, connection):
                    yield finding
                return
        for name in sorted(target.pool_backends & set(target.backends)):
            async for finding in backends.check_health(name, target.backends[name]):
                yield finding


async def _check_contents(target: Target, connection: ReadonlyConnection) -> AsyncIterator[Finding]:
    """Check the rows of a known schema, and the backends that have slots."""
    async for finding in database.check_activity(connection):
        yield finding
    async for finding in incidents.check_incidents(connection):
        yield finding
    async for finding in listeners.check_listeners(connection):
        yield finding
    async for finding in check_invariants(
        connection, policy=target.policy, backends=sorted(target.backends)
    ):
        yield finding
    try:
        wanted = target.pool_backends | await backends.used_backends(connection)
        paused = await backends.paused_backends(connection)
    except BotpoolError as error:
        yield backends.HEALTHY.not_checked(error)
        return
    for name in sorted(wanted & set(target.backends)):
        if name in paused:
            yield backends.HEALTHY.warning(
                f"{name}: the backend asked for a pause of {paused[name]:.0f} s more"
            )
            continue
        async for finding in _check_backend(connection, name, target.backends[name]):
            yield finding


async def _check_backend(
    connection: ReadonlyConnection, name: str, backend: Backend
) -> AsyncIterator[Finding]:
    is_healthy = True
    async for finding in backends.check_health(name, backend):
        is_healthy = is_healthy and finding.result is not Result.WRONG
        yield finding
    if is_healthy:
        async for finding in backends.check_containers(connection, name, backend):
            yield finding
