"""Responses in the formats of Coolify, and the ways in which they reach the client."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

import httpx


class RequestRejected(Exception):
    """Ends a call early with a response."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.status_code)
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

    response: httpx.Response
    transmission: Transmission = Transmission.COMPLETE
    delay_s: float = 0.0
    """In real seconds."""


def data(content: Any, status: int = 200) -> httpx.Response:
    # Unlike httpx, escape all that is not ASCII: texts may contain lone surrogates.
    text = json.dumps(content, separators=(",", ":"))
    return httpx.Response(status, text=text, headers={"Content-Type": "application/json"})


def message(status: int, text: str, **more: Any) -> httpx.Response:
    return data({"message": text, **more}, status)


def invalid(errors: Mapping[str, list[str] | str]) -> httpx.Response:
    return message(422, "Validation failed.", errors=errors)


def not_found(what: str) -> RequestRejected:
    return RequestRejected(message(404, f"{what} not found."))


def html_page(status: int) -> httpx.Response:
    phrase = HTTPStatus(status).phrase
    html = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><title>{status} {phrase}</title></head>\n'
        f"<body><h1>{status} {phrase}</h1></body>\n</html>\n"
    )
    return httpx.Response(status, html=html)
