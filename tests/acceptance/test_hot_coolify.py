"""Hot slots on an emulated Coolify, which restarts every container that ends."""

import json
import shlex
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.coolify_installation import SCALE, Coolify, coolify_installation
from tests.support.fixed_port_installation import FixedPortInstallation, wait_for

pytestmark = pytest.mark.timeout(600)

RECORDING_BOT = Path(__file__).parents[1] / "support" / "recording_demo.py"
CALL = {"joinSeconds": 0.2, "staySeconds": 600}


async def wait_for_standby(installed: FixedPortInstallation, newer_than: int = 0) -> int:
    """Wait until a standby polls, and return its run."""
    query = "SELECT run_id FROM bot_pool_slots WHERE standby = 'ready' AND run_id > %s"

    async def is_ready() -> bool:
        return bool(installed.rows(query, newer_than))

    await wait_for("a hot slot", is_ready, within_s=150)
    return int(installed.rows(query, newer_than)[0][0])


async def test_restarted_standby_gets_its_bot_and_a_crashed_bot_does_not_join_again(
    database_url: str, tmp_path: Path
) -> None:
    joined = tmp_path / "joined"
    joined.mkdir()
    command = shlex.join([sys.executable, str(RECORDING_BOT), str(joined)])
    async with (
        Coolify.emulated(SCALE, "--command", command) as coolify,
        coolify_installation(coolify, database_url, tmp_path) as installed,
    ):
        installed.settings |= {
            "pools.google-meet.max_size": "2",
            "pools.google-meet.warm.hot": "1",
            "pools.google-meet.warm.handover_timeout_s": "60",
        }
        await installed.serve()
        first_run = await wait_for_standby(installed)
        # Coolify restarts the container; its second boot polls with the same token.
        for process in coolify.containers():
            process.kill()
        (bot,) = await installed.send(1, CALL)
        await installed.wait_for_in_call(bot)
        ((run_id,),) = installed.rows("SELECT run_id FROM assignments WHERE bot_id = %s", bot["id"])
        assert run_id == first_run, "the second boot accepted the bot"
        await installed.call("DELETE", f"/v1/bots/{bot['id']}")

        await wait_for_standby(installed, first_run)
        (crashing,) = await installed.send(1, CALL | {"crash": True})

        async def has_failed() -> bool:
            return (await installed.bot(crashing["id"]))["status"] == "FAILED"

        await wait_for("the failed bot", has_failed, within_s=150)
        failed = await installed.bot(crashing["id"])
        assert (failed["failureCode"], failed["attempts"]) == ("container_exited", 1), failed
        await installed.call("POST", "/v1/pools/google-meet/drain")

        async def nothing_runs() -> bool:
            return (await coolify.state())["runningContainers"] == 0

        await wait_for("the end of all containers", nothing_runs, within_s=150)
        joins = Counter(int(path.stem.partition("-")[0]) for path in joined.glob("*.json"))
        assert joins == {bot["id"]: 1, crashing["id"]: 1}, "every bot joined once"
        assert json.loads(next(iter(joined.glob("*.json"))).read_text())
