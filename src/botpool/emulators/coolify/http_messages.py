"""Requests and responses, independent of the transport (socket or in memory)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from http import HTTPStatus
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: bytes = b""

    @property
    def wants_json(self) -> bool:
        """Decide like Laravel: `*/*` does not ask for JSON."""
        accepted = self.headers.get("accept", "").partition(",")[0]
        return "/json" in accepted or "+json" in accepted

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in ("1", "true", "on", "yes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int = 200
    body: bytes
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    def with_headers(self, headers: Mapping[str, str]) -> "Response":
        return replace(self, headers={**self.headers, **headers})


class RequestRejected(Exception):
    """Ends a call early with a response."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


class Transmission(Enum):
    """How much of a response reaches the client."""

    COMPLETE = auto()
    TRUNCATED = auto()
    RESET = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A response and the way in which the transport delivers it."""

    response: Response
    transmission: Transmission = Transmission.COMPLETE
    delay_s: float = 0.0
    """In real seconds."""


def data(content: Any, status: int = 200) -> Response:
    return Response(status=status, body=json.dumps(content, separators=(",", ":")).encode())


def message(status: int, text: str, **more: Any) -> Response:
    return data({"message": text, **more}, status)


def plain_text(text: str) -> Response:
    """Return a text with the media type HTML, as Laravel does."""
    return Response(body=text.encode(), media_type="text/html; charset=utf-8")


def invalid(errors: Mapping[str, list[str] | str]) -> Response:
    return message(422, "Validation failed.", errors=errors)


def html_page(status: int) -> Response:
    phrase = HTTPStatus(status).phrase
    html = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><title>{status} {phrase}</title></head>\n'
        f"<body><h1>{status} {phrase}</h1></body>\n</html>\n"
    )
    return Response(status=status, body=html.encode(), media_type="text/html; charset=UTF-8")
