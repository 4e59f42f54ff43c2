"""The whole way on Coolify: API, gate, platform, containers and agents, all of them real processes.

Only Coolify itself is emulated, with its minutes as seconds and its statuses as late as they are.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from tests.support.coolify_installation import IMAGE, Coolify, CoolifyInstallation, installed_on
from tests.support.fixed_port_installation import reached
from tests.support.invariants import assert_settled
from tests.support.server import get

pytestmark = pytest.mark.alone

PLATFORM = "google-meet"
STAYS = {"joinSeconds": 0.2, "staySeconds": 1}
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@pytest.fixture
async def coolify() -> AsyncIterator[Coolify]:
    async with Coolify.emulated() as emulated:
        yield emulated


@pytest.fixture
async def installed(
    coolify: Coolify, database_url: str, tmp_path: Path
) -> AsyncIterator[CoolifyInstallation]:
    """Served, on a cold Coolify; nothing of it runs in the end."""
    async with installed_on(coolify, database_url, tmp_path) as installed:
        await installed.serve()
        yield installed
        assert_settled(database_url)
        assert (await coolify.state())["runningContainers"] == 0
        assert coolify.containers() == []


async def test_three_at_once_on_a_cold_server_pull_once_and_a_deleted_application_comes_back(
    installed: CoolifyInstallation,
) -> None:
    coolify = installed.coolify
    async with coolify.descriptions_seen() as described:
        bots = await installed.send(3, STAYS | {"staySeconds": 4})
        assert [bot["status"] for bot in bots] == ["DEPLOYING"] * 3

        async def one_leads() -> bool:
            return await installed.phases() == ["starting", *["waiting_for_image"] * 2]

        await reached("a leader and two who wait", one_leads)
        (leader,) = await installed.leaders()
        (leading,) = [slot for slot in await installed.slots() if slot["phase"] == "starting"]
        assert leading["assignedBotId"] == leader
        assert coolify.containers() == []

        await runs_in_step_with_its_container(installed, leader)
        await shows_its_output_while_it_runs(installed, leader)
        assert await installed.ended() == {bot["id"]: "DONE" for bot in bots}
        await reached("the last descriptions", lambda: all_idle(described))

    assert (await coolify.state())["pulls"] == {IMAGE: 1}
    assert await installed.leaders() == [leader]
    for bot in bots:
        assert_described_in_order(described[bot["slotName"]], bot["id"])
        await followed_or_led(installed, bot["id"], leader=leader)

    await comes_back_when_deleted(installed)
    assert (await coolify.state())["pulls"] == {IMAGE: 1}
    assert max((await coolify.state())["requestsByMinute"]) <= 200


async def runs_in_step_with_its_container(installed: CoolifyInstallation, leader: int) -> None:
    """DEPLOYING and `deploying` until something runs on the machine, and `busy` from then on."""

    async def in_call() -> bool:
        bot = await installed.bot(leader)
        slots = {slot["assignedBotId"]: slot["status"] for slot in await installed.slots()}
        running = bool(installed.coolify.containers())
        assert running or (bot["status"], slots[leader]) == ("DEPLOYING", "deploying")
        return (bot["status"], slots[leader]) == ("IN_CALL", "busy")

    await reached("the leader's call", in_call)


async def shows_its_output_while_it_runs(installed: CoolifyInstallation, bot_id: int) -> None:
    """Coolify gives it once its own status has followed."""

    async def shown() -> bool:
        assert (await installed.bot(bot_id))["status"] == "IN_CALL"
        return "in call" in await installed.read_log_of(bot_id)

    await reached("its output", shown)


async def all_idle(described: Mapping[str, list[str]]) -> bool:
    return all(texts[-1].startswith("[IDLE]") for texts in described.values())


def assert_described_in_order(texts: list[str], bot_id: int) -> None:
    """From the text that it was made with; a state that passed quickly may have been left out."""
    assert re.fullmatch(
        rf"Slot of Botpool's pool {PLATFORM}\n"
        rf"(\[DEPLOYING\] Bot #{bot_id} - {TIME}\n)?"
        rf"\[BUSY\] Bot #{bot_id} - {TIME}\n"
        rf"\[IDLE\] Available - Last used: {TIME}",
        "\n".join(texts),
    ), texts


async def followed_or_led(installed: CoolifyInstallation, bot_id: int, *, leader: int) -> None:
    """The history says who led and who waited."""
    reasons = [event["reason"] for event in await installed.events(bot_id)]
    assert ("leads the pull of its image" in reasons) is (bot_id == leader)
    assert ("the image is present" in reasons) is (bot_id != leader)


async def comes_back_when_deleted(installed: CoolifyInstallation) -> None:
    """All applications are deleted behind our back: the next bot's is made again, warm."""
    before = {slot["name"]: slot["containerId"] for slot in await installed.slots()}
    await asyncio.gather(*map(installed.coolify.delete, before.values()))
    (bot,) = await installed.send(1, STAYS)
    assert (await installed.ended())[bot["id"]] == "DONE"
    after = {slot["name"]: slot["containerId"] for slot in await installed.slots()}
    name = bot["slotName"]
    assert set(after) == set(before)
    assert after[name] != before[name]
    ended = await installed.bot(bot["id"])
    assert (ended["slotName"], ended["containerId"], ended["attempts"]) == (name, after[name], 1)
    (line,) = [
        each for each in installed.log_lines() if each["event"] == "slot.container_recreated"
    ]
    assert (line["old"], line["new"], line["name"]) == (before[name], after[name], name)


