"""The responses of Coolify's API. A response of another shape is BackendUnavailable."""

import re
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import ContainerId, DeploymentId
from botpool.domain.observation import ACTIVE_DEPLOYMENT, ContainerState, DeploymentState

_CONTAINER_STATES = {
    "running": ContainerState.RUNNING,
    "starting": ContainerState.STARTING,
    "restarting": ContainerState.RESTARTING,
    "degraded": ContainerState.DEGRADED,
    "exited": ContainerState.EXITED,
    "stopped": ContainerState.STOPPED,
    "error": ContainerState.ERROR,
    "paused": ContainerState.UNKNOWN,
}
_DEPLOYMENT_STATES = {
    "queued": DeploymentState.QUEUED,
    "in_progress": DeploymentState.IN_PROGRESS,
    "finished": DeploymentState.FINISHED,
    "failed": DeploymentState.FAILED,
    "cancelled-by-user": DeploymentState.CANCELLED,
}
_NOT_EMPTY = Field(min_length=1)


class ResponseBody(BaseModel):
    """The fields that Botpool reads; Coolify sends more."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)


class CreatedApplication(ResponseBody):
    uuid: Annotated[ContainerId, _NOT_EMPTY]


class ApplicationSettings(ResponseBody):
    stop_grace_period: int | None = None


class Application(ResponseBody):
    uuid: Annotated[ContainerId, _NOT_EMPTY]
    name: Annotated[str, _NOT_EMPTY]
    status: Annotated[str, _NOT_EMPTY]
    """`running:healthy`, for example. The health lags by minutes."""
    server_status: bool | None = None
    docker_registry_image_name: str | None = None
    docker_registry_image_tag: str | None = None
    limits_cpus: str | None = None
    limits_memory: str | None = None
    settings: ApplicationSettings | None = None
    """Not in every answer of Coolify."""
    created_at: str = ""

    @property
    def server_reachable(self) -> bool:
        return self.server_status is not False

    @property
    def state(self) -> ContainerState:
        """An unknown status is no evidence of anything.

        Coolify reports every application of an unreachable server as exited.
        """
        if not self.server_reachable:
            return ContainerState.UNKNOWN
        return _CONTAINER_STATES.get(self._status_word, ContainerState.UNKNOWN)

    @property
    def unknown_status(self) -> str | None:
        """The status if Botpool does not know its first word."""
        return None if self._status_word in _CONTAINER_STATES else self.status

    @property
    def _status_word(self) -> str:
        return self.status.partition(":")[0]


class Deployment(ResponseBody):
    uuid: Annotated[DeploymentId, Field(min_length=1, validation_alias="deployment_uuid")]
    status: Annotated[str, _NOT_EMPTY]
    application_name: str | None = None
    deployment_url: str | None = None
    """The path of the deployment's page, which contains the application's uuid."""

    @property
    def state(self) -> DeploymentState | None:
        return _DEPLOYMENT_STATES.get(self.status)

    @property
    def is_open(self) -> bool:
        return self.state in ACTIVE_DEPLOYMENT

    def is_of(self, application: Application) -> bool:
        """Compare by the page; without a page by name, which may match too much."""
        if self.deployment_url and "/application/" in self.deployment_url:
            return f"/application/{application.uuid}/" in f"{self.deployment_url}/"
        return application.name == self.application_name


class Variable(ResponseBody):
    uuid: str = ""
    key: Annotated[str, _NOT_EMPTY]
    value: str | None = None
    is_preview: bool = False

    @property
    def is_hidden(self) -> bool:
        """Whether Coolify left out the value, which may be empty."""
        return "value" not in self.model_fields_set


class StartResponse(ResponseBody):
    """The response to a start. Without a uuid, another deployment is already queued."""

    deployment_uuid: DeploymentId | None = None
    message: str = ""


class Logs(ResponseBody):
    logs: str | None = None


Body = TypeVar("Body", bound=ResponseBody)


def parse(body: type[Body], content: Any) -> Body:
    try:
        return body.model_validate(content)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, problem["loc"])) or "the response"
        raise BackendUnavailable(
            f"Coolify's response is not a valid {body.__name__}: {field}: {problem['msg']}"
        ) from error


def parse_list(body: type[Body], content: Any) -> list[Body]:
    """Accept a list, or the object with numeric keys that PHP makes of a list with gaps."""
    if isinstance(content, dict) and all(key.isdecimal() for key in content):
        content = [content[key] for key in sorted(content, key=int)]
    if not isinstance(content, list):
        kind = type(content).__name__
        raise BackendUnavailable(f"Coolify answered a {kind} instead of a list of {body.__name__}")
    return [parse(body, item) for item in content]


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


class ServerSettings(ResponseBody):
    is_reachable: bool | None = None
    concurrent_builds: Annotated[int, Field(ge=1)] | None = None


class Server(ResponseBody):
    settings: ServerSettings = ServerSettings()


def is_at_least(version: str, minimum: str) -> bool:
    """Compare versions such as `4.3.11` and `v4.3.7-beta.1` by their numbers."""
    return _numbers(version) >= _numbers(minimum)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.partition("-")[0])]
