"""Converts records to the JSON of Coolify's API."""

from typing import Any

from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.records import Application, Deployment, Variable, timestamp

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


def application(coolify: EmulatedCoolify, record: Application) -> dict[str, Any]:
    settings = record.settings
    return {
        "id": record.id,
        "uuid": record.uuid,
        "name": record.name,
        "description": record.description,
        "fqdn": record.fqdn,
        "build_pack": "dockerimage",
        "docker_registry_image_name": record.image,
        "docker_registry_image_tag": record.tag,
        "status": coolify.containers.reported_status(record),
        "server_status": coolify.server_reachable,
        "destination_id": 1,
        "destination_type": "App\\Models\\StandaloneDocker",
        "environment_id": 1,
        "config_hash": "",
        **{name: settings.get(name, default) for name, default in _DEFAULTS.items()},
        "settings": {name: settings[name] for name in _SETTINGS if name in settings},
        "deleted_at": None,
        "created_at": timestamp(record.created_at),
        "updated_at": timestamp(record.updated_at),
    }


def deployment(coolify: EmulatedCoolify, record: Deployment) -> dict[str, Any]:
    owner = record.application
    return {
        "id": record.id,
        "application_id": str(owner.id),
        "application_name": owner.name,
        "deployment_uuid": record.uuid,
        "pull_request_id": 0,
        "docker_registry_image_tag": None,
        "force_rebuild": record.force_rebuild,
        "commit": "HEAD",
        "status": record.status.value,
        "is_webhook": False,
        "is_api": True,
        "restart_only": record.restart_only,
        "server_id": 1,
        "server_name": coolify.config.server,
        "destination_id": "1",
        "deployment_url": f"/project/{coolify.config.project}/application/{owner.uuid}"
        f"/deployment/{record.uuid}",
        "only_this_server": False,
        "rollback": False,
        "created_at": timestamp(record.created_at),
        "updated_at": timestamp(record.updated_at),
    }


def variable(coolify: EmulatedCoolify, owner: Application, record: Variable) -> dict[str, Any]:
    return {
        "id": record.id,
        "uuid": record.uuid,
        "key": record.key,
        **({} if coolify.faults.active("hideSensitive") else _values(record)),
        "resourceable_type": "App\\Models\\Application",
        "resourceable_id": owner.id,
        "is_preview": record.is_preview,
        "is_literal": record.is_literal,
        "is_multiline": record.is_multiline,
        "is_shown_once": record.is_shown_once,
        "is_runtime": True,
        "is_buildtime": True,
        "is_shared": False,
        "comment": None,
        "version": "4.0.0",
        "created_at": timestamp(record.created_at),
        "updated_at": timestamp(record.updated_at),
    }


def _values(record: Variable) -> dict[str, str]:
    value = record.value or ""
    quoted = record.is_literal or record.is_multiline
    return {"value": value, "real_value": f"'{value}'" if quoted else value}


def server(coolify: EmulatedCoolify) -> dict[str, Any]:
    config, reachable = coolify.config, coolify.server_reachable
    return {
        "id": 1,
        "uuid": config.server,
        "name": config.server,
        "ip": "127.0.0.1",
        "user": "root",
        "port": 22,
        "settings": {
            "id": 1,
            "server_id": 1,
            "concurrent_builds": config.concurrent_builds,
            "deployment_queue_limit": config.queue_limit,
            "is_reachable": reachable,
            "is_usable": reachable,
            "created_at": timestamp(0),
            "updated_at": timestamp(0),
        },
    }


def project(coolify: EmulatedCoolify) -> dict[str, Any]:
    uuid = coolify.config.project
    return {"id": 1, "uuid": uuid, "name": uuid, "description": "Emulated by Botpool"}


def environment(coolify: EmulatedCoolify) -> dict[str, Any]:
    """The environment's uuid equals its name."""
    name = coolify.config.environment
    return {
        "id": 1,
        "uuid": name,
        "name": name,
        "description": "Emulated by Botpool",
        "project_id": 1,
        "created_at": timestamp(0),
        "updated_at": timestamp(0),
    }
