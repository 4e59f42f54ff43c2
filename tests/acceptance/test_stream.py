"""The event stream over HTTP: revoked keys, restarts, and clients that do not read."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from tests.support.http_server import bearer
from tests.support.postgres import TestPostgres
from tests.support.server import Installation, Server, client, installation
from tests.support.sessions import COOKIE, insert_session
from tests.support.sse import TIMEOUT_S, Event, opened

pytestmark = pytest.mark.asyncio(loop_scope="module")

LINK = "https://meet.google.com/abc-defg-hij?pwd=hunter2"
SHORT = {"joinSeconds": 0, "staySeconds": 0}
LONG = {"joinSeconds": 0, "staySeconds": 600}
SESSION_S = 10.0
REVOKED_S = 30.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installed(
    postgres: TestPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Installation]:
    url = postgres.create_database(template)
    async with installation(url, tmp_path_factory.mktemp("streamed")) as made:
        await made.serve()
        yield made
    postgres.drop_database(url)


@pytest.fixture
def server(installed: Installation) -> Server:
    return installed.servers[-1]


async def send(installed: Installation, server: Server, bot_data: Mapping[str, Any] = SHORT) -> int:
    async with installed.client(server) as user:
        answer = await user.post("/v1/bots", json={"meetingUrl": LINK, "botData": dict(bot_data)})
    assert answer.status_code == 201, answer.text
    bot_id: int = answer.json()["bot"]["id"]
    return bot_id


async def new_key(installed: Installation, server: Server) -> tuple[int, str]:
    async with installed.client(server) as admin:
        made = await admin.post("/v1/keys", json={"name": "spare", "scope": "operator"})
    return made.json()["key"]["id"], made.json()["secret"]


def ending_session(installed: Installation, key_id: int) -> dict[str, str]:
    """The dashboard's cookie, with a session that ends soon, but not before its stream opens."""
    session_id = insert_session(installed.database_url, key_id, ends_in_s=SESSION_S)
    return {"Cookie": f"{COOKIE}={session_id}"}


def of_bot(events: list[Event], bot_id: int) -> list[dict[str, Any]]:
    return [event.data for event in events if event.data["botId"] == bot_id]


async def test_ten_streams_get_the_same_events_without_secrets(
    installed: Installation, server: Server
) -> None:
    async def watch(ready: asyncio.Event) -> list[Event]:
        async with opened(server.url, bearer(installed.key)) as stream:
            ready.set()
            return await stream.until(
                "change", kind="slot.status", to="idle", **{"from": "releasing"}
            )

    async with asyncio.TaskGroup() as watching:
        begun = [asyncio.Event() for _ in range(10)]
        streams = [watching.create_task(watch(ready)) for ready in begun]
        for ready in begun:
            await ready.wait()
        bot_id = await send(installed, server)
    received = [stream.result() for stream in streams]
    assert all(events == received[0] for events in received)
    transitions = [(each["from"], each["to"]) for each in of_bot(received[0], bot_id)]
    assert transitions[0] == (None, "PENDING")
    assert ("deploying", "busy") in transitions
    assert transitions[-1] == ("releasing", "idle")
    assert set(received[0][0].data) == {
        "at", "kind", "platform", "botId", "slotId", "slotName", "from", "to", "reason",
        "correlationId", "data",
    }  # fmt: skip
    assert "hunter2" not in repr(received)
    assert installed.key not in repr(received)


async def test_revoked_key_ends_its_stream(installed: Installation, server: Server) -> None:
    key_id, revoked = await new_key(installed, server)
    kept_id, kept = await new_key(installed, server)
    async with (
        # Opened first, so that it is silent for long enough while the others end.
        opened(server.url, {"X-API-Key": kept}) as lasting,
        opened(server.url, bearer(revoked)) as by_key,
        opened(server.url, ending_session(installed, kept_id)) as by_cookie,
    ):
        async with installed.client(server) as admin:
            await admin.delete(f"/v1/keys/{key_id}")
        for stream in (by_key, by_cookie):
            (denied,) = await stream.until("denied")
            assert "no longer valid" in denied.data["reason"]
            assert await stream.rest() == []
        await send(installed, server)
        await lasting.until("change", kind="bot.status", to="PENDING")
        assert lasting.comments, "a silent stream sends comments"


