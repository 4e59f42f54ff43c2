"""Limits of keys, queues and agents: 429 or 503 with Retry-After and the name of the limit."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from botpool.domain.errors import LimitExceeded, QueueFull
from botpool.domain.limits import EventLimits, Limits, Rate
from botpool.domain.policy import Policy
from tests.support.clock import Clock
from tests.support.http_server import LINK, Api, api_over, assert_problem
from tests.support.replicas import TEAMS, Stage, bot_request, pool
from tests.support.statement_log import record_statements

REQUESTS, POSTS = "limits.requests_per_minute", "limits.posts_per_minute"
BOT = {"meetingUrl": LINK}


def limits(**changes: Any) -> Policy:
    return Policy(limits=Limits(**changes))


def rate(limit: str, per_minute: int, burst: int) -> Rate:
    return Rate(limit=limit, per_minute=per_minute, burst=burst)


def assert_limited(answer: httpx.Response, status: int, limit: str) -> int:
    """Check a refusal that names its limit; returns its Retry-After."""
    problem = assert_problem(answer, status, limit)
    assert problem["limit"] == limit
    wait_s = int(answer.headers["retry-after"])
    assert wait_s >= 1
    return wait_s


# Token buckets of keys.


async def test_key_may_post_a_burst_and_then_its_rate(stage: Stage, clock: Clock) -> None:
    """1,500 posts of 65 KB in 23 s, scaled down: a tenth of all figures."""
    clock.freeze("2026-01-05T10:00:00Z")
    policy = limits(posts=rate(POSTS, 60, 100))
    async with api_over(stage, pool(0), policy=policy) as api:
        answers = [await api.post("/v1/bots", BOT) for _ in range(150)]
        assert Counter(answer.status_code for answer in answers) == {201: 100, 429: 50}
        assert_limited(answers[-1], 429, POSTS)
        assert len(stage.rows("SELECT id FROM bots")) == 100
        # Another key has a bucket of its own, and other requests go on.
        assert (
            await api.client.post("/v1/bots", json=BOT, headers=api.operator)
        ).status_code == 201
        assert (await api.client.get("/v1/bots", headers=api.user)).status_code == 200
        text = (await api.client.get("/metrics", headers=api.operator)).text
        assert f'botpool_limit_refusals_total{{limit="{POSTS}"}} 50.0' in text


async def test_default_limits_admit_a_burst_of_hundreds_of_bots(stage: Stage) -> None:
    async with api_over(stage, pool(0)) as api:
        answers = await asyncio.gather(*(api.post("/v1/bots", BOT) for _ in range(400)))
    assert {answer.status_code for answer in answers} == {201}


async def test_bucket_is_shared_by_the_replicas(stage: Stage, clock: Clock) -> None:
    """Concurrent requests at three replicas get the burst once, and after a minute the rate."""
    clock.freeze("2026-01-05T10:00:00Z")
    limit = rate(POSTS, 20, 50)
    buckets = [(await stage.replica(pool(0))).token_buckets for _ in range(3)]

    async def take(n: int) -> bool:
        try:
            await buckets[n % 3].take("key:1", limit)
        except LimitExceeded as error:
            assert error.limit == POSTS
            return False
        return True

    assert sum(await asyncio.gather(*(take(n) for n in range(200)))) == 50
    assert stage.rows("SELECT bucket FROM token_buckets") == [{"bucket": f"{POSTS} key:1"}]
    for replica in stage.replicas:
        replica.token_buckets._shares.clear()
    clock.move(60)
    assert sum(await asyncio.gather(*(take(n) for n in range(200)))) == 20


async def test_refused_request_costs_no_statement(
    stage: Stage, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.freeze("2026-01-05T10:00:00Z")
    replica = await stage.replica(pool(0))
    limit = rate(POSTS, 1, 1)
    await replica.token_buckets.take("key:1", limit)
    statements = record_statements(monkeypatch)
    for _ in range(20):
        with pytest.raises(LimitExceeded):
            await replica.token_buckets.take("key:1", limit)
    assert statements.single == ["take_tokens"]


async def test_tokens_are_taken_in_advance(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One statement for a hundred requests: admission stays one round trip."""
    replica = await stage.replica(pool(0))
    statements = record_statements(monkeypatch)
    for _ in range(300):
        await replica.token_buckets.take("key:1", Limits().posts)
    assert statements.single == ["take_tokens"] * 3


