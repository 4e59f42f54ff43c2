"""Thirty bots on Coolify, which restarts containers and changes values: none rejoins, none is lost.

The emulator, `botpool serve` and every bot are processes of their own.
"""

import asyncio
import json
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.coolify_installation import IMAGE, SCALE, Coolify, coolify_installation
from tests.support.invariants import assert_settled

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]

RECORDING_BOT = Path(__file__).parents[1] / "support" / "recording_demo.py"
QUICK = {"joinSeconds": 0.2, "staySeconds": 1}
CRASHES = QUICK | {"crash": True}
AWKWARD: dict[str, Any] = QUICK | {
    "title": "Stand-up #12 # notes",
    "secret": "{{team.SECRET}} {{ project.SECRET }} {{{environment.SECRET}}}",
    "quotes": 'it\'s "quoted" `twice` \\',
    "money": "$HOME ${PATH} $5",
    "emoji": "Zo\u00eb \U0001f600",
}


async def test_thirty_bots_with_crashes_and_awkward_data_end_as_they_should(
    database_url: str, tmp_path: Path
) -> None:
    joined = tmp_path / "joined"
    joined.mkdir()
    command = shlex.join([sys.executable, str(RECORDING_BOT), str(joined)])
    async with (
        Coolify.emulated(SCALE, "--command", command) as coolify,
        coolify_installation(coolify, database_url, tmp_path) as installed,
    ):
        installed.settings["pools.google-meet.max_size"] = "10"
        await installed.serve()
        sent = await asyncio.gather(
            installed.send(22, QUICK), installed.send(5, CRASHES), installed.send(3, AWKWARD)
        )
        ordinary, crashing, awkward = ([bot["id"] for bot in bots] for bots in sent)
        ends = await installed.wait_for_end(within_s=300)

        assert ends == dict.fromkeys(ordinary + awkward, "DONE") | dict.fromkeys(crashing, "FAILED")
        for bot_id in crashing:
            bot = await installed.bot(bot_id)
            assert (bot["failureCode"], bot["attempts"]) == ("container_exited", 1), bot
        received = {path: json.loads(path.read_text()) for path in joined.glob("*.json")}
        joins = Counter(int(path.stem.partition("-")[0]) for path in received)
        assert joins == dict.fromkeys(ends, 1), "every bot joined once"
        for path, data in received.items():
            if int(path.stem.partition("-")[0]) in awkward:
                assert json.loads(data["environment"])["botData"] == data["botData"] == AWKWARD
        state = await coolify.state()
        assert (state["pulls"], state["runningContainers"]) == ({IMAGE: 1}, 0)
        assert coolify.containers() == []
        assert {slot["status"] for slot in await installed.slots()} == {"idle"}
        assert_settled(database_url)
