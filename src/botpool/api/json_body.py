"""Reads and validates a request for an endpoint that takes FastAPI's `Request` itself.

The errors are those that FastAPI raises for a declared body or header, so that callers get the
same responses from every route.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)

_NO_BODY = object()


async def read_json(request: Request) -> Any:
    """Return the parsed body, or the bytes of a body that is not declared as JSON."""
    try:
        body = await request.body()
        if not body:
            return _NO_BODY
        return json.loads(body) if _declares_json(request) else body
    except json.JSONDecodeError as error:
        raise RequestValidationError(
            [
                {
                    "type": "json_invalid",
                    "loc": ("body", error.pos),
                    "msg": "JSON decode error",
                    "input": {},
                    "ctx": {"error": error.msg},
                }
            ]
        ) from error
    except HTTPException:
        raise
    except Exception as error:
        raise HTTPException(400, "There was an error parsing the body") from error


def validate_body(model: type[M], body: Any) -> M:
    """Return the body as the model, or raise one error for all invalid fields."""
    if body is _NO_BODY:
        raise RequestValidationError(
            [{"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}]
        )
    try:
        return model.model_validate(body, from_attributes=True)
    except ValidationError as error:
        raise _request_error("body", error) from error


def validate_headers(model: type[M], request: Request) -> M:
    """Return the headers that the model's aliases name; an absent header is None."""
    sent = request.headers
    try:
        return model.model_validate({name: sent.get(name) for name in _header_names(model)})
    except ValidationError as error:
        raise _request_error("header", error) from error


@cache
def _header_names(model: type[BaseModel]) -> Sequence[str]:
    return [field.alias for field in model.model_fields.values() if field.alias]


def described_headers(model: type[BaseModel]) -> list[dict[str, Any]]:
    """Return the headers of the model as parameters of an OpenAPI operation."""
    return [
        {"name": name, "in": "header", "required": False, "schema": schema}
        for name, schema in model.model_json_schema()["properties"].items()
    ]


def _declares_json(request: Request) -> bool:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    main, _, subtype = media_type.partition("/")
    return main == "application" and (subtype == "json" or subtype.endswith("+json"))


def _request_error(part: str, error: ValidationError) -> RequestValidationError:
    return RequestValidationError(
        [{**item, "loc": (part, *item["loc"])} for item in error.errors(include_url=False)]
    )