async def test_all_requests_of_a_key_are_limited(stage: Stage, clock: Clock) -> None:
    clock.freeze("2026-01-05T10:00:00Z")
    policy = limits(requests=rate(REQUESTS, 60, 5))
    async with api_over(stage, pool(0), policy=policy) as api:
        for _ in range(5):
            assert (await api.client.get("/v1/queue", headers=api.user)).status_code == 200
        assert_limited(await api.client.get("/v1/queue", headers=api.user), 429, REQUESTS)
        assert_limited(await api.post("/v1/bots", BOT), 429, REQUESTS)
        # A request without a valid key takes no token of anybody.
        assert (await api.client.get("/v1/queue")).status_code == 401
        assert (await api.client.get("/v1/queue", headers=api.operator)).status_code == 200


# The queue's length and the lowest priority.


async def test_queue_has_a_maximum_length(stage: Stage) -> None:
    """Exact under concurrent requests at two replicas, and each pool has its own queue."""
    policy = limits(queue_length=100)
    async with api_over(stage, pool(0), pool(0, TEAMS), policy=policy) as api:
        other = await stage.replica(pool(0), pool(0, TEAMS), policy=policy)
        answers, outcomes = await asyncio.gather(
            asyncio.gather(*(api.post("/v1/bots", BOT) for _ in range(65))),
            asyncio.gather(
                *(other.admission.admit(bot_request()) for _ in range(65)), return_exceptions=True
            ),
        )
        refused = [answer for answer in answers if answer.status_code != 201]
        full = [outcome for outcome in outcomes if isinstance(outcome, QueueFull)]
        assert len(refused) + len(full) == 30
        more = await api.post("/v1/bots", BOT)
        for answer in (*refused, more):
            assert_limited(answer, 503, "queue.max_length")
        assert len(stage.rows("SELECT id FROM bots")) == 100
        assert len(stage.rows("SELECT bot_id FROM bot_pool_queue")) == 100
        assert (await api.create(platform="teams"))["queuePosition"] == 1
        first = (await api.client.get("/v1/queue", headers=api.user)).json()["queue"][0]["botId"]
        await api.delete(f"/v1/bots/{first}")
        await api.create()
        assert_limited(await api.post("/v1/bots", BOT), 503, "queue.max_length")


async def test_repeated_request_returns_its_bot_while_the_queue_is_full(stage: Stage) -> None:
    async with api_over(stage, pool(0), policy=limits(queue_length=1)) as api:
        key = {"Idempotency-Key": "again"}
        first = await api.post("/v1/bots", BOT, **key)
        again = await api.post("/v1/bots", BOT, **key)
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.json()["bot"]["id"] == first.json()["bot"]["id"]
        assert_limited(
            await api.post("/v1/bots", BOT, **{"Idempotency-Key": "other"}), 503, "queue.max_length"
        )
        assert len(stage.rows("SELECT key FROM idempotency_keys")) == 1


async def test_full_queue_refuses_no_bot_that_finds_a_slot(stage: Stage) -> None:
    async with api_over(stage, pool(3), policy=limits(queue_length=1)) as api:
        statuses = [(await api.post("/v1/bots", BOT)).status_code for _ in range(5)]
    assert statuses == [201, 201, 201, 201, 503]


async def test_key_has_a_lowest_priority(stage: Stage) -> None:
    """A user's key cannot take the first place with -2147483647; an operator's can."""
    async with api_over(stage, pool(0)) as api:
        body = BOT | {"priority": -2147483647}
        problem = assert_problem(await api.post("/v1/bots", body), 403, "may use 0 or more")
        assert problem["errors"][0]["field"] == "priority"
        assert not stage.rows("SELECT id FROM bots")
        assert (await api.post("/v1/bots", BOT | {"priority": 0})).status_code == 201
        first = await api.client.post("/v1/bots", json=body, headers=api.operator)
        assert first.json()["queuePosition"] == 1
        created = await api.client.post(
            "/v1/keys", json={"name": "batch", "minPriority": 200}, headers=api.admin
        )
        assert created.json()["key"]["minPriority"] == 200
        headers = {"Authorization": f"Bearer {created.json()['secret']}"}
        refused = await api.client.post("/v1/bots", json=BOT, headers=headers)
        assert_problem(refused, 403, "may use 200 or more, not 100")
        listed = (await api.client.get("/v1/keys", headers=api.admin)).json()["keys"]
        assert [key["minPriority"] for key in listed] == [0, -2147483647, -2147483647, 200]


# The events of an assignment.


async def send_events(api: Api, bot_id: int, count: int, size: int = 0) -> httpx.Response:
    events = [{"kind": "chat", "data": {"text": "x" * size}} for _ in range(count)]
    return await api.client.post(
        f"/v1/agent/bots/{bot_id}/events", json={"events": events}, headers=api.agent(bot_id)
    )


def stored(stage: Stage) -> int:
    (row,) = stage.rows("SELECT count(*) AS n FROM history WHERE kind = 'agent.chat'")
    return int(row["n"])


