"""What the asynchronous client adds to the calls: suspending, retries and closed streams."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing

import httpx
import pytest
import stamina

import botpool
from botpool.client import AsyncClient, BotEnded, ResponseLost, Unavailable, WaitedTooLong
from botpool.client.connection import BlockingConnection
from botpool.client.synchronous import run
from tests.support.fake_api import bot_json, problem, slot_json

Answers = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def few_attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("botpool.client.calls._FIRST_PAUSE_S", 0)
    monkeypatch.setattr("botpool.client.changes._RECONNECT_PAUSE_S", 0)
    with stamina.set_testing(True, attempts=4):
        yield


def connected(answers: Answers) -> AsyncClient:
    return AsyncClient("http://botpool.test", "bpk_key", transport=httpx.MockTransport(answers))


def in_turn(*answers: httpx.Response | Exception) -> Answers:
    left = iter(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        following = next(left)
        if isinstance(following, Exception):
            raise following
        return following

    return answer


def bot(status: str) -> httpx.Response:
    return httpx.Response(200, json={"bot": bot_json(status=status)})


async def test_wait_polls_until_the_status_and_tolerates_an_outage() -> None:
    polled: list[str] = []
    answers = [bot("DEPLOYING"), problem(503, "restarting"), bot("JOINING_CALL"), bot("IN_CALL")]
    async with connected(in_turn(*answers)) as client:
        found = await client.wait(7, {"IN_CALL"}, on_poll=lambda each: polled.append(each.status))
    assert found.status == "IN_CALL"
    assert polled == ["DEPLOYING", "DEPLOYING", "JOINING_CALL", "IN_CALL"]


async def test_wait_raises_for_an_ended_bot_and_after_its_timeout() -> None:
    async with connected(in_turn(bot("FAILED"), bot("DEPLOYING"))) as client:
        with pytest.raises(BotEnded):
            await client.wait(7, {"IN_CALL"})
        with pytest.raises(WaitedTooLong):
            await client.wait(7, timeout_s=0)


async def test_failed_connection_is_retried_but_no_lost_response_of_a_release() -> None:
    slot = httpx.Response(200, json={"slot": slot_json(id=3)})
    refused, lost = httpx.ConnectError("refused"), httpx.ReadError("reset")
    async with connected(in_turn(refused, refused, slot, lost, slot)) as client:
        assert (await client.release_slot(3)).id == 3
        with pytest.raises(ResponseLost):
            await client.release_slot(3)


async def test_calls_of_one_client_run_at_the_same_time() -> None:
    arrived = asyncio.Barrier(3)

    async def answer(request: httpx.Request) -> httpx.Response:
        await arrived.wait()
        return httpx.Response(200, json={"bot": bot_json(int(request.url.path[-1]))})

    transport = httpx.MockTransport(answer)
    async with AsyncClient("http://botpool.test", "bpk_key", transport=transport) as client:
        found = await asyncio.gather(*(client.get(number) for number in (1, 2, 3)))
    assert [each.id for each in found] == [1, 2, 3]


async def test_refused_stream_raises_the_refusal() -> None:
    async with connected(in_turn(problem(503, "no output yet"))) as client:
        with pytest.raises(Unavailable, match="no output yet"):
            _ = [part async for part in client.logs(7)]


class Endless(httpx.AsyncByteStream):
    """A stream of events that a client can only leave."""

    closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"id: 1-1-0\n\n"
        reset = json.dumps({"reason": "old"})
        yield f"id: 2-2-0\nevent: reset\ndata: {reset}\n\n".encode()
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        self.closed = True


async def test_left_stream_of_changes_closes_its_connection() -> None:
    stream = Endless()
    async with (
        connected(in_turn(httpx.Response(200, stream=stream))) as client,
        aclosing(client.changes()) as changes,
    ):
        async for change in changes:
            assert change.cursor == "2-2-0"
            break
        assert not stream.closed
    assert stream.closed


def test_synchronous_call_refuses_to_suspend() -> None:
    with pytest.raises(RuntimeError, match="suspended"):
        run(asyncio.sleep(0))


def test_blocking_connection_never_suspends(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    connection = BlockingConnection("http://botpool.test", "k", 1, None)
    run(connection.sleep(0.5))
    run(connection.close())
    assert slept == [0.5]


def test_both_clients_are_exported_by_the_package() -> None:
    assert botpool.AsyncClient is AsyncClient
