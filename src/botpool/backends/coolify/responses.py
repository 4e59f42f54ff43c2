"""Parses the responses of Coolify's API. A response of another shape is BackendUnavailable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from botpool.backends.coolify import statuses
from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import ContainerId, DeploymentId
from botpool.domain.observation import ACTIVE_DEPLOYMENT, ContainerState, DeploymentState


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    uuid: ContainerId
    number: str | None
    """The id by which deployments refer to the application; most versions hide it."""
    name: str
    description: str | None
    status: str
    server_reachable: bool
    image_name: str
    image_tag: str
    cpus: str
    memory: str
    created_at: str

    @property
    def state(self) -> ContainerState:
        return statuses.container_state(self.status, server_reachable=self.server_reachable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    uuid: DeploymentId
    status: str
    application_number: str
    application_name: str
    path: str
    """The path of the deployment's page, which contains the application's uuid."""

    @property
    def state(self) -> DeploymentState | None:
        return statuses.deployment_state(self.status)

    @property
    def is_open(self) -> bool:
        return self.state in ACTIVE_DEPLOYMENT

    def is_of(self, application: Application) -> bool:
        """Compare by number or page; without both by name, which may match too much."""
        if application.number is not None and self.application_number:
            return application.number == self.application_number
        if "/application/" in self.path:
            return f"/application/{application.uuid}/" in f"{self.path}/"
        return application.name == self.application_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    key: str
    value: str
    is_preview: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StartResponse:
    """The response to a start. Without a uuid, another deployment is already queued."""

    deployment_id: DeploymentId | None
    message: str


def parse_application(content: Any) -> Application:
    fields = _object(content, "an application")
    return Application(
        uuid=ContainerId(_text(fields, "uuid")),
        number=_optional(fields, "id"),
        name=_text(fields, "name"),
        description=_optional(fields, "description"),
        status=_text(fields, "status"),
        server_reachable=fields.get("server_status") not in (False, 0, "0", "false"),
        image_name=_optional(fields, "docker_registry_image_name") or "",
        image_tag=_optional(fields, "docker_registry_image_tag") or "",
        cpus=_optional(fields, "limits_cpus") or "",
        memory=_optional(fields, "limits_memory") or "",
        created_at=_optional(fields, "created_at") or "",
    )


def parse_deployment(content: Any) -> Deployment:
    fields = _object(content, "a deployment")
    return Deployment(
        uuid=DeploymentId(_text(fields, "deployment_uuid")),
        status=_text(fields, "status"),
        application_number=_optional(fields, "application_id") or "",
        application_name=_optional(fields, "application_name") or "",
        path=_optional(fields, "deployment_url") or "",
    )


def parse_variable(content: Any) -> Variable:
    fields = _object(content, "a variable")
    return Variable(
        key=_text(fields, "key"),
        value=_optional(fields, "value") or "",
        is_preview=bool(fields.get("is_preview")),
    )


def has_value(content: Any) -> bool:
    """Whether the response contains the variable's value, even an empty one."""
    return "value" in _object(content, "a variable")


def parse_start(content: Any) -> StartResponse:
    fields = _object(content, "a response to a start")
    uuid = _optional(fields, "deployment_uuid")
    return StartResponse(
        deployment_id=DeploymentId(uuid) if uuid else None,
        message=_optional(fields, "message") or "",
    )


def parse_uuid(content: Any, what: str) -> str:
    return _text(_object(content, what), "uuid")


def parse_list(content: Any, what: str) -> Sequence[Any]:
    """Accept a list, or the object with numeric keys that PHP makes of a list with gaps."""
    if isinstance(content, dict) and all(key.isdecimal() for key in content):
        return [content[key] for key in sorted(content, key=int)]
    if isinstance(content, list):
        return content
    raise BackendUnavailable(f"Coolify answered a {type(content).__name__} instead of {what}")


def message_of(content: Any) -> str | None:
    """Return the message of a response of Coolify; None for any other response."""
    message = content.get("message") if isinstance(content, dict) else None
    return message if isinstance(message, str) else None


def errors_of(content: Any) -> dict[str, str]:
    """Return the errors of a 422 by field. Coolify sends each as a list or a string."""
    errors = content.get("errors") if isinstance(content, dict) else None
    if not isinstance(errors, dict):
        return {}
    return {
        str(name): " ".join(map(str, error)) if isinstance(error, list) else str(error)
        for name, error in errors.items()
    }


def _object(content: Any, what: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise BackendUnavailable(f"Coolify answered a {type(content).__name__} instead of {what}")
    return content


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise BackendUnavailable(f"Coolify's response has no {name}")
    return value


def _optional(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return None if value is None else str(value)


def is_unreachable(server: Any) -> bool:
    """Whether Coolify reports that it cannot reach the server."""
    settings = server.get("settings") if isinstance(server, dict) else None
    return isinstance(settings, dict) and settings.get("is_reachable") is False
