"""Wires the process: settings become policy, pools, backends, a replica and its HTTP app."""

import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import structlog
from fastapi import FastAPI

from botpool.api.app import create_app
from botpool.api.connections import ConnectionLimits
from botpool.backends.process import OUR_USER, BotUsers, ProcessBackend, bot_users
from botpool.backends.protocol import Backend, ContainerAdopter, RequestBudget
from botpool.dashboard import static_files
from botpool.domain.communication import WITHOUT_HEARTBEATS
from botpool.domain.errors import SettingError
from botpool.domain.ids import PoolName
from botpool.domain.installation_secret import Purpose, derive_keys
from botpool.domain.limits import EventLimits, Limits, Rate
from botpool.domain.pacing import Pacing
from botpool.domain.policy import Policy
from botpool.domain.records import PoolSpec
from botpool.domain.recovery import RecoveryLimits
from botpool.engine.replica import Identity, Replica
from botpool.engine.runtime.request_budget import SharedRequestBudget
from botpool.settings import CoolifySettings, ProcessSettings, Settings
from botpool.settings.pool_programs import templates_of
from botpool.settings.sections import PacingSettings
from botpool.settings.value_types import parse_toleration
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
        stray_share=settings.recovery.stray_share,
        heartbeat_interval_ms=settings.agent.heartbeat_interval_ms,
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
            warm=warm_of(pool.warm),
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


def backends_of(
    settings: Settings, installed: Installation, database: Database | None
) -> Mapping[str, Backend]:
    """Return each configured backend, also without a pool: slots of a former backend need it.

    Without a database, requests do not count against a budget: the doctor must not write.
    """
    docker, coolify = settings.backends.docker, settings.backends.coolify
    process = settings.backends.process
    users = bot_users_of(settings, installed)
    backends: list[Backend] = [_process_backend(process, installed, users)]
    if docker.host or any(pool.backend == "docker" for pool in settings.pools.values()):
        backends.append(_docker_backend(settings, installed))
    if coolify.url and coolify.token and coolify.project_uuid and coolify.server_uuid:
        backends.append(_coolify_backend(coolify, installed, database))
    kubernetes = settings.backends.kubernetes
    if kubernetes.kubeconfig or any(
        each.backend == "kubernetes" for each in settings.pools.values()
    ):
        backends.append(_kubernetes_backend(settings, installed, database))
    return {backend.name: backend for backend in backends}


def bot_users_of(settings: Settings, installed: Installation) -> BotUsers:
    """Return the users that run local bots. Raises SettingError if they cannot run them."""
    if not _has_process_pools(settings):
        return OUR_USER
    process = settings.backends.process
    return bot_users(
        user=process.user,
        command=process.command,
        folder=installed.data_dir.containers,
        installation_id=installed.installation_id,
    )


def _has_process_pools(settings: Settings) -> bool:
    return any(pool.backend == "process" for pool in settings.pools.values())


def _check_bot_users(settings: Settings, users: BotUsers) -> None:
    """Refuse bots that run as our user with a database by URL, unless they are allowed to."""
    is_allowed = settings.database.embedded or settings.backends.process.allow_shared_user
    if users.problem and not is_allowed:
        raise SettingError(
            "backends.process.allow_shared_user",
            f"is false, but {users.problem} and can read its keys and secrets. "
            "Use another backend, or set it to true if you trust every bot",
        )


def _process_backend(process: ProcessSettings, installed: Installation, users: BotUsers) -> Backend:
    return ProcessBackend(
        installed.data_dir.containers,
        installed.installation_id,
        process.command,
        first_start_s=process.first_start_s,
        start_s=process.start_s,
        users=users,
    )


def _docker_backend(settings: Settings, installed: Installation) -> Backend:
    # Imported here, and Coolify below, so that other installations start without their clients.
    from botpool.backends.docker import DockerBackend, DockerConfig, PoolIsolation

    docker = settings.backends.docker
    return DockerBackend(
        DockerConfig(
            installation_id=installed.installation_id,
            folder=installed.data_dir.root / "docker",
            host=docker.host,
            network=docker.network,
            isolation={
                name: PoolIsolation(capabilities=pool.capabilities, read_only=pool.read_only)
                for name, pool in settings.pools.items()
            },
            log_mb=docker.log_mb,
            tmp_mb=docker.tmp_mb,
            pids_limit=docker.pids_limit,
            shm_mb=docker.shm_mb,
            stop_grace_s=docker.stop_grace_s,
        )
    )


def _coolify_backend(
    coolify: CoolifySettings, installed: Installation, database: Database | None
) -> Backend:
    from botpool.backends.coolify import CoolifyBackend, CoolifyConfig

    assert coolify.url
    assert coolify.token
    assert coolify.project_uuid
    assert coolify.server_uuid
    config = CoolifyConfig(
        url=coolify.url,
        token=coolify.token.get_secret_value(),
        project_uuid=coolify.project_uuid,
        server_uuid=coolify.server_uuid,
        environment_name=coolify.environment_name,
        destination_uuid=coolify.destination_uuid,
        concurrent_deployments=coolify.concurrent_deployments,
        status_lag_s=coolify.status_lag_s,
        installation_id=installed.installation_id,
    )
    budget = _request_budget(CoolifyBackend.name, coolify.requests_per_minute, database)
    return CoolifyBackend(config, budget)


def _kubernetes_backend(
    settings: Settings, installed: Installation, database: Database | None
) -> Backend:
    from botpool.backends.kubernetes import KubernetesBackend, KubernetesConfig, PoolIsolation
    from botpool.backends.kubernetes.pod_template import load

    chosen = settings.backends.kubernetes
    config = KubernetesConfig(
        installation_id=installed.installation_id,
        kubeconfig=chosen.kubeconfig,
        context=chosen.context,
        namespace=chosen.namespace,
        service_account=chosen.service_account,
        node_selector=chosen.node_selector,
        tolerations=[parse_toleration(each) for each in chosen.tolerations],
        image_pull_secrets=chosen.image_pull_secrets,
        priority_class=chosen.priority_class,
        pod_template=load(chosen.pod_template) if chosen.pod_template else {},
        isolation={
            name: PoolIsolation(capabilities=pool.capabilities, read_only=pool.read_only)
            for name, pool in settings.pools.items()
        },
    )
    per_minute = chosen.requests_per_second * 60
    return KubernetesBackend(config, _request_budget(KubernetesBackend.name, per_minute, database))


def _request_budget(
    backend: str, requests_per_minute: int, database: Database | None
) -> RequestBudget:
    if database is None:
        from botpool.engine.maintenance.doctor.backends import UnlimitedBudget

        return UnlimitedBudget()
    return SharedRequestBudget(
        database=database, backend=backend, requests_per_minute=requests_per_minute
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
    _check_bot_users(settings, users)
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
