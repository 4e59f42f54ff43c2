"""Wires the process: settings become policy, pools, backends, a replica and its HTTP app."""

import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import structlog
from fastapi import FastAPI

from botpool.api.app import create_app
from botpool.api.connections import ConnectionLimits
from botpool.backends.protocol import ContainerAdopter
from botpool.configured_backends import backends_of, bot_users_of, check_bot_users
from botpool.dashboard import static_files
from botpool.domain.communication import WITHOUT_HEARTBEATS
from botpool.domain.errors import SettingError
from botpool.domain.ids import PoolName
from botpool.domain.installation_secret import Purpose, derive_keys
from botpool.domain.limits import EventLimits, Limits, Rate
from botpool.domain.pacing import Pacing
from botpool.domain.policy import Policy
from botpool.domain.pools import PoolSpec
from botpool.domain.recovery import RecoveryLimits
from botpool.engine.replica import Identity, Replica
from botpool.engine.tracing.running import written_traces
from botpool.settings import Settings
from botpool.settings.pool_programs import templates_of
from botpool.settings.sections import PacingSettings
from botpool.settings.warm import warm_of
from botpool.store.database import Database
from botpool.store.installation import Installation
from botpool.store.migrations import check_schema

if TYPE_CHECKING:
    from botpool.engine.maintenance.doctor import Target
    from botpool.engine.operations.meeboter_import import MeeboterImport

_log = structlog.get_logger()


def policy_of(settings: Settings) -> Policy:
    """Return the engine's times and limits."""
    return Policy(
        queue_poll_s=settings.queue.poll_interval_ms / 1000,
        deploy_timeout_s=settings.deploy.timeout_s,
        deploy_grace_s=settings.deploy.grace_s,
        deploy_wait_timeout_s=settings.deploy.wait_timeout_s,
        deploy_attempts=settings.deploy.attempts,
        infrastructure_retries=settings.deploy.infrastructure_retries,
        image_known_s=settings.deploy.image_known_s,
        observe_interval_s=settings.deploy.poll_interval_s,
        recovery_interval_s=settings.recovery.interval_s,
        recovery=RecoveryLimits(
            deploying_timeout_s=settings.recovery.deploying_timeout_s,
            heartbeat_freshness_s=settings.recovery.heartbeat_freshness_s,
            max_skipped=settings.recovery.max_skipped,
            deploy_timeout_s=settings.deploy.timeout_s,
            max_resets=settings.recovery.max_attempts,
        ),
        limits=limits_of(settings),
        max_duration_s=settings.bots.max_duration_s,
        leave_grace_s=settings.agent.leave_grace_s,
        idempotency_days=settings.retention.idempotency_days,
        bots_days=settings.retention.bots_days,
        history_days=settings.retention.history_days,
        audit_days=settings.retention.audit_days,
        webhook_days=settings.retention.webhook_days,
        allow_private_webhooks=settings.webhooks.allow_private_addresses,
        traces=settings.tracing.endpoint is not None,
        stray_share=settings.recovery.stray_share,
        heartbeat_interval_ms=settings.agent.heartbeat_interval_ms,
        self_fence_s=settings.agent.self_fence_s,
    )


def limits_of(settings: Settings) -> Limits:
    """Return the limits for callers and agents."""
    chosen = settings.limits
    return Limits(
        requests=Rate(
            limit="limits.requests_per_minute",
            per_minute=chosen.requests_per_minute,
            burst=chosen.requests_burst,
        ),
        posts=Rate(
            limit="limits.posts_per_minute",
            per_minute=chosen.posts_per_minute,
            burst=chosen.posts_burst,
        ),
        events=EventLimits(
            count=chosen.events_per_assignment,
            bytes=chosen.event_bytes_per_assignment,
            per_minute=chosen.events_per_minute,
            burst=chosen.events_burst,
        ),
        queue_length=settings.queue.max_length,
    )


def pools_of(settings: Settings) -> list[PoolSpec]:
    """Return the settings of each pool."""
    return [
        PoolSpec(
            pool_name=PoolName(name),
            backend=pool.backend,
            image=pool.image,
            max_size=pool.max_size,
            heartbeats="none" if pool.protocol in WITHOUT_HEARTBEATS else pool.heartbeats,
            cpus=pool.cpus,
            memory_mb=pool.memory_mb,
            stalled_after_s=pool.stalled_after_s,
            reservable=pool.schedule.reservable,
            hold_s=pool.schedule.hold_s,
            pacing=_pacing_of(name, pool.pacing),
            outcome=pool.outcome,
            leave=pool.leave,
            finish_timeout_s=pool.finish_timeout_s,
            stop_grace_s=pool.stop_grace_s,
            warm=warm_of(pool),
        )
        for name, pool in settings.pools.items()
    ]


