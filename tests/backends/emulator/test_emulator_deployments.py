"""Deployments: what is true, what is told, and how long it takes."""

from collections.abc import Hashable, Mapping
from dataclasses import replace

import pytest

from botpool.emulators.coolify import Nature, NoProcesses
from tests.backends.emulator.emulated_coolify import EXITED, IMAGE, NO_LAG, Coolify, emulated


async def test_the_truth_and_the_reported_status_are_apart(coolify: Coolify) -> None:
    """Point 1: changes show after up to a minute, in both directions."""
    lags = []
    for number in range(10):
        uuid = await coolify.running(name=f"bot-{number}")
        await coolify.stop(uuid)
        while coolify.truth(uuid):
            coolify.wait(1)
        since = coolify.clock.now()
        while await coolify.status(uuid) != EXITED:
            coolify.wait(1)
        lags.append(coolify.clock.now() - since)
    assert max(lags) <= 61
    assert max(lags) - min(lags) > 10, "the lag varies"


async def test_exited_during_the_whole_first_deployment_and_finished_before_running(
    coolify: Coolify,
) -> None:
    """Points 2 and 3."""
    uuid = await coolify.create()
    deployment = await coolify.start(uuid)
    assert await coolify.deployment(deployment) == "queued"
    seen = []
    while (await coolify.status(uuid)) == EXITED:
        seen.append((await coolify.deployment(deployment), coolify.truth(uuid)))
        coolify.wait(1)
    assert [*dict.fromkeys(seen)] == [
        ("queued", False),
        ("in_progress", False),
        ("in_progress", True),
        ("finished", True),
    ]


async def test_no_look_sees_a_container_before_its_deployment_is_over() -> None:
    async with emulated(replace(NO_LAG, finish_s=100)) as coolify:
        uuid = await coolify.create()
        deployment = await coolify.start(uuid)
        coolify.wait(430)
        for unreachable in (True, False):
            await coolify.faults(serverUnreachable=unreachable)
        coolify.wait(10)
        assert coolify.truth(uuid) and await coolify.deployment(deployment) == "in_progress"
        assert await coolify.status(uuid) == EXITED
        coolify.wait(100)
        assert (await coolify.status(uuid)).startswith("running")


async def test_a_first_pull_is_slow_and_later_ones_are_fast(prompt: Coolify) -> None:
    """Point 4, with the defaults of the contract: 7 minutes, then 30 seconds."""
    uuid, other = await prompt.create("first"), await prompt.create("second")
    await prompt.start(uuid)
    prompt.wait(419)
    assert not prompt.truth(uuid)
    prompt.wait(1)
    assert prompt.truth(uuid)
    await prompt.start(other)
    prompt.wait(29)
    assert not prompt.truth(other)
    prompt.wait(1)
    assert prompt.truth(other)
    assert (await prompt.state())["pulls"] == {IMAGE: 1}


async def test_first_pulls_at_the_same_time_are_downloads_each(prompt: Coolify) -> None:
    for name in ("first", "second"):
        await prompt.start(await prompt.create(name))
    await prompt.start(await prompt.create("other", docker_registry_image_tag="2"))
    prompt.wait(1000)
    assert (await prompt.state())["pulls"] == {IMAGE: 2, "team/bot:2": 1}


async def test_two_builds_at_once(prompt: Coolify) -> None:
    """Point 5."""
    deployments = [await prompt.start(await prompt.create(f"bot-{n}")) for n in range(5)]
    prompt.wait(2)
    statuses = [await prompt.deployment(each) for each in deployments]
    assert statuses == ["in_progress"] * 2 + ["queued"] * 3
    prompt.wait(430)
    statuses = [await prompt.deployment(each) for each in deployments]
    assert statuses == ["finished"] * 2 + ["in_progress"] * 2 + ["queued"]
    assert [each["status"] for each in await prompt.get("/deployments")] == statuses[2:]


async def test_one_deployment_per_application_and_the_second_start_has_no_uuid(
    prompt: Coolify,
) -> None:
    """Points 5 and 6."""
    uuid = await prompt.create()
    await prompt.start(uuid)
    for wait_s in (0, 10):
        prompt.wait(wait_s)
        answer = await prompt.call("POST", f"/applications/{uuid}/start")
        assert (answer.status_code, answer.json()) == (
            200,
            {"message": "Deployment already queued for this commit."},
        )
    deployed = (await prompt.call("POST", f"/deploy?uuid={uuid}")).json()["deployments"][0]
    gone = await prompt.call("GET", f"/deployments/{deployed['deployment_uuid']}")
    assert gone.status_code == 404, "a uuid that does not exist"
    assert (await prompt.get(f"/deployments/applications/{uuid}"))["count"] == 1


