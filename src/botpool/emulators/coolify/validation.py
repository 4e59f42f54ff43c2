"""Reads and validates request bodies like Laravel and Coolify.

The models list the fields that concern applications from an image; Coolify rejects unknown ones.
"""

import json
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from botpool.emulators.coolify import http_messages as http
from botpool.emulators.coolify.http_messages import RequestRejected


class ApplicationSettings(BaseModel):
    """The fields that the emulator stores unchanged."""

    model_config = ConfigDict(extra="forbid")

    ports_exposes: str | None = None
    ports_mappings: str | None = None
    limits_cpus: str | None = None
    limits_memory: str | None = None
    health_check_enabled: bool | None = None
    health_check_path: str | None = None
    is_consistent_container_name_enabled: bool | None = None
    custom_docker_run_options: str | None = None
    stop_grace_period: int | None = None
    max_restart_count: int | None = None

    def settings(self) -> dict[str, Any]:
        names = ApplicationSettings.model_fields.keys() & self.model_fields_set
        return self.model_dump(include=set(names))


class ApplicationFields(ApplicationSettings):
    name: str | None = Field(default=None, max_length=255)
    description: str | None = None
    domains: str | None = None
    docker_registry_image_tag: str | None = None
    instant_deploy: bool = False


class ChangedApplication(ApplicationFields):
    docker_registry_image_name: str | None = None


class NewApplication(ApplicationFields):
    project_uuid: str
    server_uuid: str
    docker_registry_image_name: str
    environment_name: str | None = None
    environment_uuid: str | None = None
    destination_uuid: str | None = None
    autogenerate_domain: bool = True
    tags: list[str] = []


class SentTags(BaseModel):
    """One tag or several, in lower case when Coolify stores them."""

    model_config = ConfigDict(extra="forbid")

    tag_name: str | None = Field(default=None, min_length=2)
    tag_names: list[str] = []

    @property
    def names(self) -> list[str]:
        sent = [self.tag_name] if self.tag_name is not None else self.tag_names
        return [name.lower() for name in sent]


class SentVariable(BaseModel):
    key: str
    value: str | None = None
    is_preview: bool = False
    is_literal: bool = False
    is_multiline: bool = False
    is_shown_once: bool = False


Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], fields: object) -> Model:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        errors = {str(each["loc"][0]) if each["loc"] else "data": each for each in error.errors()}
        messages = {name: [_message(name, each["type"])] for name, each in errors.items()}
        raise RequestRejected(http.invalid(messages)) from None


def _message(field: str, error: str) -> str:
    if error == "extra_forbidden":
        return "This field is not allowed."
    problem = "is required" if error == "missing" else "is invalid"
    return f"The {field.replace('_', ' ')} field {problem}."


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
