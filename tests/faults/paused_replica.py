"""The schedule of a replica that is paused beyond its lease, on any backend.

One replica stops at a call to the backend. Another replica takes over, and a bot joins its call.
Then the first replica continues with its late call, which must not end this bot.
"""

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from tests.faults import replica_paused_at
from tests.faults.load_balancer import LoadBalancer
from tests.support.fixed_port_installation import Body, FixedPortInstallation, wait_for
from tests.support.invariants import assert_settled
from tests.support.server import FINAL, Server, client, none_left

CALLS = ("ensure", "start", "stop", "delete")
KUBERNETES_CALLS = ("prepare", "start", "stop")
"""The create of a Pod, the opening of its gate, and its deletion."""
STARTS = ("ensure", "prepare", "start")
SETTINGS = {"pools.google-meet.max_size": "1", "agent.leave_grace_s": "10"}
BOT = {
    "meetingUrl": "https://meet.google.com/abc-defg-hij",
    "botData": {"joinSeconds": 0, "staySeconds": 3600},
    "queueTimeoutMs": 600_000,
}
WAIT_S = 240.0
"""A generous limit for slow machines; only a broken test waits this long."""


@dataclass(slots=True, kw_only=True)
class PausedReplica:
    """One pool with one slot, and replicas behind a load balancer."""

    installed: FixedPortInstallation
    rng: random.Random

    async def run(self, call: str) -> None:
        paused = await self._serve(call)
        bot = await self._bring_to(call, paused)
        await wait_for("the pause", lambda: is_stopped(paused), within_s=WAIT_S)
        other = await self._serve("none")
        bot = bot or await self._post(other)
        await self._wait_for_call(other, bot)
        await asyncio.sleep(self.rng.uniform(0, 2))
        paused.process.send_signal(signal.SIGCONT)
        await paused.wait_until_ready()
        await self._wait_for_heartbeat(other, bot, since=datetime.now(UTC))
        assert (await self._bot(other, bot))["status"] == "IN_CALL", "the late call ended the bot"
        await self._finish(other)

    async def cancel_during(self, call: str) -> int:
        """Cancel the bot while its start is paused, and run another; returns the cancelled bot."""
        paused = await self._serve(call)
        cancelled = await self._post(paused)
        await wait_for("the pause", lambda: is_stopped(paused), within_s=WAIT_S)
        other = await self._serve("none")
        await self._request(other, "DELETE", f"/v1/bots/{cancelled}")
        following = await self._post(other)
        await self._wait_for_call(other, following)
        paused.process.send_signal(signal.SIGCONT)
        await paused.wait_until_ready()
        await self._wait_for_heartbeat(other, following, since=datetime.now(UTC))
        assert (await self._bot(other, cancelled))["status"] == "CANCELLED"
        assert (await self._bot(other, following))["status"] == "IN_CALL"
        return cancelled

    async def _bring_to(self, call: str, replica: Server) -> int | None:
        """Cause the call; return the bot that must survive it, if there is one already."""
        first = await self._post(replica)
        if call in STARTS:
            return first
        await self._wait_for_call(replica, first)
        if call == "stop":
            following = await self._post(replica)
            await self._request(replica, "DELETE", f"/v1/bots/{first}")
            return following
        (slot,) = (await self._request(replica, "GET", "/v1/slots"))["slots"]
        await self._request(replica, "DELETE", f"/v1/slots/{slot['id']}?force=true")
        return None

    async def _finish(self, replica: Server) -> None:
        """End all bots and check that none is lost, none ran twice and nothing is left over."""
        for bot in await self._bots(replica):
            await self._request(replica, "DELETE", f"/v1/bots/{bot['id']}")

        async def unfinished() -> list[str]:
            bots = [bot["status"] for bot in await self._bots(replica)]
            slots = (await self._request(replica, "GET", "/v1/slots"))["slots"]
            left = [slot["status"] for slot in slots if slot["status"] != "idle"]
            return [status for status in bots if status not in FINAL] + left

        await none_left("unfinished bots and slots", unfinished, within_s=WAIT_S)
        assert {bot["attempts"] for bot in await self._bots(replica)} == {1}
        assert_settled(self.installed.database_url)

    async def _serve(self, call: str) -> Server:
        script = str(Path(replica_paused_at.__file__))
        self.installed.command = (sys.executable, script, call)
        server = self.installed.launch()
        await server.wait_until_ready()
        return server

    async def _post(self, replica: Server) -> int:
        bot_id: int = (await self._request(replica, "POST", "/v1/bots", json=BOT))["bot"]["id"]
        return bot_id

    async def _bots(self, replica: Server) -> Sequence[Body]:
        bots: list[Body] = (await self._request(replica, "GET", "/v1/bots"))["bots"]
        return bots

    async def _bot(self, replica: Server, bot_id: int) -> Body:
        bot: Body = (await self._request(replica, "GET", f"/v1/bots/{bot_id}"))["bot"]
        return bot

    async def _wait_for_call(self, replica: Server, bot_id: int) -> None:
        async def in_call() -> bool:
            return bool((await self._bot(replica, bot_id))["status"] == "IN_CALL")

        await wait_for(f"bot {bot_id} in its call", in_call, within_s=WAIT_S)

    async def _wait_for_heartbeat(self, replica: Server, bot_id: int, *, since: datetime) -> None:
        """Wait for a heartbeat, or for the end of the bot."""

        async def is_there() -> bool:
            bot = await self._bot(replica, bot_id)
            at = bot["lastHeartbeatAt"]
            is_fresh = at is not None and datetime.fromisoformat(at) > since
            return is_fresh or bot["status"] in FINAL

        await wait_for(f"a heartbeat of bot {bot_id}", is_there, within_s=WAIT_S)

    async def _request(self, replica: Server, method: str, path: str, **more: Any) -> Any:
        async with client(replica.url, self.installed.key) as user:
            response = await user.request(method, path, **more)
        assert response.is_success, response.text
        return response.json()


async def is_stopped(server: Server) -> bool:
    return bool(psutil.Process(server.process.pid).status() == psutil.STATUS_STOPPED)


@asynccontextmanager
async def behind_load_balancer(
    installed: FixedPortInstallation, seed: int
) -> AsyncIterator[PausedReplica]:
    """Let the agents call a load balancer, which leaves out a paused replica after a while."""
    async with LoadBalancer.running(installed.servers) as balancer:
        public = {"server.public_url": balancer.url}
        installed.settings = {**installed.settings, **SETTINGS, **public}
        try:
            yield PausedReplica(installed=installed, rng=random.Random(seed))
        except BaseException as error:
            error.add_note(f"Replay this schedule with --fault-seed={seed}.")
            raise