async def test_a_full_queue_gives_phantoms_and_429(prompt: Coolify) -> None:
    """Points 5 and 6: 2 under way and 25 waiting."""
    for number in range(2):
        await prompt.start(await prompt.create(f"first-{number}"))
    prompt.wait(2)
    for number in range(25):
        await prompt.start(await prompt.create(f"waiting-{number}"))
    assert len(await prompt.get("/deployments")) == 27
    uuid = await prompt.create("too-many")
    phantom = await prompt.start(uuid)
    assert (await prompt.call("GET", f"/deployments/{phantom}")).status_code == 404
    answer = await prompt.call("POST", f"/deploy?uuid={uuid}")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "60")
    assert len(await prompt.get("/deployments")) == 27


async def test_starts_without_uuid_and_phantoms_on_demand(prompt: Coolify) -> None:
    """Point 6."""
    uuid = await prompt.create()
    await prompt.faults(startWithoutUuid=1, phantomUuid={"times": 1, "application": uuid})
    answer = await prompt.call("POST", f"/applications/{uuid}/start")
    assert "deployment_uuid" not in answer.json()
    phantom = await prompt.start(uuid)
    assert (await prompt.call("GET", f"/deployments/{phantom}")).status_code == 404
    assert await prompt.deployment(await prompt.start(uuid)) == "queued"


async def test_workers_are_shared_with_stops() -> None:
    nature = Nature(concurrent_builds=9, workers=4, status_lag_s=(0, 0), stop_s=(30, 30))
    async with emulated(nature) as coolify:
        uuid = await coolify.running()
        for number in range(4):
            name = f"slow-{number}"
            await coolify.start(await coolify.create(name, docker_registry_image_tag="9"))
        coolify.wait(2)
        await coolify.stop(uuid)
        coolify.wait(300)
        assert coolify.truth(uuid), "all four workers are busy with pulls"
        coolify.wait(200)
        assert not coolify.truth(uuid)


async def test_the_environment_is_read_when_the_job_runs(prompt: Coolify) -> None:
    uuid = await prompt.create()
    await prompt.write(uuid, {"A": "at the call"})
    await prompt.start(uuid)
    await prompt.write(uuid, {"A": "at the job"})
    prompt.wait(5)
    await prompt.write(uuid, {"A": "too late"})
    prompt.wait(600)
    (container,) = prompt.world.running_containers
    assert container.environment == {"A": "at the job", "COOLIFY_RESOURCE_UUID": uuid}


