"""Records as the API shows them."""

from typing import Any

from botpool.emulators.coolify.records import Application, Deployment, Variable, timestamp
from botpool.emulators.coolify.world import World

_SETTINGS = (
    "is_consistent_container_name_enabled",
    "is_force_https_enabled",
    "is_preview_deployments_enabled",
    "is_log_drain_enabled",
    "is_gpu_enabled",
    "stop_grace_period",
)
_DEFAULTS: dict[str, Any] = {
    "base_directory": "/",
    "custom_labels": None,
    "git_branch": "main",
    "git_commit_sha": "HEAD",
    "git_repository": "coollabsio/coolify",
    "health_check_enabled": False,
    "health_check_host": "localhost",
    "health_check_interval": 5,
    "health_check_method": "GET",
    "health_check_path": "/",
    "health_check_port": None,
    "health_check_retries": 10,
    "health_check_return_code": 200,
    "health_check_scheme": "http",
    "health_check_start_period": 5,
    "health_check_timeout": 5,
    "limits_cpu_shares": 1024,
    "limits_cpus": "0",
    "limits_cpuset": None,
    "limits_memory": "0",
    "limits_memory_reservation": "0",
    "limits_memory_swap": "0",
    "limits_memory_swappiness": 60,
    "ports_exposes": "80",
    "ports_mappings": None,
    "redirect": "both",
}


def application(world: World, shown: Application) -> dict[str, Any]:
    settings = shown.settings
    return {
        "id": shown.id,
        "uuid": shown.uuid,
        "name": shown.name,
        "description": shown.description,
        "fqdn": shown.fqdn,
        "build_pack": "dockerimage",
        "docker_registry_image_name": shown.image,
        "docker_registry_image_tag": shown.tag,
        "status": world.fleet.told(shown),
        "server_status": world.server_reachable,
        "destination_id": 1,
        "destination_type": "App\\Models\\StandaloneDocker",
        "environment_id": 1,
        "config_hash": "",
        **{name: settings.get(name, default) for name, default in _DEFAULTS.items()},
        "settings": {name: settings[name] for name in _SETTINGS if name in settings},
        "deleted_at": None,
        "created_at": timestamp(shown.created_at),
        "updated_at": timestamp(shown.updated_at),
    }


def deployment(world: World, shown: Deployment) -> dict[str, Any]:
    owner = shown.application
    return {
        "id": shown.id,
        "application_id": str(owner.id),
        "application_name": owner.name,
        "deployment_uuid": shown.uuid,
        "pull_request_id": 0,
        "docker_registry_image_tag": None,
        "force_rebuild": shown.force_rebuild,
        "commit": "HEAD",
        "status": shown.status.value,
        "is_webhook": False,
        "is_api": True,
        "restart_only": shown.restart_only,
        "server_id": 1,
        "server_name": world.nature.server,
        "destination_id": "1",
        "deployment_url": f"/project/{world.nature.project}/application/{owner.uuid}"
        f"/deployment/{shown.uuid}",
        "only_this_server": False,
        "rollback": False,
        "created_at": timestamp(shown.created_at),
        "updated_at": timestamp(shown.updated_at),
    }


def variable(world: World, owner: Application, shown: Variable) -> dict[str, Any]:
    return {
        "id": shown.id,
        "uuid": shown.uuid,
        "key": shown.key,
        **({} if world.faults.lasting("hideSensitive") else _values(shown)),
        "resourceable_type": "App\\Models\\Application",
        "resourceable_id": owner.id,
        "is_preview": shown.is_preview,
        "is_literal": shown.is_literal,
        "is_multiline": shown.is_multiline,
        "is_shown_once": shown.is_shown_once,
        "is_runtime": True,
        "is_buildtime": True,
        "is_shared": False,
        "comment": None,
        "version": "4.0.0",
        "created_at": timestamp(shown.created_at),
        "updated_at": timestamp(shown.updated_at),
    }


def _values(shown: Variable) -> dict[str, str]:
    value = shown.value or ""
    quoted = shown.is_literal or shown.is_multiline
    return {"value": value, "real_value": f"'{value}'" if quoted else value}


def server(world: World) -> dict[str, Any]:
    nature, reachable = world.nature, world.server_reachable
    return {
        "id": 1,
        "uuid": nature.server,
        "name": nature.server,
        "ip": "127.0.0.1",
        "user": "root",
        "port": 22,
        "settings": {
            "id": 1,
            "server_id": 1,
            "concurrent_builds": nature.concurrent_builds,
            "deployment_queue_limit": nature.queue_limit,
            "is_reachable": reachable,
            "is_usable": reachable,
            "created_at": timestamp(0),
            "updated_at": timestamp(0),
        },
    }


def project(world: World) -> dict[str, Any]:
    uuid = world.nature.project
    return {"id": 1, "uuid": uuid, "name": uuid, "description": "Emulated by Botpool"}


def environment(world: World) -> dict[str, Any]:
    """Its uuid is its name: no other is needed here."""
    name = world.nature.environment
    return {
        "id": 1,
        "uuid": name,
        "name": name,
        "description": "Emulated by Botpool",
        "project_id": 1,
        "created_at": timestamp(0),
        "updated_at": timestamp(0),
    }
