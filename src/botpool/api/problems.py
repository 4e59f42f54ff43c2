"""Error responses as `application/problem+json`. One table maps domain errors to statuses."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from botpool.api.correlation import correlation_of
from botpool.domain import errors
from botpool.domain.rollouts.errors import NoRollout, RolloutActive, SameRevision

_log = structlog.get_logger()
_MEDIA_TYPE = "application/problem+json"

_TITLES = {
    400: "Malformed request",
    401: "Authentication required",
    403: "Not allowed with this key",
    404: "Not found",
    405: "Method not allowed",
    408: "Request not received in time",
    409: "Conflict",
    413: "Request too large",
    415: "Request is not JSON",
    422: "Invalid request",
    429: "Too many requests",
    431: "Request headers too large",
    500: "Internal error",
    503: "Temporarily unavailable",
}

_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds to wait before a retry.",
        "schema": {"type": "integer"},
    }
}
_HEADERS = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
}

_STATUS: Mapping[type[BaseException], int] = {
    errors.NotFound: 404,
    RolloutActive: 409,
    NoRollout: 409,
    SameRevision: 409,
    errors.UnknownPool: 422,
    errors.MeetingHostRefused: 422,
    errors.UnknownTenant: 422,
    errors.NameTaken: 409,
    errors.WebhookAddressRefused: 422,
    errors.TooManyWebhooks: 409,
    errors.IdempotencyConflict: 409,
    errors.SlotInUse: 409,
    errors.NotReleasableByForce: 409,
    errors.PriorityNotAllowed: 403,
    errors.LimitExceeded: 429,
    errors.QueueFull: 503,
    errors.BotHasEnded: 409,
    errors.BotHasStarted: 409,
    errors.NoReservation: 409,
    errors.JoinTimeRefused: 422,
    errors.TooManyCommands: 409,
    errors.NotAPicture: 415,
    errors.NoFreeSlot: 503,
    errors.PoolDrained: 503,
    errors.ShuttingDown: 503,
    errors.DatabaseUnavailable: 503,
    errors.BackendError: 503,
}


class FieldError(BaseModel):
    field: str
    message: str


class Problem(BaseModel):
    """An error response as defined by RFC 9457."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    limit: str | None = Field(None, description="The setting of the limit that was exceeded.")
    errors: list[FieldError] | None = None


_AGENT_PATHS = ("/v1/agent/", "/api/")
_AGENT_RETRY_S = 5


def problem_response(
    status: int,
    detail: str,
    *,
    kind: str | None = None,
    limit: str | None = None,
    field_errors: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Create an error response."""
    body = Problem(
        type=f"urn:botpool:problem:{kind}" if kind else "about:blank",
        title=_TITLES.get(status, "Error"),
        status=status,
        detail=detail,
        limit=limit,
        errors=list(field_errors) or None,
    )
    return JSONResponse(
        body.model_dump(exclude_none=True),
        status_code=status,
        media_type=_MEDIA_TYPE,
        headers=dict(headers or {}),
    )


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Document error statuses for the `responses` argument of a route.

    Every route that authenticates its callers can refuse those that exceed a limit.
    """
    documented = {*statuses, 429} if 401 in statuses else {*statuses}
    content = {_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {
            "description": _TITLES[status],
            "headers": _HEADERS.get(status, {}),
            "content": content,
        }
        for status in sorted(documented)
    }


def add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(errors.BotpoolError, _on_botpool_error)
    app.add_exception_handler(Exception, _on_unexpected_error)


async def _on_botpool_error(request: Request, error: Exception) -> JSONResponse:
    status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
    if status == 500:
        _log.error("request.failed", exc_info=error)
    headers = {}
    limit: str | None = getattr(error, "limit", None)
    if limit is not None:
        request.app.state.replica.metrics.limit_exceeded(limit)
    if status in (429, 503):
        headers["Retry-After"] = str(_retry_after_s(request, error))
    field_errors = []
    if isinstance(error, errors.UnknownPool):
        field_errors.append(FieldError(field="platform", message=str(error)))
    if isinstance(error, errors.PriorityNotAllowed):
        field_errors.append(FieldError(field="priority", message=str(error)))
    if isinstance(error, errors.MeetingHostRefused):
        field_errors.append(FieldError(field="meetingUrl", message=str(error)))
    if isinstance(error, errors.WebhookAddressRefused):
        field_errors.append(FieldError(field="url", message=str(error)))
    if isinstance(error, errors.UnknownTenant):
        field_errors.append(FieldError(field="tenant", message=str(error)))
    kind = error.problem if isinstance(error, errors.DatabaseUnavailable) else None
    return problem_response(
        status, str(error), kind=kind, limit=limit, field_errors=field_errors, headers=headers
    )


def _retry_after_s(request: Request, error: Exception) -> int:
    """Return when to try again: an agent soon after an outage, else its bot looks silent."""
    after_s: int = getattr(error, "retry_after_s", 2)
    is_outage = isinstance(error, errors.DatabaseUnavailable)
    if is_outage and request.url.path.startswith(_AGENT_PATHS):
        return min(after_s, _AGENT_RETRY_S)
    return after_s


async def _on_unexpected_error(request: Request, error: Exception) -> JSONResponse:
    # This handler runs outside the middleware that binds the correlation id.
    correlation_id = correlation_of(request.headers)
    _log.error(
        "request.failed", path=request.url.path, correlation_id=correlation_id, exc_info=error
    )
    return problem_response(
        500, "Botpool logged the error. Retry the request, or ask the operator for the log."
    )