class Witness(NoProcesses):
    """Sees what starts and stops, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def start(self, application_uuid: str, environment: Mapping[str, str]) -> Hashable:
        self.seen.append("start")
        return super().start(application_uuid, environment)

    def stop(self, handle: Hashable) -> None:
        self.seen.append("stop")
        super().stop(handle)


@pytest.mark.parametrize(
    ("fields", "order"),
    [
        ({"is_consistent_container_name_enabled": True}, ["start", "stop", "start"]),
        ({"is_consistent_container_name_enabled": False}, ["start", "start", "stop"]),
        (
            {"is_consistent_container_name_enabled": False, "ports_mappings": "80:80"},
            ["start", "stop", "start"],
        ),
    ],
)
async def test_old_and_new_container(fields: dict[str, object], order: list[str]) -> None:
    """They overlap unless the name is consistent or ports are mapped."""
    witness = Witness()
    async with emulated(NO_LAG, runtime=witness) as coolify:
        uuid = await coolify.running(**fields)
        await coolify.start(uuid)
        coolify.wait(120)
        assert witness.seen == order
        assert len(coolify.world.running_containers) == 1


@pytest.mark.parametrize("fault", [{"registryDown": True}, {"pullFails": {"image": IMAGE}}])
async def test_a_pull_that_fails(prompt: Coolify, fault: dict[str, object]) -> None:
    """Point 13; the cache is no help: a start always pulls."""
    uuid = await prompt.running()
    await prompt.faults(**fault)
    deployment = await prompt.start(uuid)
    prompt.wait(10)
    assert await prompt.deployment(deployment) == "failed"
    assert prompt.truth(uuid), "the old container is untouched"


async def test_a_pull_fails_for_its_image_only(prompt: Coolify) -> None:
    await prompt.faults(pullFails={"image": "other:1"})
    await prompt.running()


async def test_a_crash_loop(prompt: Coolify) -> None:
    """Point 13: `finished`, then restarting, at last exited."""
    await prompt.faults(crashLoop={"seconds": 5, "restarts": 3})
    prompt.world.deployments.images.add(IMAGE)
    uuid = await prompt.create()
    deployment = await prompt.start(uuid)
    prompt.wait(33)
    assert await prompt.deployment(deployment) == "finished"
    seen = []
    for _ in range(100):
        seen.append(await prompt.status(uuid))
        prompt.wait(1)
    assert [*dict.fromkeys(seen)] == ["running:unknown", "restarting:unknown", EXITED]
    assert prompt.world.running_containers == ()


async def test_a_restart_of_coolify_fails_what_was_open(prompt: Coolify) -> None:
    """Point 13."""
    deployments = [await prompt.start(await prompt.create(f"bot-{n}")) for n in range(3)]
    prompt.wait(10)
    await prompt.faults(restartCoolify={"seconds": 20})
    prompt.wait(21)
    assert [await prompt.deployment(each) for each in deployments] == ["failed"] * 3
    prompt.wait(600)
    assert prompt.world.running_containers == ()
    uuid = await prompt.create("after")
    await prompt.start(uuid)
    prompt.wait(600)
    assert prompt.truth(uuid), "its workers are free again"


@pytest.mark.parametrize(
    ("fault", "status"), [("hangQueued", "queued"), ("hangInProgress", "in_progress")]
)
async def test_a_hung_deployment(prompt: Coolify, fault: str, status: str) -> None:
    """Point 13: for ever, but it can be cancelled."""
    await prompt.faults(**{fault: 1})
    uuid = await prompt.create()
    deployment = await prompt.start(uuid)
    prompt.wait(86_400)
    assert await prompt.deployment(deployment) == status
    assert (await prompt.call("POST", f"/deployments/{deployment}/cancel")).status_code == 200
    await prompt.start(uuid)
    prompt.wait(600)
    assert prompt.truth(uuid)


async def test_a_server_that_cannot_be_reached(coolify: Coolify) -> None:
    """Point 12: all exited and `server_status` false; the containers run on."""
    uuid = await coolify.running()
    await coolify.faults(serverUnreachable=True)
    (shown,) = await coolify.get("/applications")
    assert (shown["status"], shown["server_status"]) == (EXITED, False)
    coolify.wait(120)
    assert await coolify.status(uuid) == EXITED
    assert coolify.truth(uuid)
    await coolify.stop(uuid)
    failing = await coolify.start(uuid)
    coolify.wait(120)
    assert coolify.truth(uuid), "neither a stop nor a start reaches it"
    assert await coolify.deployment(failing) == "failed"
    assert await coolify.status(uuid) == EXITED, "also after a look at it"
    await coolify.faults(serverUnreachable=False)
    assert (await coolify.get("/applications"))[0]["server_status"] is True
    coolify.wait(61)
    assert (await coolify.status(uuid)).startswith("running")


async def test_health_comes_later_than_running() -> None:
    async with emulated(NO_LAG) as coolify:
        uuid = await coolify.running(health_check_enabled=True)
        coolify.wait(361)
        assert await coolify.status(uuid) == "running:healthy"
        await coolify.faults(healthCheckFails=True)
        sick = await coolify.running(name="sick", health_check_enabled=True)
        coolify.wait(361)
        assert await coolify.status(sick) == "running:unhealthy"


async def test_any_status_can_be_told(prompt: Coolify) -> None:
    uuid, other = await prompt.running(), await prompt.create("other")
    await prompt.faults(reportStatus={"status": "degraded:unhealthy", "application": uuid})
    assert await prompt.status(uuid) == "degraded:unhealthy"
    assert await prompt.status(other) == EXITED


async def test_the_lag_can_be_set(coolify: Coolify) -> None:
    await coolify.faults(statusLag={"minSeconds": 100, "maxSeconds": 100})
    coolify.world.deployments.images.add(IMAGE)
    uuid = await coolify.create()
    await coolify.start(uuid)
    coolify.wait(32 + 99)
    assert coolify.truth(uuid) and await coolify.status(uuid) == EXITED
    coolify.wait(3)
    assert await coolify.status(uuid) == "running:unknown"
