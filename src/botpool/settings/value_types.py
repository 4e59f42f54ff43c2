"""The types of settings. Their limits reject typing errors such as a timeout of 0."""

import ipaddress
import json
import re
import shlex
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from botpool.domain.installation_secret import weakness_of
from botpool.domain.meeting_hosts import check_pattern

EMBEDDED = "embedded"

_MONTH_S = 30 * 86_400
_DAY_MS = 86_400_000


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


def _capability(value: str) -> str:
    name = value.upper().removeprefix("CAP_")
    if not re.fullmatch(r"[A-Z_]{2,40}", name) or name == "ALL":
        raise ValueError("should be names of Linux capabilities, such as SYS_ADMIN or NET_RAW")
    return name


def _docker_host(value: str) -> str:
    if not re.fullmatch(r"(unix|tcp|http|https|ssh)://\S+", value):
        raise ValueError("should be like unix:///run/docker.sock or tcp://host:2376")
    return value


def _installation_id(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", value):
        raise ValueError("should be at most 63 letters, digits, dots, hyphens and underscores")
    return value


def _strong_secret(value: SecretStr) -> SecretStr:
    if problem := weakness_of(value.get_secret_value()):
        raise ValueError(problem)
    return value


def _database_url(value: SecretStr) -> SecretStr:
    url = value.get_secret_value()
    if url == EMBEDDED:
        return value
    if not url.startswith(("postgresql://", "postgres://")):
        raise ValueError("should be `embedded` or postgresql://user@host/database")
    if not _libpq_accepts(url):
        raise ValueError(
            "is not a valid PostgreSQL URL: percent-encode special characters in the user and "
            "the password, and use only parameters of libpq after the `?`"
        )
    return value


def _libpq_accepts(url: str) -> bool:
    """Parse the URL with libpq, and drop libpq's message: it would show the password."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(url)
    except ProgrammingError:
        return False
    return True


_TOLERATION = re.compile(
    r"(?P<key>[A-Za-z0-9./_-]+)(=(?P<value>[A-Za-z0-9._-]*))?"
    r"(:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?"
)


def parse_toleration(text: str) -> dict[str, str]:
    """Parse `key=value:effect`, as `kubectl taint` writes a taint, into a Pod's toleration."""
    match = _TOLERATION.fullmatch(text)
    if match is None:
        raise ValueError("should be taints like dedicated=bots:NoSchedule")
    value, effect = match["value"], match["effect"]
    toleration = {"key": match["key"], "operator": "Exists" if value is None else "Equal"}
    if value is not None:
        toleration["value"] = value
    if effect:
        toleration["effect"] = effect
    return toleration


def _toleration(value: str) -> str:
    parse_toleration(value)
    return value


def _split_at_commas(value: Any) -> Any:
    """Split a list from an environment variable: `a, b`."""
    if not isinstance(value, str):
        return value
    return [item.strip() for item in value.split(",") if item.strip()]


def split_like_a_shell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ValueError(f"should be a command line: {error}") from None


def parse_table(value: Any) -> Any:
    """Parse a table from an environment variable: a JSON object."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError("should be a table, or a JSON object in a variable") from None


Seconds = Annotated[float, Field(gt=0, le=_MONTH_S)]
SecondsOrZero = Annotated[float, Field(ge=0, le=_MONTH_S)]
Milliseconds = Annotated[int, Field(ge=1, le=_DAY_MS)]
MillisecondsOrZero = Annotated[int, Field(ge=0, le=_DAY_MS)]
Days = Annotated[int, Field(ge=1, le=36_500)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
CountOrZero = Annotated[int, Field(ge=0, le=1_000_000)]
Secret = Annotated[SecretStr, Field(min_length=1)]

PoolName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")]
InstallationId = Annotated[str, AfterValidator(_installation_id)]
InstallationSecret = Annotated[SecretStr, AfterValidator(_strong_secret)]
InstallationSecrets = Annotated[tuple[InstallationSecret, ...], BeforeValidator(_split_at_commas)]
DatabaseUrl = Annotated[SecretStr, AfterValidator(_database_url)]
DockerHost = Annotated[str, AfterValidator(_docker_host)]
WebAddress = Annotated[str, AfterValidator(_web_address)]
Proxies = Annotated[
    tuple[Annotated[str, AfterValidator(_proxy)], ...], BeforeValidator(_split_at_commas)
]
HostPatterns = Annotated[
    tuple[Annotated[str, AfterValidator(check_pattern)], ...],
    BeforeValidator(_split_at_commas),
    Field(min_length=1, max_length=1_000),
]
Capabilities = Annotated[
    tuple[Annotated[str, AfterValidator(_capability)], ...], BeforeValidator(_split_at_commas)
]
Command = Annotated[
    tuple[str, ...], BeforeValidator(split_like_a_shell), Field(min_length=1, max_length=1000)
]
KubernetesName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]
KubernetesNames = Annotated[tuple[KubernetesName, ...], BeforeValidator(_split_at_commas)]
NodeSelector = Annotated[
    dict[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9./_-]{0,315})$")],
        Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$")],
    ],
    BeforeValidator(parse_table),
]
Tolerations = Annotated[
    tuple[Annotated[str, AfterValidator(_toleration)], ...], BeforeValidator(_split_at_commas)
]
