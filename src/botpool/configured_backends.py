"""Builds the backends of an installation from its settings."""

from collections.abc import Mapping

from botpool.backends.process import OUR_USER, BotUsers, ProcessBackend, bot_users
from botpool.backends.protocol import Backend, RequestBudget
from botpool.domain.errors import SettingError
from botpool.engine.runtime.request_budget import SharedRequestBudget
from botpool.settings import CoolifySettings, ProcessSettings, Settings
from botpool.settings.value_types import parse_toleration
from botpool.store.database import Database
from botpool.store.installation import Installation


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


def check_bot_users(settings: Settings, users: BotUsers) -> None:
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
        concurrent_pulls=chosen.concurrent_pulls,
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
