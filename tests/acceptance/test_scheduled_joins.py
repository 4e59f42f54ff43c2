"""Scheduled bots on real replicas and processes: exact bookings, killed replicas, join times.

The clock of the database is moved, so that an hour passes at once; replicas, containers and agents
are real. `make test` books eight bots for a pool of five and judges by PostgreSQL's times alone.
`make test-long` books fifty for a pool of forty and requires every reserved bot within 5 s.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.clock import Clock
from tests.support.faked_clock_postgres import faked_clock_command, set_clock_file
from tests.support.server import Installation, Server, installation, none_left

HOUR = timedelta(hours=1)
WAIT_S = 300.0
ON_TIME_S = 5.0
BOT = {
    "meetingUrl": "https://meet.google.com/abc-defg-hij",
    "botData": {"joinSeconds": 0, "staySeconds": 3600},
    "expectedDurationMs": 1_800_000,
}
UNJOINED = (
    "SELECT b.id, b.status, b.failure_reason FROM bots b JOIN bookings k ON k.bot_id = b.id"
    " WHERE k.reserved AND k.joined_at IS NULL AND b.id = ANY(%s)"
)
NOT_WAITING = (
    "SELECT b.id, b.status, s.status FROM bots b"
    " LEFT JOIN bot_pool_slots s ON s.assigned_bot_id = b.id"
    " WHERE b.id = ANY(%s) AND NOT (b.status = 'DEPLOYING' AND s.status = 'busy'"
    " AND EXISTS (SELECT FROM assignments a WHERE a.id = s.assignment_id"
    " AND a.agent_called_at IS NOT NULL))"
)


@dataclass(frozen=True, kw_only=True)
class Size:
    slots: int
    reservable: int
    bots: int
    judges_time: bool


LEAN = Size(slots=5, reservable=4, bots=8, judges_time=False)
FULL = Size(slots=40, reservable=32, bots=50, judges_time=True)


async def post(client: httpx.AsyncClient, number: int, join_at: datetime, **more: Any) -> Any:
    return await client.post(
        "/v1/bots",
        headers={"Idempotency-Key": f"bot-{number}"},
        json={**BOT, "joinAt": join_at.isoformat(), **more},
    )


async def all_created(requests: Sequence[Awaitable[Any]]) -> list[dict[str, Any]]:
    responses = await asyncio.gather(*requests)
    assert {each.status_code for each in responses} == {201}, [each.text for each in responses]
    return [each.json()["bot"] for each in responses]


def now_of(booked: Installation) -> datetime:
    ((now,),) = booked.rows("SELECT botpool_now()")
    assert isinstance(now, datetime)
    return now


async def restarted(booked: Installation, server: Server) -> Server:
    """Kill a replica, and start another one at its address."""
    server.kill()
    booked.servers.remove(server)
    return await booked.serve(server.port)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "size", [LEAN, pytest.param(FULL, marks=pytest.mark.long)], ids=["8", "50"]
)
async def test_reserved_bots_join_at_their_time_though_replicas_die(
    database_url: str, clock: Clock, tmp_path: Path, size: Size
) -> None:
    settings = {
        "pools.google-meet.max_size": str(size.slots),
        "pools.google-meet.schedule.reservable": "0.8",
        "agent.heartbeat_interval_ms": "500",
    }
    async with installation(database_url, tmp_path, settings) as booked:
        first = await booked.serve()
        # The second replica's own clock jumps by an hour while the bots wait.
        wall_clock = tmp_path / "wall-clock"
        second = booked.launch(prefix=faked_clock_command(wall_clock))
        await second.wait_until_ready()
        join_at = now_of(booked) + HOUR
        async with booked.client(first) as one, booked.client(second) as two:
            bots = await all_created(
                [post((one, two)[n % 2], n, join_at) for n in range(size.bots)]
            )
            reserved = [bot["id"] for bot in bots if bot["reserved"]]
            assert len(reserved) == size.reservable, "bookings are exact"
            # A moved bot and a cancelled bot leave their capacity to two others.
            moved, cancelled, *kept = reserved
            later = (join_at + 2 * HOUR).isoformat()
            response = await one.patch(f"/v1/bots/{moved}", json={"joinAt": later})
            assert (response.status_code, response.json()["bot"]["reserved"]) == (200, True)
            assert (await two.delete(f"/v1/bots/{cancelled}")).status_code == 202
            more = [post(one, size.bots + n, join_at, requireReservation=True) for n in range(3)]
            answers = [each.status_code for each in await asyncio.gather(*more)]
            assert sorted(answers) == [201, 201, 409], "exactly two get the free capacity"
        expected = [
            bot_id
            for (bot_id,) in booked.rows(
                "SELECT k.bot_id FROM bookings k JOIN bots b ON b.id = k.bot_id"
                " WHERE k.reserved AND b.join_at = %s AND k.ended_at IS NULL",
                join_at,
            )
        ]
        assert set(kept) < set(expected) and len(expected) == size.reservable

        for server in (first, second):  # Between the bookings and the starts.
            server.kill()
        clock.move((join_at - now_of(booked)).total_seconds() - 240)
        booked.servers.clear()
        first = await booked.serve(first.port)
        second = booked.launch(second.port, prefix=faked_clock_command(wall_clock))
        await second.wait_until_ready()
        set_clock_file(wall_clock, 3600)
        first = await restarted(booked, first)  # While the bots start.

        async def not_waiting() -> list[Any]:
            return booked.rows(NOT_WAITING, expected)

        await none_left("reserved bots that do not wait", not_waiting, within_s=WAIT_S)
        assert now_of(booked) < join_at, "no bot joins before its time"
        assert len(booked.rows(UNJOINED, expected)) == len(expected)
        lead_s = 15.0 if size.judges_time else 2.0
        clock.move((join_at - now_of(booked)).total_seconds() - lead_s)

        async def unjoined() -> list[Any]:
            return booked.rows(UNJOINED, expected)

        await none_left("reserved bots that have not joined", unjoined, within_s=WAIT_S)
        joins = booked.rows(
            "SELECT k.bot_id, extract(epoch FROM k.joined_at - %s)::float8,"
            " (SELECT count(*) FROM history h WHERE h.bot_id = k.bot_id"
            "  AND h.to_state = 'JOINING_CALL')"
            " FROM bookings k WHERE k.bot_id = ANY(%s)",
            join_at,
            expected,
        )
        assert {count for *_, count in joins} == {1}, "each bot joins once"
        assert all(late_s >= 0 for _, late_s, _ in joins), joins
        if size.judges_time:
            assert max(late_s for _, late_s, _ in joins) <= ON_TIME_S, joins
        statuses = dict(booked.rows("SELECT id, status FROM bots"))
        assert (statuses[moved], statuses[cancelled]) == ("SCHEDULED", "CANCELLED")
        assert not booked.rows("SELECT FROM assignments WHERE bot_id = ANY(%s)", [moved, cancelled])
