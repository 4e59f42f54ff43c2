"""A direct route answers as the framework's own does, and a plain request goes past it."""

import json
from typing import Annotated, cast

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.types import Message

from botpool.api.direct_route import direct_route
from botpool.domain.records import ApiKey

JSON = "application/json"
PLAIN = b'{"name": "a"}'


class Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str


def app_of(*, direct: bool) -> tuple[FastAPI, list[str]]:
    """One endpoint, and by which way its callers were let in."""
    ways: list[str] = []

    async def let_in(request: Request, way: str) -> ApiKey:
        ways.append(way)
        if request.headers.get("authorization") != "Bearer key":
            raise HTTPException(401, "no key", {"WWW-Authenticate": "Bearer"})
        return cast("ApiKey", "the key")

    async def by_framework(request: Request) -> ApiKey:
        return await let_in(request, "framework")

    async def by_route(request: Request) -> ApiKey:
        return await let_in(request, "direct")

    async def endpoint(
        sent: Request, key: Annotated[ApiKey, Depends(by_framework)], body: Wanted
    ) -> Response:
        if body.name == "taken":
            raise HTTPException(409, "taken")
        said = {"path": sent.url.path, "key": key, "name": body.name}
        return Response(json.dumps(said), status_code=201, headers={"X-Said": body.name})

    routes = APIRouter()
    kind = direct_route(key_of=by_route, model=Wanted) if direct else APIRoute
    routes.add_api_route("/wanted", endpoint, methods=["POST"], route_class_override=kind)
    app = FastAPI()
    app.include_router(routes)
    return app, ways


async def answer_of(
    app: FastAPI, body: bytes, kind: str | None, key: str
) -> tuple[int, bytes, dict[str, str]]:
    headers = {"Authorization": f"Bearer {key}"} | ({} if kind is None else {"Content-Type": kind})
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
async def test_it_answers_as_the_framework_does(body: bytes, kind: str | None, key: str) -> None:
    direct, _ = app_of(direct=True)
    framework, _ = app_of(direct=False)
    assert await answer_of(direct, body, kind, key) == await answer_of(framework, body, kind, key)


async def test_a_plain_request_goes_past_the_framework() -> None:
    app, ways = app_of(direct=True)
    status, content, _ = await answer_of(app, PLAIN, JSON, "key")
    assert (status, json.loads(content)["name"], ways) == (201, "a", ["direct"])


async def test_one_who_is_gone_before_all_is_sent_is_nobody_s_error() -> None:
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

    direct, ways = app_of(direct=True)
    assert await answered(direct) == await answered(app_of(direct=False)[0])
    assert ways == []


async def test_who_is_not_let_in_is_asked_for_the_key_once() -> None:
    app, ways = app_of(direct=True)
    status, _, _ = await answer_of(app, PLAIN, JSON, "wrong")
    assert (status, ways) == (401, ["direct"])


def test_it_is_described_as_any_other() -> None:
    assert app_of(direct=True)[0].openapi() == app_of(direct=False)[0].openapi()