async def test_a_control_plane_killed_in_the_middle_of_a_pull_carries_the_same_leader_on(
    installed: CoolifyInstallation,
) -> None:
    # Long enough for a start of the control plane on a busy machine.
    await installed.coolify.fail(pullSlow={"seconds": 800, "times": 1})
    bots = await installed.send(3, STAYS)
    await reached("a pull", lambda: pulling(installed.coolify))
    (leader,) = await installed.leaders()
    installed.servers[0].kill()
    assert installed.coolify.containers() == []
    await installed.serve()
    assert installed.coolify.containers() == [], "too late: the pull is over"
    assert "waiting_for_image" in await installed.phases()

    assert await installed.ended() == {bot["id"]: "DONE" for bot in bots}
    assert await installed.leaders() == [leader]
    assert (await installed.coolify.state())["pulls"] == {IMAGE: 1}
    assert {bot["attempts"] for bot in [await installed.bot(each["id"]) for each in bots]} == {1}


async def pulling(coolify: Coolify) -> bool:
    return bool((await coolify.state())["pulls"])


@pytest.mark.long
async def test_when_the_leader_is_cancelled_in_its_pull_the_next_one_leads(
    installed: CoolifyInstallation,
) -> None:
    bots = {bot["id"] for bot in await installed.send(3, STAYS)}
    await reached("a pull", lambda: pulling(installed.coolify))
    (leader,) = await installed.leaders()
    stopped = await installed.ask("DELETE", f"/v1/bots/{leader}")
    assert stopped["bot"]["status"] == "CANCELLED"

    expected = {bot: "CANCELLED" if bot == leader else "DONE" for bot in bots}
    assert await installed.ended() == expected
    first, second = await installed.leaders()
    assert first == leader and second in bots - {leader}
    assert (await installed.coolify.state())["pulls"] == {IMAGE: 2}
    assert (await installed.bot(leader))["startedAt"] is None


@pytest.mark.parametrize(
    ("changes", "setting", "words"),
    [
        ({"token": "2|wrong-and-secret"}, "backends.coolify.token", "Unauthenticated"),
        ({"project_uuid": "nowhere"}, "backends.coolify.project_uuid", "not found"),
    ],
    ids=["wrong token", "unknown project"],
)
async def test_a_refusal_is_told_with_its_setting_and_fails_the_bot(
    coolify: Coolify,
    database_url: str,
    tmp_path: Path,
    changes: dict[str, str],
    setting: str,
    words: str,
) -> None:
    async with installed_on(coolify, database_url, tmp_path, **changes) as installed:
        await installed.serve()
        (bot,) = await installed.send(1, STAYS)

        async def failed() -> bool:
            return bool((await installed.bot(bot["id"]))["endedAt"])

        await reached("the end of the bot", failed)
        ended = await installed.bot(bot["id"])
        assert (ended["status"], ended["failureCode"]) == ("FAILED", "deploy_failed")
        assert setting in ended["failureReason"] and words in ended["failureReason"]
        await told_everywhere(installed, setting, words)
        assert "wrong-and-secret" not in str(await installed.events(bot["id"])) + str(ended)
        assert coolify.containers() == []


async def test_a_missing_ability_is_told_and_bots_run_when_it_is_given(
    installed: CoolifyInstallation,
) -> None:
    """Without it nothing can be stopped either, but nothing was started: the bot does not hang."""
    coolify = installed.coolify
    await coolify.fail(missingAbility={"ability": "deploy"})
    (bot,) = await installed.send(1, STAYS)

    async def refused() -> bool:
        reasons = [event["reason"] for event in await installed.events(bot["id"])]
        return any("backends.coolify.token" in each and "deploy" in each for each in reasons)

    await reached("a history that names the setting", refused)
    await told_everywhere(installed, "backends.coolify.token", "Missing required permissions")
    assert await installed.ended() == {bot["id"]: "FAILED"}
    assert coolify.containers() == []

    await coolify.fail(clear=True)
    (later,) = await installed.send(1, STAYS)
    assert (await installed.ended())[later["id"]] == "DONE"


async def told_everywhere(installed: CoolifyInstallation, setting: str, words: str) -> None:
    """In readiness, on the command line, and once in the log; nowhere with the token."""

    async def told() -> bool:
        answer = await get(f"{installed.url}/readyz")
        assert answer.status_code == 200
        return not answer.json()["backends"]["coolify"]["ok"]

    await reached("a readiness that tells of it", told)
    ready = (await get(f"{installed.url}/readyz")).text
    pool = await installed.told_operator("pool", "show", PLATFORM)
    assert all(part in text for part in (setting, words) for text in (ready, pool))
    lines = [line for line in installed.log_lines() if line["event"] == "backend.health"]
    (line,) = [line for line in lines if not line["ok"]]
    assert (line["backend"], setting in line["detail"]) == ("coolify", True)
    token = installed.settings["backends.coolify.token"]
    log = installed.servers[0].log.read_text()
    assert not any(token in text for text in (ready, pool, log))
