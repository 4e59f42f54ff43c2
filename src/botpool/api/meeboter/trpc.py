"""tRPC 11: batches of calls in one request, and the answers and errors that its client reads."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from botpool.api.meeboter import superjson
from botpool.api.meeboter.superjson import BrokenSuperjson

_CODES = {
    "PARSE_ERROR": (-32700, 400),
    "BAD_REQUEST": (-32600, 400),
    "INTERNAL_SERVER_ERROR": (-32603, 500),
    "UNAUTHORIZED": (-32001, 401),
    "NOT_FOUND": (-32004, 404),
    "METHOD_NOT_SUPPORTED": (-32005, 405),
    "CONFLICT": (-32009, 409),
    "PRECONDITION_FAILED": (-32012, 412),
    "PAYLOAD_TOO_LARGE": (-32013, 413),
    "TOO_MANY_REQUESTS": (-32029, 429),
    "SERVICE_UNAVAILABLE": (-32603, 503),
}
_MAX_CALLS = 100
_HEADERS = {"vary": "trpc-accept", "cache-control": "no-store"}


class TrpcError(Exception):
    """An error of a call, with tRPC's name of its kind."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        return _CODES[self.code][1]

    def answer(self, path: str | None) -> dict[str, Any]:
        """Return the error as tRPC's client reads it."""
        number, status = _CODES[self.code]
        data: dict[str, Any] = {"code": self.code, "httpStatus": status}
        if path is not None:
            data["path"] = path
        data["zodError"] = None
        return {"error": superjson.encode({"message": str(self), "code": number, "data": data})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a batch."""

    path: str
    input: Any
    """The envelope of superjson; None if the call has no input."""

    def decoded(self) -> Mapping[str, Any]:
        """Return the input, which every procedure here takes as an object."""
        try:
            value = superjson.decode(self.input)
        except BrokenSuperjson as error:
            raise TrpcError("BAD_REQUEST", f"{self.path}: {error}") from error
        if not isinstance(value, dict):
            raise TrpcError("BAD_REQUEST", f"{self.path}: the input is no object")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The calls of one request."""

    calls: Sequence[Call]
    is_batch: bool
    """Whether the client expects a list of answers, also for one call."""


def read_batch(request: Request, paths: str, body: bytes) -> Batch:
    """Return the calls of a request. A query has its input in the address, others in the body."""
    is_batch = request.query_params.get("batch") == "1"
    text: str | bytes | None = request.query_params.get("input")
    if request.method == "POST":
        text = body
    try:
        sent = superjson.parse(text) if text else {}
    except BrokenSuperjson as error:
        raise TrpcError("PARSE_ERROR", str(error)) from error
    if not is_batch:
        return Batch(calls=[Call(path=paths, input=sent)], is_batch=False)
    names = paths.split(",")
    if len(names) > _MAX_CALLS:
        raise TrpcError("BAD_REQUEST", f"A batch may have at most {_MAX_CALLS} calls.")
    if not isinstance(sent, dict) or not sent.keys() <= {str(each) for each in range(len(names))}:
        raise TrpcError("BAD_REQUEST", '"input" needs to be an object with one entry per call.')
    calls = [Call(path=name, input=sent.get(str(at))) for at, name in enumerate(names)]
    return Batch(calls=calls, is_batch=True)


def respond(answers: Sequence[dict[str, Any]], statuses: Sequence[int], *, batch: bool) -> Response:
    """Return the response of a batch; its status is 207 if the calls have different outcomes."""
    kinds = set(statuses)
    status = kinds.pop() if len(kinds) == 1 else 207
    return _response(list(answers) if batch else answers[0], status)


def refuse(error: TrpcError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response to a request that cannot be read. It holds for all calls of its batch."""
    return _response(error.answer(None), error.status, headers)


def _response(body: Any, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        json.dumps(body, separators=(",", ":")),
        status_code=status,
        media_type="application/json",
        headers={**_HEADERS, **(headers or {})},
    )
