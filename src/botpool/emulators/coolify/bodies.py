"""Bodies of requests, read as Laravel and Coolify read them."""

import json
from typing import Any

from botpool.emulators.coolify import http
from botpool.emulators.coolify.fields import trimmed
from botpool.emulators.coolify.http import Answer, Request


class Refusal(Exception):
    """A call that ends early, with this answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def read_json(request: Request) -> dict[str, Any]:
    """The fields of the body and of the query together: Laravel does not keep them apart."""
    media_type = request.headers.get("content-type", "")
    if "/json" not in media_type and "+json" not in media_type:
        raise _not_valid("Content-Type must be application/json.")
    try:
        content = trimmed(json.loads(request.body))
    except (ValueError, RecursionError):
        raise _not_valid("Invalid JSON.") from None
    if not content:
        raise _not_valid("Empty JSON.")
    if not isinstance(content, dict):
        raise _not_valid("Invalid JSON.")
    return {**trimmed(dict(request.query)), **content}


def _not_valid(error: str) -> Refusal:
    return Refusal(http.message(400, "Invalid request.", error=error))
