"""An installation on Coolify from the API to the agents, all of them real processes.

Only Coolify is emulated; its minutes pass in seconds, and its statuses lag as they do in reality.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from tests.support.coolify_installation import (
    IMAGE,
    Coolify,
    CoolifyInstallation,
    coolify_installation,
)
from tests.support.fixed_port_installation import wait_for
from tests.support.invariants import assert_settled
from tests.support.server import client, get

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]

POOL_NAME = "google-meet"
SHORT_CALL = {"joinSeconds": 0.2, "staySeconds": 1}
LONG_CALL = {"joinSeconds": 0.2, "staySeconds": 3600}
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@pytest.fixture
async def coolify() -> AsyncIterator[Coolify]:
    async with Coolify.emulated() as emulated:
        yield emulated


@pytest.fixture
async def installed(
    coolify: Coolify, database_url: str, tmp_path: Path
) -> AsyncIterator[CoolifyInstallation]:
    """An installation with one replica on a cold Coolify; afterwards no container may run."""
    async with coolify_installation(coolify, database_url, tmp_path) as installed:
        await installed.serve()
        yield installed
        assert_settled(database_url)
        assert (await coolify.state())["runningContainers"] == 0
        assert coolify.containers() == []


async def test_simultaneous_bots_pull_once_and_a_deleted_application_is_recreated(
    installed: CoolifyInstallation,
) -> None:
    coolify = installed.coolify
    await coolify.hold_next_pull()
    async with coolify.recorded_descriptions() as described:
        bots = await installed.send(3, LONG_CALL)
        assert [bot["status"] for bot in bots] == ["DEPLOYING"] * 3

        async def one_leads() -> bool:
            return await installed.phases() == ["starting", *["waiting_for_image"] * 2]

        await wait_for("a leader and two waiting slots", one_leads)
        (leader,) = await installed.leaders()
        (leading,) = [slot for slot in await installed.slots() if slot["phase"] == "starting"]
        assert leading["assignedBotId"] == leader
        assert coolify.containers() == []
        await coolify.finish_held_pull()

        await assert_busy_only_while_container_runs(installed, leader)
        await assert_output_is_readable_while_running(installed, leader)
        await installed.wait_for_in_call(*bots)
        await wait_for("descriptions of busy slots", lambda: all_described(described, "[BUSY]"))
        for bot in bots:
            await installed.call("DELETE", f"/v1/bots/{bot['id']}")
        assert await installed.wait_for_end() == {bot["id"]: "DONE" for bot in bots}
        await wait_for("descriptions of idle slots", lambda: all_described(described, "[IDLE]"))

    assert (await coolify.state())["pulls"] == {IMAGE: 1}
    assert await installed.leaders() == [leader]
    for bot in bots:
        assert_described_in_order(described[bot["slotName"]], bot["id"])
        await assert_history_names_leader(installed, bot["id"], leader=leader)

    await assert_deleted_application_is_recreated(installed)
    assert (await coolify.state())["pulls"] == {IMAGE: 1}
    assert max((await coolify.state())["requestsByMinute"]) <= 200


async def assert_busy_only_while_container_runs(
    installed: CoolifyInstallation, leader: int
) -> None:
    """The bot is DEPLOYING and its slot `deploying` until a container runs; then `busy`."""

    async def in_call() -> bool:
        bot = await installed.bot(leader)
        slots = {slot["assignedBotId"]: slot["status"] for slot in await installed.slots()}
        running = bool(installed.coolify.containers())
        assert running or (bot["status"], slots[leader]) == ("DEPLOYING", "deploying")
        return (bot["status"], slots[leader]) == ("IN_CALL", "busy")

    await wait_for("the leader's call", in_call)


async def assert_output_is_readable_while_running(
    installed: CoolifyInstallation, bot_id: int
) -> None:
    """Coolify returns the output once its own status shows the container running."""

    async def shown() -> bool:
        assert (await installed.bot(bot_id))["status"] == "IN_CALL"
        return "in call" in await installed.bot_output(bot_id)

    await wait_for("the bot's output", shown)


async def all_described(described: Mapping[str, list[str]], prefix: str) -> bool:
    return all(texts[-1].startswith(prefix) for texts in described.values())


def assert_described_in_order(texts: list[str], bot_id: int) -> None:
    """Check the order of the descriptions, from that of the creation; DEPLOYING may be skipped."""
    assert re.fullmatch(
        rf"Slot of Botpool's pool {POOL_NAME}\n"
        rf"(\[DEPLOYING\] Bot #{bot_id} - {TIME}\n)?"
        rf"\[BUSY\] Bot #{bot_id} - {TIME}\n"
        rf"\[IDLE\] Available - Last used: {TIME}",
        "\n".join(texts),
    ), texts


async def assert_history_names_leader(
    installed: CoolifyInstallation, bot_id: int, *, leader: int
) -> None:
    """Check that the history records which slot led and which slots waited."""
    reasons = [event["reason"] for event in await installed.events(bot_id)]
    assert ("leads the pull of its image" in reasons) is (bot_id == leader)
    assert ("the image is present" in reasons) is (bot_id != leader)


async def assert_deleted_application_is_recreated(installed: CoolifyInstallation) -> None:
    """Delete all applications on Coolify: the next bot gets a new one without another pull."""
    before = {slot["name"]: slot["containerId"] for slot in await installed.slots()}
    await asyncio.gather(*map(installed.coolify.delete, before.values()))
    (bot,) = await installed.send(1, SHORT_CALL)
    assert (await installed.wait_for_end())[bot["id"]] == "DONE"
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


async def test_restarted_replica_keeps_the_leader_of_a_pull(
    installed: CoolifyInstallation,
) -> None:
    await installed.coolify.hold_next_pull()
    bots = await installed.send(3, SHORT_CALL)
    await wait_for("a pull", lambda: pulling(installed.coolify))
    (leader,) = await installed.leaders()
    installed.servers[0].kill()
    assert installed.coolify.containers() == []
    await installed.serve()
    assert installed.coolify.containers() == []
    assert "waiting_for_image" in await installed.phases()
    await installed.coolify.finish_held_pull()

    assert await installed.wait_for_end() == {bot["id"]: "DONE" for bot in bots}
    assert await installed.leaders() == [leader]
    assert (await installed.coolify.state())["pulls"] == {IMAGE: 1}
    assert {bot["attempts"] for bot in [await installed.bot(each["id"]) for each in bots]} == {1}


async def pulling(coolify: Coolify) -> bool:
    return bool((await coolify.state())["pulls"])


@pytest.mark.long
async def test_next_slot_leads_when_the_leader_is_cancelled_during_its_pull(
    installed: CoolifyInstallation,
) -> None:
    await installed.coolify.hold_next_pull()
    bots = {bot["id"] for bot in await installed.send(3, SHORT_CALL)}
    await wait_for("a pull", lambda: pulling(installed.coolify))
    (leader,) = await installed.leaders()
    stopped = await installed.call("DELETE", f"/v1/bots/{leader}")
    assert stopped["bot"]["status"] == "CANCELLED"

    expected = {bot: "CANCELLED" if bot == leader else "DONE" for bot in bots}
    assert await installed.wait_for_end() == expected
    first, second = await installed.leaders()
    assert first == leader and second in bots - {leader}
    assert (await installed.coolify.state())["pulls"] == {IMAGE: 2}
    assert (await installed.bot(leader))["startedAt"] is None


@pytest.mark.parametrize(
    ("changes", "setting", "words"),
    [
        ({"token": "2|wrong-and-secret"}, "backends.coolify.token", "Unauthenticated"),
        ({"project_uuid": "unknown"}, "backends.coolify.project_uuid", "not found"),
    ],
    ids=["wrong token", "unknown project"],
)
async def test_refused_call_names_its_setting_and_fails_the_bot(
    coolify: Coolify,
    database_url: str,
    tmp_path: Path,
    changes: dict[str, str],
    setting: str,
    words: str,
) -> None:
    async with coolify_installation(coolify, database_url, tmp_path, **changes) as installed:
        await installed.serve()
        (bot,) = await installed.send(1, SHORT_CALL)

        async def failed() -> bool:
            return bool((await installed.bot(bot["id"]))["endedAt"])

        await wait_for("the end of the bot", failed)
        ended = await installed.bot(bot["id"])
        assert (ended["status"], ended["failureCode"]) == ("FAILED", "deploy_failed")
        assert setting in ended["failureReason"] and words in ended["failureReason"]
        await assert_reported(installed, setting, words)
        assert "wrong-and-secret" not in str(await installed.events(bot["id"])) + str(ended)
        assert coolify.containers() == []


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"url": "{url}/wrong/api/v1"}, "backends.coolify.url"),
        ({"url": "http://127.0.0.1:9"}, "backends.coolify.url"),
        ({"token": "2|wrong-and-secret"}, "backends.coolify.token"),
    ],
    ids=["wrong path", "no answer", "wrong token"],
)
async def test_wrong_address_or_token_is_reported_at_start_and_to_requests(
    coolify: Coolify, database_url: str, tmp_path: Path, changes: dict[str, str], setting: str
) -> None:
    changes = {name: value.format(url=coolify.url) for name, value in changes.items()}
    async with coolify_installation(coolify, database_url, tmp_path, **changes) as installed:
        await installed.serve()

        async def reported_at_start() -> bool:
            lines = [each for each in installed.log_lines() if each["event"] == "backend.health"]
            return any(setting in each["detail"] and each.get("address") for each in lines)

        await wait_for("a log line that names the setting", reported_at_start)
        address = installed.settings["backends.coolify.url"].removesuffix("/api/v1")
        ready = (await get(f"{installed.url}/readyz")).text
        assert setting in ready and address not in ready
        pool = await installed.command_output("pool", "show", POOL_NAME, "--json")
        assert setting in pool and address in pool
        body = {"meetingUrl": "https://meet.google.com/abc-defg-hij"}
        response = await installed.call("POST", "/v1/bots", json=body)
        assert setting in response["warning"] and address in response["warning"]
        key = await installed.call("POST", "/v1/keys", json={"name": "user", "scope": "user"})
        async with client(installed.url, key["secret"]) as user:
            response = (await user.post("/v1/bots", json=body)).json()
        assert setting in response["warning"] and address not in response["warning"]
        assert coolify.containers() == []


async def test_missing_ability_is_reported_and_bots_run_once_it_is_granted(
    installed: CoolifyInstallation,
) -> None:
    """Without the ability Botpool can neither start nor stop, and the bot still ends."""
    coolify = installed.coolify
    await coolify.fail(missingAbility={"ability": "deploy"})
    (bot,) = await installed.send(1, SHORT_CALL)

    async def refused() -> bool:
        reasons = [event["reason"] for event in await installed.events(bot["id"])]
        return any("backends.coolify.token" in each and "deploy" in each for each in reasons)

    await wait_for("a history that names the setting", refused)
    await assert_reported(installed, "backends.coolify.token", "Missing required permissions")
    assert await installed.wait_for_end() == {bot["id"]: "FAILED"}
    assert coolify.containers() == []

    await coolify.fail(clear=True)
    (later,) = await installed.send(1, SHORT_CALL)
    assert (await installed.wait_for_end())[later["id"]] == "DONE"


async def assert_reported(installed: CoolifyInstallation, setting: str, words: str) -> None:
    """Check readiness, the command line and the log; none of them shows the token."""

    async def is_reported() -> bool:
        response = await get(f"{installed.url}/readyz")
        assert response.status_code == 200
        return not response.json()["backends"]["coolify"]["ok"]

    await wait_for("a readiness report of the failure", is_reported)
    ready = (await get(f"{installed.url}/readyz")).text
    pool = await installed.command_output("pool", "show", POOL_NAME)
    assert all(part in text for part in (setting, words) for text in (ready, pool))
    lines = [line for line in installed.log_lines() if line["event"] == "backend.health"]
    (line,) = [line for line in lines if not line["ok"]]
    assert (line["backend"], setting in line["detail"]) == ("coolify", True)
    token = installed.settings["backends.coolify.token"]
    log = installed.servers[0].log.read_text()
    assert not any(token in text for text in (ready, pool, log))
