"""The routes of Meeboter's interface: `/api/trpc/…` and screenshots."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import structlog
from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse, Response
from starlette.routing import Route

from botpool.api.auth import MiloToken, replica_of
from botpool.api.meeboter import superjson
from botpool.api.meeboter.multipart import BrokenMultipart, read_multipart
from botpool.api.meeboter.procedures import PROCEDURES, Caller
from botpool.api.meeboter.trpc import Call, TrpcError, read_batch, refuse, respond
from botpool.domain import errors
from botpool.domain.bot_data import MAX_SCREENSHOT_BYTES
from botpool.domain.ids import AssignmentId, BotId

_log = structlog.get_logger()
_TOKEN = MiloToken()
TRPC_PATH = "/api/trpc/"

_HTTP_CODES = {400: "BAD_REQUEST", 401: "UNAUTHORIZED", 429: "TOO_MANY_REQUESTS"}
_CODES: Mapping[type[errors.BotpoolError], str] = {
    errors.NotFound: "NOT_FOUND",
    errors.LimitExceeded: "TOO_MANY_REQUESTS",
    errors.DatabaseUnavailable: "SERVICE_UNAVAILABLE",
    errors.BackendError: "SERVICE_UNAVAILABLE",
    errors.BotHasEnded: "CONFLICT",
    errors.TooManyCommands: "CONFLICT",
}


async def serve_trpc(request: Request) -> Response:
    """Run the calls of a batch in their order and answer all of them."""
    try:
        assignment_id = await _authenticate(request)
        batch = read_batch(request, request.path_params["paths"], await request.body())
    except TrpcError as error:
        return refuse(error)
    except HTTPException as error:
        if error.status_code == 413:
            return too_large_response(error.detail)
        return refuse(TrpcError(_HTTP_CODES[error.status_code], error.detail), error.headers)
    except errors.LimitExceeded as error:
        return refuse(TrpcError("TOO_MANY_REQUESTS", str(error)))
    caller = Caller(replica=replica_of(request), assignment_id=assignment_id)
    answers, statuses = [], []
    for call in batch.calls:
        answer, status = await _answer(caller, call, request.method)
        answers.append(answer)
        statuses.append(status)
    return respond(answers, statuses, batch=batch.is_batch)


async def _answer(caller: Caller, call: Call, method: str) -> tuple[dict[str, Any], int]:
    try:
        return {"result": {"data": superjson.encode(await _run(caller, call, method))}}, 200
    except TrpcError as error:
        return error.answer(call.path), error.status
    except errors.BotpoolError as error:
        kinds = (_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
        failure = TrpcError(next(kinds, "INTERNAL_SERVER_ERROR"), _message_of(error))
        if failure.status == 500:
            _log.error("request.failed", path=call.path, exc_info=error)
        return failure.answer(call.path), failure.status


async def _run(caller: Caller, call: Call, method: str) -> Any:
    procedure = PROCEDURES.get(call.path)
    if procedure is None:
        raise TrpcError("NOT_FOUND", f'No procedure found on path "{call.path[:200]}"')
    if procedure.is_query != (method == "GET"):
        kind = "query" if procedure.is_query else "mutation"
        raise TrpcError(
            "METHOD_NOT_SUPPORTED",
            f'Unsupported {method}-request to {kind} procedure at path "{call.path}"',
        )
    return await procedure.run(caller, call.decoded())


def _message_of(error: errors.BotpoolError) -> str:
    if isinstance(error, errors.NotFound) and error.kind == "bot":
        return f"Bot not found: {error.key}"
    return str(error)


def too_large_response(detail: str) -> Response:
    """Return the response to a request whose body is too large."""
    return refuse(TrpcError("PAYLOAD_TOO_LARGE", detail), {"Connection": "close"})


async def _authenticate(request: Request) -> AssignmentId:
    """Return the assignment of the token. Before the body is read, as for every other route."""
    try:
        return await _TOKEN(request)
    except HTTPException as error:
        if error.status_code == 401:
            error.detail = "Send the assignment's token as X-Milo-Token."
        raise


async def add_screenshot(request: Request) -> Response:
    """Keep a screenshot that a bot sends as a form."""
    bot_id = request.path_params["id"]
    try:
        assignment_id = await _authenticate(request)
        form = read_multipart(request.headers.get("content-type", ""), await request.body())
    except BrokenMultipart as error:
        return _failed(400, str(error))
    except HTTPException as error:
        return _failed(error.status_code, error.detail)
    content = form.get("file", b"")
    if len(content) > MAX_SCREENSHOT_BYTES:
        return _failed(413, f"A screenshot may have at most {MAX_SCREENSHOT_BYTES} bytes.")
    said = {name: _text(form.get(name, b"")) for name in ("type", "state", "trigger")}
    note = " ".join(text for text in said.values() if text)
    try:
        added = await replica_of(request).agent_data.add_screenshot(
            assignment_id, BotId(bot_id), content, note[:200]
        )
    except errors.NotAPicture as error:
        return _failed(400, str(error))
    except errors.NotFound as error:
        return _failed(404, _message_of(error))
    except errors.DatabaseUnavailable as error:
        return _failed(503, str(error))
    if added is None:
        return _failed(412, f"PRECONDITION_FAILED: Bot {bot_id} takes no more screenshots.")
    return JSONResponse(
        {
            "key": f"bots/{bot_id}/screenshots/{added.number}",
            "capturedAt": _iso(added.at),
            "type": said["type"],
            "state": said["state"],
        },
        status_code=201,
    )


def _failed(status: int, detail: str) -> Response:
    return JSONResponse({"error": detail}, status_code=status)


def _text(value: bytes) -> str:
    text = value[:100].decode("utf-8", "replace")
    return "".join(each for each in text if each.isprintable())


def _iso(at: datetime) -> str:
    text: str = superjson.encode(at)["json"]
    return text


routes = [
    Route(TRPC_PATH + "{paths}", serve_trpc, methods=["GET", "POST"]),
    Route("/api/bots/{id:int}/screenshots", add_screenshot, methods=["POST"]),
]