def _pacing_of(pool_name: str, pacing: PacingSettings) -> Pacing | None:
    """Return the pace of a pool; None without one."""
    if not pacing.per_minute:
        return None
    return Pacing(
        egress=pacing.egress or pool_name,
        per_minute=pacing.per_minute,
        burst=pacing.burst,
        pause_after_blocks=pacing.pause_after_blocks,
        pause_s=pacing.pause_s,
        recover_s=pacing.recover_s,
    )


@asynccontextmanager
async def doctor_target(settings: Settings, installed: Installation) -> AsyncIterator["Target"]:
    """Yield the installation that `botpool doctor` checks, with backends that are not opened."""
    from botpool.engine.maintenance.doctor import Target

    backends = backends_of(settings, installed, None)
    try:
        yield Target(
            database_url=installed.database_url,
            backends=backends,
            pool_backends=frozenset(pool.backend for pool in settings.pools.values()),
            policy=policy_of(settings),
        )
    finally:
        for backend in backends.values():
            await backend.close()


@asynccontextmanager
async def meeboter_import(
    settings: Settings,
    installed: Installation,
    *,
    meeboter_url: str,
    with_coolify: bool,
    apply: bool,
) -> AsyncIterator["MeeboterImport"]:
    """Yield the import from Meeboter's database. The replica behind it runs no loops."""
    from botpool.engine.operations.meeboter_import import MeeboterImport
    from botpool.store.meeboter import MeeboterDatabase

    database = Database(
        installed.database_url, statement_timeout_s=settings.database.statement_timeout_s
    )
    backends = backends_of(settings, installed, database)
    coolify = backends.get("coolify")
    if with_coolify and coolify is None:
        raise SettingError("backends.coolify.url", "--coolify needs the settings of Coolify")
    async with contextlib.AsyncExitStack() as stack:
        await database.open()
        stack.push_async_callback(database.close)
        check_schema(await database.applied_migrations())
        for backend in backends.values():
            stack.push_async_callback(backend.close)
        meeboter = await stack.enter_async_context(MeeboterDatabase.connected(meeboter_url))
        replica = Replica(database, backends, policy_of(settings), _identity(installed, ""))
        if apply:
            await replica.pools.configure(pools_of(settings))
        yield MeeboterImport(
            meeboter=meeboter,
            database=database,
            admission=replica.admission,
            adopter=coolify if with_coolify and isinstance(coolify, ContainerAdopter) else None,
            image_host=coolify.image_host if coolify is not None else "",
            pools={spec.pool_name: spec.image for spec in pools_of(settings)},
            slot_pools=frozenset(
                spec.pool_name for spec in pools_of(settings) if spec.backend == "coolify"
            ),
            max_queue_timeout_ms=settings.queue.max_timeout_ms,
        )


def _identity(installed: Installation, public_url: str) -> Identity:
    return Identity(
        owner=f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}",
        public_url=public_url,
        agent_keys=derive_keys(installed.secrets, Purpose.AGENTS),
        webhook_keys=derive_keys(installed.secrets, Purpose.WEBHOOKS),
        standby_keys=derive_keys(installed.secrets, Purpose.STANDBYS),
    )


@asynccontextmanager
async def running_replica(
    settings: Settings, installed: Installation, *, public_url: str
) -> AsyncIterator[Replica]:
    """Check the schema, run a replica, and return its leases at the end."""
    database = Database(
        installed.database_url, statement_timeout_s=settings.database.statement_timeout_s
    )
    templates = templates_of(settings.pools)
    users = bot_users_of(settings, installed)
    check_bot_users(settings, users)
    backends = backends_of(settings, installed, database)
    async with contextlib.AsyncExitStack() as stack:
        await database.open()
        stack.push_async_callback(database.close)
        check_schema(await database.applied_migrations())
        if users.problem:
            _log.warning("process.shared_user", problem=users.problem)
        for backend in backends.values():
            await backend.open()
            stack.push_async_callback(backend.close)
        identity = _identity(installed, public_url)
        replica = Replica(database, backends, policy_of(settings), identity, templates)
        await replica.pools.configure(pools_of(settings))
        await replica.webhooks.reseal()
        # The lock of the data directory makes this process the only one at an embedded database.
        await replica.start(alone=settings.database.embedded)
        stack.push_async_callback(replica.stop)
        if settings.tracing.endpoint is not None:
            await stack.enter_async_context(
                written_traces(
                    settings.tracing.endpoint, database, replica.metrics, owner=identity.owner
                )
            )
        yield replica


def http_app(replica: Replica, settings: Settings, limits: ConnectionLimits) -> FastAPI:
    """Return the HTTP application: the API and the dashboard."""
    app = create_app(replica, settings, limits)
    static_files.add_routes(app)
    return app


def public_url_of(settings: Settings, listener: socket.socket) -> str:
    """Return the address that containers call: the setting, else the listener's address."""
    if settings.server.public_url is not None:
        return settings.server.public_url
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