async def test_flood_of_events_is_refused(stage: Stage) -> None:
    """12,500 events of 8 KB from one container: at most 8 MiB of them are kept."""
    async with api_over(stage, pool(1)) as api:
        bot = await api.running()
        answers = [await send_events(api, bot["id"], 100, 8_000) for _ in range(125)]
        codes = Counter(answer.status_code for answer in answers)
        assert set(codes) == {200, 429}
        assert stored(stage) == 100 * codes[200]
        assert stored(stage) * 8_000 <= 8 * 1024 * 1024
        wait_s = assert_limited(answers[-1], 429, "limits.event_bytes_per_assignment")
        assert wait_s > 60
        # Statuses and heartbeats go on.
        for path, body in (("status", {"status": "IN_CALL"}), ("heartbeat", None)):
            answer = await api.client.post(
                f"/v1/agent/bots/{bot['id']}/{path}", json=body, headers=api.agent(bot["id"])
            )
            assert answer.status_code == 200, answer.text
        reads = await asyncio.gather(
            *(
                api.client.get(f"/v1/bots/{bot['id']}/events?limit=500", headers=api.user)
                for _ in range(4)
            )
        )
        assert all(len(answer.content) < 1_200_000 for answer in reads)


async def test_events_have_a_rate_and_a_number(stage: Stage, clock: Clock) -> None:
    clock.freeze("2026-01-05T10:00:00Z")
    policy = limits(events=EventLimits(count=250, bytes=10**6, per_minute=60, burst=100))
    async with api_over(stage, pool(1), policy=policy) as api:
        bot = (await api.running())["id"]
        assert (await send_events(api, bot, 100)).json() == {"recorded": 100}
        wait_s = assert_limited(await send_events(api, bot, 30), 429, "limits.events_per_minute")
        assert wait_s == 30
        assert stored(stage) == 100
        api.replica.agents.event_refusals._refusals.clear()
        clock.move(30)
        assert (await send_events(api, bot, 30)).json() == {"recorded": 30}
        clock.move(600)
        assert (await send_events(api, bot, 100)).json() == {"recorded": 100}
        clock.move(600)
        answer = await send_events(api, bot, 21)
        assert_limited(answer, 429, "limits.events_per_assignment")
        assert stored(stage) == 230
        # The limits belong to the assignment: the next bot in the slot has its own.
        await api.client.post(
            f"/v1/agent/bots/{bot}/status", json={"status": "DONE"}, headers=api.agent(bot)
        )
        await stage.settle(api.replica)
        assert (await send_events(api, (await api.running())["id"], 100)).status_code == 200


async def test_events_have_a_number_of_bytes(stage: Stage) -> None:
    policy = limits(events=EventLimits(count=100, bytes=10_000, per_minute=0, burst=100))
    async with api_over(stage, pool(1), policy=policy) as api:
        bot = (await api.running())["id"]
        assert (await send_events(api, bot, 1, 6_000)).status_code == 200
        answer = await send_events(api, bot, 1, 6_000)
        assert_limited(answer, 429, "limits.event_bytes_per_assignment")
    assert stored(stage) == 1


async def test_limits_of_events_are_exact_under_concurrent_calls(stage: Stage) -> None:
    policy = limits(events=EventLimits(count=100, bytes=10**6, per_minute=0, burst=100))
    async with api_over(stage, pool(1), policy=policy) as api:
        bot = (await api.running())["id"]
        answers = await asyncio.gather(*(send_events(api, bot, 7) for _ in range(30)))
    assert Counter(answer.status_code for answer in answers)[200] == 14
    assert stored(stage) == 98


async def test_refused_agent_is_refused_again_before_its_body_is_read(stage: Stage) -> None:
    policy = limits(events=EventLimits(count=1, bytes=10**6, per_minute=60, burst=100))
    async with api_over(stage, pool(1), policy=policy) as api:
        bot = (await api.running())["id"]
        await send_events(api, bot, 2)
        broken = await api.client.post(
            f"/v1/agent/bots/{bot}/events",
            content=b"{",
            headers=api.agent(bot) | {"Content-Type": "application/json"},
        )
        assert_limited(broken, 429, "limits.events_per_assignment")


async def test_agent_that_sends_one_request_at_a_time_is_never_refused(stage: Stage) -> None:
    """The token is checked before and after the body is read, and the request counts once."""
    async with api_over(stage, pool(1)) as api:
        bot = (await api.running())["id"]
        for _ in range(70):
            answer = await api.client.post(
                f"/v1/agent/bots/{bot}/heartbeat", json={}, headers=api.agent(bot)
            )
            assert answer.status_code == 200, answer.text
