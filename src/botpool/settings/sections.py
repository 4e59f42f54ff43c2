"""The sections of `botpool.toml`: every name, its default and its limits, stated once.

Limits keep a slip of the keyboard from becoming an outage (a timeout of 0, a poll of a day), not
users from what they want.
"""

import ipaddress
import re
import shlex
import sys
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
)

BACKENDS = ("process", "docker", "coolify")
DEMO_COMMAND = (sys.executable, "-m", "botpool.agent.demo")
DEMO_IMAGE = "botpool-demo"
EMBEDDED = "embedded"

MONTH_S = 30 * 86_400
DAY_MS = 86_400_000

Seconds = Annotated[float, Field(gt=0, le=MONTH_S)]
SecondsOrNone = Annotated[float, Field(ge=0, le=MONTH_S)]  # 0 switches it off
Milliseconds = Annotated[int, Field(ge=1, le=DAY_MS)]
Days = Annotated[int, Field(ge=1, le=36_500)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
QueueTimeout = Annotated[int, Field(ge=0, le=DAY_MS)]  # 0: such a bot does not queue
Secret = Annotated[SecretStr, Field(min_length=1)]


def _web_address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("should be an address like https://botpool.example.org")
    return value.rstrip("/")


def _proxy(value: str) -> str:
    if value != "*":
        try:
            ipaddress.ip_network(value, strict=False)
        except ValueError:
            raise ValueError("should be IP addresses, networks or *") from None
    return value


def _split_at_commas(value: Any) -> Any:
    """Environment variables hold lists as `a, b`."""
    if not isinstance(value, str):
        return value
    return [item.strip() for item in value.split(",") if item.strip()]


def _split_like_a_shell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ValueError(f"should be a command line: {error}") from None


def _docker_host(value: str) -> str:
    if not re.fullmatch(r"(unix|tcp|http|https|ssh)://\S+", value):
        raise ValueError("should be like unix:///run/docker.sock or tcp://host:2376")
    return value


def _installation_id(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", value):
        raise ValueError("should be letters, digits, dots, hyphens and underscores, at most 63")
    return value


DockerHost = Annotated[str, AfterValidator(_docker_host)]
WebAddress = Annotated[str, AfterValidator(_web_address)]
Proxies = Annotated[
    tuple[Annotated[str, AfterValidator(_proxy)], ...], BeforeValidator(_split_at_commas)
]
Command = Annotated[
    tuple[str, ...], BeforeValidator(_split_like_a_shell), Field(min_length=1, max_length=1000)
]
InstallationId = Annotated[str, AfterValidator(_installation_id)]


class Section(BaseModel):
    """Frozen, closed to unknown names, and silent about the values that it refuses."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_booleans(cls, value: Any) -> Any:
        """There is no setting that is true or false, and pydantic reads `true` as 1."""
        if isinstance(value, bool):
            raise ValueError("should not be true or false")
        return value


def _can_be_read(url: str) -> bool:
    """By libpq, whose own complaint would show the password."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(url)
    except ProgrammingError:
        return False
    return True


class DatabaseSettings(Section):
    url: SecretStr = SecretStr(EMBEDDED)

    @property
    def embedded(self) -> bool:
        return self.url.get_secret_value() == EMBEDDED

    @field_validator("url")
    @classmethod
    def _known_kind(cls, value: SecretStr) -> SecretStr:
        url = value.get_secret_value()
        if url != EMBEDDED and not url.startswith(("postgresql://", "postgres://")):
            raise ValueError("should be `embedded` or postgresql://user@host/database")
        if url != EMBEDDED and not _can_be_read(url):
            raise ValueError(
                "cannot be read: a user or password with special characters is written with "
                "%-escapes, and only libpq's own parameters may follow the `?`"
            )
        return value


class ServerSettings(Section):
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8700
    public_url: WebAddress | None = None
    trusted_proxies: Proxies = ()
    metrics: Literal["open", "key", "off"] = "key"
    docs: Literal["open", "off"] = "open"


class InstallationSettings(Section):
    id: InstallationId | None = None
    secret: Secret | None = None


class PoolSettings(Section):
    backend: str = BACKENDS[0]
    image: Annotated[str, Field(min_length=1, max_length=500)] = DEMO_IMAGE
    max_size: Annotated[int, Field(ge=0, le=100_000)] = 100
    heartbeats: Literal["required", "none"] = "required"
    cpus: Annotated[float, Field(gt=0, le=1_000)] = 1
    memory_mb: Annotated[int, Field(ge=16, le=10_000_000)] = 2_048

    @field_validator("backend")
    @classmethod
    def _known_backend(cls, value: str) -> str:
        if value not in BACKENDS:
            raise ValueError(f"is not a backend of this version; there is: {', '.join(BACKENDS)}")
        return value


class ProcessSettings(Section):
    command: Command = DEMO_COMMAND
    first_start_s: SecondsOrNone = 0
    start_s: SecondsOrNone = 0


class DockerSettings(Section):
    # Without it by the client's own conventions: DOCKER_HOST, contexts, the socket.
    host: DockerHost | None = None
    network: Annotated[str, Field(min_length=1, max_length=200)] = "bridge"
    pids_limit: Count = 2_048
    shm_mb: Annotated[int, Field(ge=1, le=1_000_000)] = 512
    # The call that stops a container has eight seconds in all.
    stop_grace_s: Annotated[int, Field(ge=0, le=6)] = 5


class CoolifySettings(Section):
    url: WebAddress | None = None
    token: Secret | None = None
    project_uuid: str | None = None
    server_uuid: str | None = None
    environment_name: str = "production"
    destination_uuid: str | None = None
    # Less would not do for one bot's start and what goes on beside it.
    requests_per_minute: Annotated[int, Field(ge=40, le=1_000_000)] = 200
    concurrent_deployments: Count = 4
    status_lag_s: Seconds = 60


class BackendsSettings(Section):
    process: ProcessSettings = ProcessSettings()
    docker: DockerSettings = DockerSettings()
    coolify: CoolifySettings = CoolifySettings()


class QueueSettings(Section):
    default_timeout_ms: QueueTimeout = 300_000
    max_timeout_ms: QueueTimeout = 600_000
    poll_interval_ms: Milliseconds = 1_000


class DeploySettings(Section):
    timeout_s: Seconds = 1_500
    poll_interval_s: Seconds = 15
    grace_s: SecondsOrNone = 180
    wait_timeout_s: Seconds = 1_800
    attempts: Count = 2
    image_known_s: Seconds = 86_400


class RecoverySettings(Section):
    interval_s: Seconds = 60
    deploying_timeout_s: Seconds = 900
    heartbeat_freshness_s: Seconds = 300
    max_skipped: Annotated[int, Field(ge=0, le=1_000_000)] = 3
    max_attempts: Count = 3
    stray_share: Annotated[float, Field(ge=0, le=1)] = 0.2


class AgentSettings(Section):
    heartbeat_interval_ms: Milliseconds = 10_000
    leave_grace_s: SecondsOrNone = 30


class BotsSettings(Section):
    max_duration_s: SecondsOrNone = 21_600


class RetentionSettings(Section):
    bots_days: Days = 30
    history_days: Days = 30
    idempotency_days: Days = 7
