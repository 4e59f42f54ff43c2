"""Reads and validates request bodies like Laravel and Coolify."""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import httpx

from botpool.emulators.coolify import http_messages as http
from botpool.emulators.coolify.http_messages import RequestRejected

_CREATE_AND_UPDATE = {
    "string": """
        project_uuid server_uuid environment_name ports_exposes destination_uuid name description
        domains docker_registry_image_name docker_registry_image_tag ports_mappings
        health_check_path health_check_port health_check_host health_check_method
        health_check_scheme health_check_response_text limits_memory limits_memory_swap
        limits_memory_reservation limits_cpus limits_cpuset custom_labels
        custom_docker_run_options post_deployment_command post_deployment_command_container
        pre_deployment_command pre_deployment_command_container manual_webhook_secret_github
        manual_webhook_secret_gitlab manual_webhook_secret_bitbucket manual_webhook_secret_gitea
        redirect gpu_driver gpu_count gpu_device_ids gpu_options custom_internal_name
        preview_url_template""",
    "boolean": """
        health_check_enabled instant_deploy is_force_https_enabled is_preview_deployments_enabled
        use_build_server use_build_secrets is_git_submodules_enabled is_git_lfs_enabled
        is_git_shallow_clone_enabled disable_build_cache inject_build_args_to_dockerfile
        include_source_commit_in_build is_env_sorting_enabled is_pr_deployments_public_enabled
        is_gzip_enabled is_stripprefix_enabled is_raw_compose_deployment_enabled
        is_log_drain_enabled is_gpu_enabled is_consistent_container_name_enabled
        connect_to_docker_network force_domain_override is_container_label_escape_enabled""",
    "integer": """
        health_check_return_code health_check_interval health_check_timeout health_check_retries
        health_check_start_period limits_memory_swappiness limits_cpu_shares stop_grace_period
        docker_images_to_keep max_restart_count""",
    "array": "noindex_domains",
}
_ONLY_CREATE = {
    "string": "environment_uuid http_basic_auth_username http_basic_auth_password",
    "boolean": "autogenerate_domain is_http_basic_auth_enabled",
    "array": "tags",
}
_ONLY_UPDATE = {
    "string": """
        github_app_uuid git_repository git_branch build_pack git_commit_sha install_command
        build_command start_command base_directory publish_directory dockerfile
        dockerfile_location docker_compose_location docker_compose_custom_start_command
        docker_compose_custom_build_command watch_paths""",
    "boolean": "is_static is_spa is_auto_deploy_enabled is_preserve_repository_enabled",
    "array": "docker_compose_domains",
}


def _types_by_field(*tables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: type_name
        for table in tables
        for type_name, names in table.items()
        for name in names.split()
    }


CREATE = _types_by_field(_CREATE_AND_UPDATE, _ONLY_CREATE)
UPDATE = _types_by_field(_CREATE_AND_UPDATE, _ONLY_UPDATE)

_NULLABLE = frozenset(
    name for name in CREATE | UPDATE if name.startswith(("health_check_", "limits_", "custom_"))
) | {"description", "docker_registry_image_tag", "ports_mappings", "redirect", "stop_grace_period"}
_MAX_NAME_LENGTH = 255


def _is_integer(value: object) -> bool:
    if isinstance(value, str):
        return value.lstrip("-").isdecimal()
    return isinstance(value, int) and not isinstance(value, bool)


_HAS_TYPE: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: value in (True, False, "0", "1"),
    "integer": _is_integer,
    "array": lambda value: isinstance(value, list | dict),
}
_TYPE_ERROR = {
    "string": "must be a string",
    "boolean": "must be true or false",
    "integer": "must be an integer",
    "array": "must be an array",
}


def read_json(request: httpx.Request) -> dict[str, Any]:
    """Return the fields of the body and of the query together, as Laravel does."""
    media_type = request.headers.get("content-type", "")
    if "/json" not in media_type and "+json" not in media_type:
        raise _bad_request("Content-Type must be application/json.")
    try:
        content = _trim(json.loads(request.content))
    except (ValueError, RecursionError):
        raise _bad_request("Invalid JSON.") from None
    if not content:
        raise _bad_request("Empty JSON.")
    if not isinstance(content, dict):
        raise _bad_request("Invalid JSON.")
    return {**_trim(dict(request.url.params.multi_items())), **content}


def _bad_request(error: str) -> RequestRejected:
    return RequestRejected(http.message(400, "Invalid request.", error=error))


def _trim(value: Any) -> Any:
    """Strip all strings and replace empty strings by None, as Laravel does."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, list):
        return [_trim(item) for item in value]
    if isinstance(value, dict):
        return {key: _trim(item) for key, item in value.items()}
    return value


def validate(
    fields: Mapping[str, Any], types: Mapping[str, str], required: Collection[str] = ()
) -> dict[str, list[str]]:
    """Return the error messages by field. Unknown fields are errors."""
    errors: dict[str, list[str]] = {}
    for name in required:
        if fields.get(name) is None:
            errors[name] = [f"The {_words(name)} field is required."]
    for name, value in fields.items():
        if name not in types:
            errors[name] = ["This field is not allowed."]
        elif name not in errors and not (value is None and name in _NULLABLE):
            if not _HAS_TYPE[types[name]](value):
                errors[name] = [f"The {_words(name)} field {_TYPE_ERROR[types[name]]}."]
            elif name == "name" and len(value) > _MAX_NAME_LENGTH:
                limit = f"must not be greater than {_MAX_NAME_LENGTH} characters"
                errors[name] = [f"The name field {limit}."]
    return errors


def _words(name: str) -> str:
    return name.replace("_", " ")
