"""Requests and answers, free of any server: the same for a socket and for a client in memory."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

Errors = Mapping[str, list[str] | str]


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
        """As Laravel decides it: `*/*` is no wish for JSON."""
        accepted = self.headers.get("accept", "").partition(",")[0]
        return "/json" in accepted or "+json" in accepted

    def flag(self, name: str, *, default: bool) -> bool:
        return self.query.get(name, str(default)).lower() in ("1", "true", "on", "yes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int = 200
    body: bytes
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    def with_headers(self, headers: Mapping[str, str]) -> "Answer":
        return replace(self, headers={**self.headers, **headers})


class Wire(Enum):
    """What becomes of an answer on its way."""

    WHOLE = auto()
    HALF = auto()
    RESET = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    answer: Answer
    wire: Wire = Wire.WHOLE
    delay_s: float = 0.0
    """In the client's seconds."""


def data(content: Any, status: int = 200) -> Answer:
    return Answer(status=status, body=json.dumps(content, separators=(",", ":")).encode())


def message(status: int, text: str, **more: Any) -> Answer:
    return data({"message": text, **more}, status)


def plain(text: str) -> Answer:
    """Without a name of its own, Laravel calls a text HTML."""
    return Answer(body=text.encode(), media_type="text/html; charset=utf-8")


def invalid(errors: Errors) -> Answer:
    return message(422, "Validation failed.", errors=errors)


def page(status: int, text: str = "") -> Answer:
    phrase = HTTPStatus(status).phrase
    html = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><title>{status} {phrase}</title></head>\n'
        f"<body><h1>{status} {text or phrase}</h1></body>\n</html>\n"
    )
    return Answer(status=status, body=html.encode(), media_type="text/html; charset=UTF-8")
