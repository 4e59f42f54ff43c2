"""The whole examination, in an order in which each part finds what it needs."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field

from botpool.backends.protocol import Backend
from botpool.domain.errors import BotpoolError, DatabaseUnavailable
from botpool.domain.policy import Policy
from botpool.engine.maintenance.doctor import backends, database
from botpool.engine.maintenance.doctor.findings import Check, Finding, Result
from botpool.engine.maintenance.doctor.rules import RULES, examine_rules
from botpool.store.readonly_connection import ReadonlyConnection

CATALOGUE: tuple[Check, ...] = (*database.CHECKS, *RULES, *backends.CHECKS)
"""Every check that there is, as the docs list them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is examined: a database, and the backends that its settings set up."""

    database_url: str = field(repr=False)
    backends: Mapping[str, Backend]
    pool_backends: frozenset[str]
    """Those that a pool of the settings has. Others matter only while they have slots."""
    policy: Policy


async def examine(subject: Subject) -> AsyncGenerator[Finding, None]:
    """Look at everything that can be looked at; change nothing."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            connected = ReadonlyConnection.connected(subject.database_url)
            connection = await stack.enter_async_context(connected)
        except DatabaseUnavailable as error:
            yield database.REACH.wrong(str(error))
        else:
            yield database.REACH.ok()
            async for finding in database.examine_server(connection):
                yield finding
            schema = await database.examine_schema(connection)
            yield schema
            if schema.result is Result.OK:
                async for finding in _examine_contents(subject, connection):
                    yield finding
                return
        for name in sorted(subject.pool_backends & set(subject.backends)):
            yield await backends.examine_reach(name, subject.backends[name])


async def _examine_contents(
    subject: Subject, connection: ReadonlyConnection
) -> AsyncIterator[Finding]:
    async for finding in database.examine_activity(connection):
        yield finding
    async for finding in examine_rules(
        connection, policy=subject.policy, backends=sorted(subject.backends)
    ):
        yield finding
    try:
        wanted = subject.pool_backends | await backends.used_backends(connection)
        paused = await backends.paused_backends(connection)
    except BotpoolError as error:
        yield backends.REACH.not_examined(error)
        return
    for name in sorted(wanted & set(subject.backends)):
        backend = subject.backends[name]
        if name in paused:
            yield backends.REACH.warning(
                f"{name}: its backend asked to be left alone for {paused[name]:.0f} s more"
            )
            continue
        reach = await backends.examine_reach(name, backend)
        yield reach
        if reach.result is Result.OK:
            async for finding in backends.examine_containers(connection, name, backend):
                yield finding
