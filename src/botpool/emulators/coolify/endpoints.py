"""The endpoints of Coolify's API that the emulator knows, and the matching of requests."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify

PREFIX = "/api/v1"

Handler = Callable[["EmulatedCoolify", httpx.Request, str], httpx.Response]
"""Answers a request; the last argument is the uuid in the path, or an empty string."""


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
    handler: Handler
    pattern: re.Pattern[str]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


ENDPOINTS: list[Endpoint] = []
"""In the order of declaration: the first match wins."""


def endpoint(name: str, ability: Ability | None) -> Callable[[Handler], Handler]:
    """Declare the decorated function as the handler of an endpoint, such as `GET /version`."""
    method, path = name.split(" ")
    pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))

    def declare(handler: Handler) -> Handler:
        ENDPOINTS.append(Endpoint(method, path, ability, handler, pattern))
        return handler

    return declare


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    endpoint: Endpoint | None
    """None: no endpoint has this path and method."""
    uuid: str = ""
    allowed_methods: tuple[str, ...] = ()
    """The methods of the path if no endpoint matches. Empty: the path is unknown."""


def match(method: str, path: str) -> Match:
    """Find the endpoint of a request; `path` has no prefix."""
    found = [(each, m) for each in ENDPOINTS if (m := each.pattern.fullmatch(path))]
    for each, parameters in found:
        if each.method == method:
            return Match(endpoint=each, uuid=parameters.groupdict().get("uuid", ""))
    methods = dict.fromkeys(each.method for each, _ in found)
    return Match(endpoint=None, allowed_methods=tuple(methods))
