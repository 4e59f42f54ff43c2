"""Hot slots on a real Docker daemon: a container waits, gets its bot and ends with it."""

from pathlib import Path

import pytest

from tests.support.docker_installation import docker_installation, pool, publish_image
from tests.support.dockerd import Dockerd
from tests.support.fixed_port_installation import wait_for
from tests.support.registry import Registry


@pytest.mark.timeout(600)
async def test_container_on_standby_gets_its_bot_and_is_replaced(
    dockerd: Dockerd, registry: Registry, database_url: str, tmp_path: Path
) -> None:
    settings = pool("google-meet", publish_image(dockerd, registry), 3)
    settings |= {
        "pools.google-meet.warm.hot": "1",
        "pools.google-meet.warm.idle": "2",
        "pools.google-meet.warm.handover_timeout_s": "60",
    }
    async with docker_installation(dockerd, database_url, tmp_path, **settings) as installed:
        await installed.serve()

        async def floors_are_reached() -> bool:
            slots = await installed.slots()
            idle = [slot for slot in slots if slot["status"] == "idle" and slot["containerId"]]
            ready = installed.rows("SELECT 1 FROM bot_pool_slots WHERE standby = 'ready'")
            return len(ready) == 1 and len(idle) >= 2

        await wait_for("a hot and a warm slot", floors_are_reached, within_s=150)
        (bot,) = await installed.send(1, {"joinSeconds": 0, "staySeconds": 600})
        await installed.wait_for_in_call(bot)
        ((run_id, assignment_id),) = installed.rows("SELECT run_id, id FROM assignments")
        assert run_id < assignment_id, "the container started before its bot"
        assert "joining meet.google.com" in await installed.bot_output(bot["id"])
        await wait_for("a replacement", floors_are_reached, within_s=150)
        assert len(installed.running()) == 2

        await installed.call("DELETE", f"/v1/bots/{bot['id']}")

        async def only_the_standby_runs() -> bool:
            ended = (await installed.bot(bot["id"]))["status"] in ("DONE", "CANCELLED")
            return ended and len(installed.running()) == 1

        await wait_for("the end of the bot's container", only_the_standby_runs, within_s=150)
        cold = installed.rows("SELECT count(*) FROM assignments WHERE run_id IS NULL")
        assert cold == [(0,)]
