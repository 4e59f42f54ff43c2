"""Every call that is known, by the name under which faults and routes speak of it."""

import re
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "/api/v1"


class Ability(StrEnum):
    """What a token must be allowed for a call."""

    READ = "read"
    WRITE = "write"
    DEPLOY = "deploy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    method: str
    path: str
    ability: Ability | None
    """None: it needs no token."""
    once_also_get: bool = False
    """Before 4.2, GET did the same."""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def _endpoint(
    method: str, path: str, ability: Ability | None, *, once_also_get: bool = False
) -> Endpoint:
    return Endpoint(method=method, path=path, ability=ability, once_also_get=once_also_get)


# The order matters: the first that fits is taken.
ENDPOINTS = (
    _endpoint("GET", "/health", None),
    _endpoint("GET", "/version", Ability.READ),
    _endpoint("POST", "/applications/dockerimage", Ability.WRITE),
    _endpoint("GET", "/applications", Ability.READ),
    _endpoint("GET", "/applications/{uuid}", Ability.READ),
    _endpoint("PATCH", "/applications/{uuid}", Ability.WRITE),
    _endpoint("DELETE", "/applications/{uuid}", Ability.WRITE),
    _endpoint("GET", "/applications/{uuid}/logs", Ability.READ),
    _endpoint("GET", "/applications/{uuid}/envs", Ability.READ),
    _endpoint("PATCH", "/applications/{uuid}/envs/bulk", Ability.WRITE),
    _endpoint("POST", "/applications/{uuid}/start", Ability.DEPLOY, once_also_get=True),
    _endpoint("POST", "/applications/{uuid}/restart", Ability.DEPLOY, once_also_get=True),
    _endpoint("POST", "/applications/{uuid}/stop", Ability.DEPLOY, once_also_get=True),
    _endpoint("POST", "/deploy", Ability.DEPLOY, once_also_get=True),
    _endpoint("GET", "/deployments", Ability.READ),
    _endpoint("GET", "/deployments/applications/{uuid}", Ability.READ),
    _endpoint("GET", "/deployments/{uuid}", Ability.READ),
    _endpoint("POST", "/deployments/{uuid}/cancel", Ability.DEPLOY),
    _endpoint("GET", "/servers", Ability.READ),
    _endpoint("GET", "/servers/{uuid}", Ability.READ),
    _endpoint("GET", "/projects", Ability.READ),
    _endpoint("GET", "/projects/{uuid}", Ability.READ),
    _endpoint("GET", "/projects/{uuid}/{environment_name_or_uuid}", Ability.READ),
)
_PATTERNS = tuple(
    (re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", endpoint.path)), endpoint)
    for endpoint in ENDPOINTS
)
NAMES = frozenset(endpoint.name for endpoint in ENDPOINTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    endpoint: Endpoint | None
    """None: no such call, or not with this method."""
    uuid: str = ""
    allowed_methods: tuple[str, ...] = ()
    """What the path answers to, when it is not this method. Empty: the path is unknown."""


def match(method: str, path: str, *, before_4_2: bool) -> Match:
    """The call that a request means; `path` without the prefix."""
    allowed: list[str] = []
    for pattern, endpoint in _PATTERNS:
        found = pattern.fullmatch(path)
        if found is None:
            continue
        also_get = before_4_2 and endpoint.once_also_get
        if method == endpoint.method or (also_get and method == "GET"):
            return Match(endpoint=endpoint, uuid=found.groupdict().get("uuid", ""))
        allowed += ["GET"] * also_get + [endpoint.method]
    return Match(endpoint=None, allowed_methods=tuple(dict.fromkeys(allowed)))
