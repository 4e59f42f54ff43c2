"""Turns framework errors into problem responses with messages in terms of JSON.

The number and length of messages are limited, whatever the size of the request.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from botpool.api.patterns import DESCRIPTIONS
from botpool.api.problems import FieldError, problem_response

_MAX_ERRORS = 20
_MAX_NAME = 100
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")

_MESSAGES = {
    "missing": "is required",
    "extra_forbidden": "is not a field of this request",
    "model_attributes_type": "should be a JSON object",
    "dict_type": "should be a JSON object",
    "list_type": "should be a JSON array",
    "string_unicode": "should be text without broken Unicode",
    "int_parsing_size": "has too many digits",
}


def add_validation_handlers(app: FastAPI) -> None:
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)


async def _on_validation_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    first = found[0]
    if first["type"] == "json_invalid":
        where = f"{first['ctx']['error']} at character {first['loc'][-1]}"
        return problem_response(400, f"The body is not valid JSON: {where}.")
    # FastAPI parses a body only when its content type is JSON.
    if first["loc"] == ("body",) and isinstance(first["input"], bytes):
        return problem_response(
            415, "Send the body as JSON, with 'Content-Type: application/json'."
        )
    field_errors = [_field_error(item) for item in found[:_MAX_ERRORS]]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    detail = f"{field_errors[0].field}: {field_errors[0].message}{more}"
    return problem_response(422, detail, field_errors=field_errors)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    """Handle errors that the framework or a dependency raises."""
    assert isinstance(error, HTTPException)
    detail, headers = str(error.detail), dict(error.headers or {})
    if error.status_code == 405:
        # Several routes may share a path; the framework lists the methods of only one.
        headers["Allow"] = ", ".join(_allowed_methods(request))
        detail = f"This path allows {headers['Allow']}, not {request.method}."
    elif error.status_code == 404:
        detail = "There is nothing at this path."
    elif error.status_code == 400 and error.__cause__ is not None:
        detail = _unreadable_body(error.__cause__)
    return problem_response(error.status_code, detail, headers=headers)


def _field_error(item: Mapping[str, Any]) -> FieldError:
    name = ".".join(str(part) for part in item["loc"][1:]) or "body"
    message = _MESSAGES.get(item["type"]) or DESCRIPTIONS.get(item.get("ctx", {}).get("pattern"))
    if message is None:
        message = str(item["msg"])
        for prefix in ("Value error, ", "Input ", "String ", "List "):
            message = message.removeprefix(prefix)
    return FieldError(field=name[:_MAX_NAME], message=message)


def _unreadable_body(cause: BaseException) -> str:
    match cause:
        case UnicodeDecodeError():
            return "The body is not UTF-8."
        case RecursionError():
            return "The body is nested too deeply."
        case ValueError():
            return "The body has a number with too many digits."
        case _:
            return "The body could not be read completely."


def _allowed_methods(request: Request) -> list[str]:
    return [
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]
