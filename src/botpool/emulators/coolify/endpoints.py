"""The endpoints of Coolify's API that the emulator knows, and the matching of requests."""

import re
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "/api/v1"


class Ability(StrEnum):
    """The permission of the token that an endpoint requires."""

    READ = "read"
    WRITE = "write"
    DEPLOY = "deploy"


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    ability: Ability | None
    """None: the endpoint needs no token."""
    formerly_get: bool = False
    """Versions before 4.2 also accept GET."""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


# The order matters: the first matching endpoint wins.
ENDPOINTS = (
    Endpoint("GET", "/health", None),
    Endpoint("GET", "/version", Ability.READ),
    Endpoint("POST", "/applications/dockerimage", Ability.WRITE),
    Endpoint("GET", "/applications", Ability.READ),
    Endpoint("GET", "/applications/{uuid}", Ability.READ),
    Endpoint("PATCH", "/applications/{uuid}", Ability.WRITE),
    Endpoint("DELETE", "/applications/{uuid}", Ability.WRITE),
    Endpoint("GET", "/applications/{uuid}/logs", Ability.READ),
    Endpoint("GET", "/applications/{uuid}/envs", Ability.READ),
    Endpoint("PATCH", "/applications/{uuid}/envs/bulk", Ability.WRITE),
    Endpoint("POST", "/applications/{uuid}/start", Ability.DEPLOY, formerly_get=True),
    Endpoint("POST", "/applications/{uuid}/restart", Ability.DEPLOY, formerly_get=True),
    Endpoint("POST", "/applications/{uuid}/stop", Ability.DEPLOY, formerly_get=True),
    Endpoint("POST", "/deploy", Ability.DEPLOY, formerly_get=True),
    Endpoint("GET", "/deployments", Ability.READ),
    Endpoint("GET", "/deployments/applications/{uuid}", Ability.READ),
    Endpoint("GET", "/deployments/{uuid}", Ability.READ),
    Endpoint("POST", "/deployments/{uuid}/cancel", Ability.DEPLOY),
    Endpoint("GET", "/servers", Ability.READ),
    Endpoint("GET", "/servers/{uuid}", Ability.READ),
    Endpoint("GET", "/projects", Ability.READ),
    Endpoint("GET", "/projects/{uuid}", Ability.READ),
    Endpoint("GET", "/projects/{uuid}/{environment_name_or_uuid}", Ability.READ),
)
_PATTERNS = tuple(
    (re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", endpoint.path)), endpoint)
    for endpoint in ENDPOINTS
)
NAMES = frozenset(endpoint.name for endpoint in ENDPOINTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    endpoint: Endpoint | None
    """None: no endpoint has this path and method."""
    uuid: str = ""
    allowed_methods: tuple[str, ...] = ()
    """The methods of the path if no endpoint matches. Empty: the path is unknown."""


def match(method: str, path: str, *, before_4_2: bool) -> Match:
    """Find the endpoint of a request; `path` has no prefix."""
    allowed: list[str] = []
    for pattern, endpoint in _PATTERNS:
        found = pattern.fullmatch(path)
        if found is None:
            continue
        also_get = before_4_2 and endpoint.formerly_get
        if method == endpoint.method or (also_get and method == "GET"):
            return Match(endpoint=endpoint, uuid=found.groupdict().get("uuid", ""))
        allowed += ["GET"] * also_get + [endpoint.method]
    return Match(endpoint=None, allowed_methods=tuple(dict.fromkeys(allowed)))
