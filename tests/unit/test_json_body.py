"""An endpoint that reads its request itself responds like one with declared parameters."""

import json
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.types import Message

from botpool.api import validation_messages
from botpool.api.json_body import (
    described_headers,
    read_json,
    validate_body,
    validate_headers,
)

JSON = "application/json"
PLAIN = b'{"name": "a"}'


class Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str


class Headers(BaseModel):
    mark: Annotated[str, StringConstraints(max_length=3)] | None = Field(alias="X-Mark")


def app_with(*, declared: bool) -> FastAPI:
    """One endpoint, which declares its parameters or reads the request itself."""

    async def require_key(request: Request) -> None:
        if request.headers.get("authorization") != "Bearer key":
            raise HTTPException(401, "no key", {"WWW-Authenticate": "Bearer"})

    def respond(body: Wanted, mark: str | None) -> Response:
        if body.name == "taken":
            raise HTTPException(409, "taken")
        return Response(json.dumps({"name": body.name, "mark": mark}), status_code=201)

    app = FastAPI()
    validation_messages.add_validation_handlers(app)
    if declared:

        @app.post("/wanted", dependencies=[Depends(require_key)])
        async def with_parameters(
            body: Wanted,
            mark: Annotated[str | None, Header(alias="X-Mark", max_length=3)] = None,
        ) -> Response:
            return respond(body, mark)

    else:

        @app.post("/wanted")
        async def with_request(request: Request) -> Response:
            sent = await read_json(request)
            await require_key(request)
            body = validate_body(Wanted, sent)
            return respond(body, validate_headers(Headers, request).mark)

    return app


async def response_of(
    app: FastAPI, body: bytes, kind: str | None, key: str = "key", mark: str | None = None
) -> tuple[int, bytes, dict[str, str]]:
    headers = {"Authorization": f"Bearer {key}"} | ({} if kind is None else {"Content-Type": kind})
    headers |= {} if mark is None else {"X-Mark": mark}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://test"
    ) as client:
        answer = await client.post("/wanted", content=body, headers=headers)
    return answer.status_code, answer.content, dict(answer.headers)


@pytest.mark.parametrize("key", ["key", "wrong"])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (PLAIN, JSON),
        (b'{"name": "taken"}', JSON),
        (PLAIN, "application/json; charset=utf-8"),
        (PLAIN, "Application/JSON"),
        (PLAIN, "application/problem+json"),
        (PLAIN, "text/plain"),
        (PLAIN, None),
        (b"", JSON),
        (b'{"name": ', JSON),
        (b'{"name": 1}', JSON),
        (b'{"name": "a", "other": 1}', JSON),
        (b'"name"', JSON),
        (b"null", JSON),
        (b"\xff\xfe\xff", JSON),
        (b"[" * 100_000, JSON),
        (b"1" * 5_000, JSON),
    ],
)
async def test_response_equals_that_of_a_declared_body(
    body: bytes, kind: str | None, key: str
) -> None:
    read, declared = app_with(declared=False), app_with(declared=True)
    assert await response_of(read, body, kind, key) == await response_of(declared, body, kind, key)


@pytest.mark.parametrize("mark", [None, "abc", "abcd"])
async def test_response_equals_that_of_a_declared_header(mark: str | None) -> None:
    read, declared = app_with(declared=False), app_with(declared=True)
    expected = await response_of(declared, PLAIN, JSON, mark=mark)
    assert expected[0] == (422 if mark == "abcd" else 201)
    assert await response_of(read, PLAIN, JSON, mark=mark) == expected


async def test_response_equals_that_of_a_declared_body_when_the_client_disconnects() -> None:
    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def answered(app: FastAPI) -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"content-type", JSON.encode()), (b"authorization", b"Bearer key")]
        scope = {"type": "http", "method": "POST", "path": "/wanted", "headers": headers}
        await app({**scope, "query_string": b""}, gone, send)
        return sent

    assert await answered(app_with(declared=False)) == await answered(app_with(declared=True))


def test_headers_are_described_as_declared_ones() -> None:
    declared = app_with(declared=True).openapi()["paths"]["/wanted"]["post"]["parameters"]
    assert described_headers(Headers) == declared
