"""Converts records to the JSON of Coolify's API, without the fields that describe other packs."""

from typing import Any
from uuid import NAMESPACE_OID, uuid5

from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.records import Application, Deployment, Variable, timestamp


def application(coolify: EmulatedCoolify, record: Application) -> dict[str, Any]:
    columns = dict(record.settings)
    settings = {
        name: columns.pop(name)
        for name in ("is_consistent_container_name_enabled", "stop_grace_period")
        if name in columns
    }
    return {
        "uuid": record.uuid,
        "name": record.name,
        "description": record.description,
        "fqdn": record.fqdn,
        "build_pack": "dockerimage",
        "docker_registry_image_name": record.image,
        "docker_registry_image_tag": record.tag,
        "status": coolify.containers.reported_status(record),
        "server_status": coolify.server_reachable,
        **columns,
        "settings": settings,
        "created_at": timestamp(record.created_at),
        "updated_at": timestamp(record.updated_at),
    }


def tags(record: Application) -> list[dict[str, Any]]:
    """Return the tags; a tag with one name has one uuid in all applications."""
    return [{"uuid": uuid5(NAMESPACE_OID, name).hex[:24], "name": name} for name in record.tags]


def deployment(coolify: EmulatedCoolify, record: Deployment) -> dict[str, Any]:
    owner = record.application
    page = f"/project/{coolify.config.project}/application/{owner.uuid}/deployment/{record.uuid}"
    return {
        "application_name": owner.name,
        "deployment_uuid": record.uuid,
        "deployment_url": page,
        "status": record.status.value,
        "server_name": coolify.config.server,
        "created_at": timestamp(record.created_at),
        "updated_at": timestamp(record.updated_at),
    }


def variable(coolify: EmulatedCoolify, record: Variable) -> dict[str, Any]:
    return {
        "uuid": record.uuid,
        "key": record.key,
        **({} if coolify.faults.active("hideSensitive") else _variable_values(record)),
        "is_preview": record.is_preview,
        "is_literal": record.is_literal,
        "is_multiline": record.is_multiline,
        "is_shown_once": record.is_shown_once,
        "created_at": timestamp(record.created_at),
        "updated_at": timestamp(record.updated_at),
    }


def _variable_values(record: Variable) -> dict[str, str]:
    value = record.value or ""
    quoted = record.is_literal or record.is_multiline
    return {"value": value, "real_value": f"'{value}'" if quoted else value}