async def test_revoked_key_stops_following_logs(installed: Installation, server: Server) -> None:
    key_id, revoked = await new_key(installed, server)
    bot_id = await send(installed, server, LONG)
    async with (
        client(server.url, revoked) as reader,
        installed.client(server) as admin,
        reader.stream("GET", f"/v1/bots/{bot_id}/logs?follow=true") as answer,
    ):
        assert answer.status_code == 200
        await admin.delete(f"/v1/keys/{key_id}")
        async with asyncio.timeout(REVOKED_S):
            text = (await answer.aread()).decode()
        assert text.endswith("the key is no longer valid.]\n")
        assert (await admin.get(f"/v1/bots/{bot_id}")).json()["bot"]["endedAt"] is None
        await admin.delete(f"/v1/bots/{bot_id}")


async def test_client_that_does_not_read_is_disconnected(
    installed: Installation, server: Server
) -> None:
    port = int(server.url.rpartition(":")[2])
    request = f"GET /v1/events HTTP/1.1\r\nHost: x\r\nX-API-Key: {installed.key}\r\n\r\n"
    with socket.socket() as client:
        client.connect(("127.0.0.1", port))
        client.sendall(request.encode())
        await asyncio.to_thread(client.recv, 1)
        async with opened(server.url, bearer(installed.key)) as reading:
            for n in range(4):
                written = asyncio.to_thread(write_much, installed.database_url, f"round {n}")
                await asyncio.gather(written, reading.until("change", kind=f"last of round {n}"))
        received = await asyncio.to_thread(read_to_the_end, client)
    assert received.count(b"event: reset") == 1
    assert b"was not read" in received[-1000:]
    assert 0 < received.count(b"event: change") < 4 * 4001


async def test_stream_resumes_after_a_restart(installed: Installation, server: Server) -> None:
    async with opened(server.url, bearer(installed.key)) as stream:
        first = await send(installed, server)
        before = await stream.until("change", kind="slot.status", to="idle", botId=first)
        stopping = asyncio.create_task(server.stop())
        # The response ends in order and at once.
        await stream.rest()
        assert await stopping == 0
    again = await installed.serve()
    second = await send(installed, again)
    async with opened(again.url, bearer(installed.key), before[0].id) as stream:
        after = await stream.until("change", kind="slot.status", to="idle", botId=second)
    assert {each.kind for each in after} == {"change"}
    assert of_bot(after, first) == of_bot(before[1:], first), (
        "not exactly the events after the first"
    )
    async with installed.client(again) as user:
        history = (await user.get(f"/v1/bots/{second}/events")).json()["events"]
    of_history = [(row["at"], row["kind"], row["to"]) for row in history]
    of_stream = [(row["at"], row["kind"], row["to"]) for row in of_bot(after, second)]
    assert of_stream == of_history, "the new server must stream every row"
    async with opened(again.url, bearer(installed.key), "nonsense") as stream:
        (reset,) = await stream.until("reset")
        assert "not one of this installation" in reset.data["reason"]


def write_much(url: str, name: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO history (kind, reason) SELECT 'x', repeat('x', 2000)"
            " FROM generate_series(1, 4000)"
        )
        connection.execute(
            "INSERT INTO history (kind, reason) VALUES (%s, 'x')", [f"last of {name}"]
        )


def read_to_the_end(client: socket.socket) -> bytes:
    client.settimeout(TIMEOUT_S)
    received = bytearray()
    while not received.endswith(b"\r\n0\r\n\r\n") and (part := client.recv(1 << 20)):
        received += part
    return bytes(received)
