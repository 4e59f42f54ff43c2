"""Deployments: timing, container states and reported statuses."""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from itertools import pairwise

import pytest

from botpool.emulators.coolify import EmulatorConfig, SimulatedRuntime
from tests.backends.emulator.coolify_client import EXITED, IMAGE, NO_LAG, CoolifyClient, emulated


async def test_reported_status_lags_up_to_a_minute(lagging_coolify: CoolifyClient) -> None:
    lags = []
    for number in range(10):
        uuid = await lagging_coolify.running(name=f"bot-{number}")
        await lagging_coolify.stop(uuid)
        while lagging_coolify.is_running(uuid):
            lagging_coolify.wait(1)
        since = lagging_coolify.clock.now()
        while await lagging_coolify.status(uuid) != EXITED:
            lagging_coolify.wait(1)
        lags.append(lagging_coolify.clock.now() - since)
    assert max(lags) <= 61
    assert max(lags) - min(lags) > 10, "the lag varies"


async def test_status_stays_exited_until_after_deployment_finished(
    lagging_coolify: CoolifyClient,
) -> None:
    uuid = await lagging_coolify.create()
    deployment = await lagging_coolify.start(uuid)
    assert await lagging_coolify.deployment(deployment) == "in_progress", "before a worker has it"
    observed = []
    while (await lagging_coolify.status(uuid)) == EXITED:
        observed.append(
            (await lagging_coolify.deployment(deployment), lagging_coolify.is_running(uuid))
        )
        lagging_coolify.wait(1)
    assert [*dict.fromkeys(observed)] == [
        ("in_progress", False),
        ("in_progress", True),
        ("finished", True),
    ]


async def test_status_ignores_container_until_its_deployment_ended() -> None:
    async with emulated(replace(NO_LAG, finish_s=100)) as coolify:
        uuid = await coolify.create()
        deployment = await coolify.start(uuid)
        coolify.wait(430)
        for unreachable in (True, False):
            await coolify.faults(serverUnreachable=unreachable)
        coolify.wait(10)
        assert coolify.is_running(uuid) and await coolify.deployment(deployment) == "in_progress"
        assert await coolify.status(uuid) == EXITED
        coolify.wait(100)
        assert (await coolify.status(uuid)).startswith("running")


async def test_first_start_takes_7_minutes_and_later_starts_30_seconds(
    coolify: CoolifyClient,
) -> None:
    uuid, other = await coolify.create("first"), await coolify.create("second")
    await coolify.start(uuid)
    coolify.wait(419)
    assert not coolify.is_running(uuid)
    coolify.wait(1)
    assert coolify.is_running(uuid)
    await coolify.start(other)
    coolify.wait(29)
    assert not coolify.is_running(other)
    coolify.wait(1)
    assert coolify.is_running(other)
    assert (await coolify.state())["pulls"] == {IMAGE: 1}


async def test_concurrent_first_pulls_download_separately(coolify: CoolifyClient) -> None:
    for name in ("first", "second"):
        await coolify.start(await coolify.create(name))
    await coolify.start(await coolify.create("other", docker_registry_image_tag="2"))
    coolify.wait(1000)
    assert (await coolify.state())["pulls"] == {IMAGE: 2, "team/bot:2": 1}


async def test_two_deployments_run_at_once_and_others_queue(coolify: CoolifyClient) -> None:
    deployments = [await coolify.start(await coolify.create(f"bot-{n}")) for n in range(5)]
    coolify.wait(2)
    statuses = [await coolify.deployment(each) for each in deployments]
    assert statuses == ["in_progress"] * 2 + ["queued"] * 3
    coolify.wait(430)
    statuses = [await coolify.deployment(each) for each in deployments]
    assert statuses == ["finished"] * 2 + ["in_progress"] * 2 + ["queued"]
    assert [each["status"] for each in await coolify.get("/deployments")] == statuses[2:]


async def test_second_start_of_an_application_returns_no_uuid(
    coolify: CoolifyClient,
) -> None:
    uuid = await coolify.create()
    await coolify.start(uuid)
    for wait_s in (0, 10):
        coolify.wait(wait_s)
        response = await coolify.call("POST", f"/applications/{uuid}/start")
        assert (response.status_code, response.json()) == (
            200,
            {"message": "Deployment already queued for this commit."},
        )
    deployed = (await coolify.call("POST", f"/deploy?uuid={uuid}")).json()["deployments"][0]
    gone = await coolify.call("GET", f"/deployments/{deployed['deployment_uuid']}")
    assert gone.status_code == 404, "the uuid does not exist"
    assert (await coolify.get(f"/deployments/applications/{uuid}"))["count"] == 1


async def test_full_queue_returns_phantom_uuid_from_start_and_429_from_deploy(
    coolify: CoolifyClient,
) -> None:
    for number in range(2):
        await coolify.start(await coolify.create(f"first-{number}"))
    coolify.wait(2)
    for number in range(25):
        await coolify.start(await coolify.create(f"waiting-{number}"))
    assert len(await coolify.get("/deployments")) == 27
    uuid = await coolify.create("too-many")
    phantom = await coolify.start(uuid)
    assert (await coolify.call("GET", f"/deployments/{phantom}")).status_code == 404
    response = await coolify.call("POST", f"/deploy?uuid={uuid}")
    assert (response.status_code, response.headers["Retry-After"]) == (429, "60")
    assert len(await coolify.get("/deployments")) == 27


async def test_faults_start_without_uuid_and_phantom_uuid(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    await coolify.faults(startWithoutUuid=1, phantomUuid={"times": 1, "application": uuid})
    response = await coolify.call("POST", f"/applications/{uuid}/start")
    assert "deployment_uuid" not in response.json()
    phantom = await coolify.start(uuid)
    assert (await coolify.call("GET", f"/deployments/{phantom}")).status_code == 404
    assert await coolify.deployment(await coolify.start(uuid)) == "in_progress"


async def test_burst_exceeds_the_limit_of_builds(coolify: CoolifyClient) -> None:
    await coolify.faults(exceedsBuildLimit=1)
    started = [await coolify.start(await coolify.create(f"bot-{n}")) for n in range(4)]
    statuses = [await coolify.deployment(each) for each in started]
    assert statuses == ["in_progress", "in_progress", "in_progress", "queued"]


async def test_cancel_takes_effect_at_the_next_command(coolify: CoolifyClient) -> None:
    """The row changes at once. The command that replaces the container still ends."""
    coolify.emulated.deployments.images.add(IMAGE)
    early, late = await coolify.create("early"), await coolify.create("late")
    deployments = {each: await coolify.start(each) for each in (early, late)}
    for uuid, until_s in ((early, 10.0), (late, 29.5)):
        coolify.wait(until_s - coolify.clock.now())
        response = await coolify.call("POST", f"/deployments/{deployments[uuid]}/cancel")
        assert response.status_code == 200
        assert await coolify.deployment(deployments[uuid]) == "cancelled-by-user"
        assert not coolify.is_running(uuid)
    coolify.wait(60)
    assert (coolify.is_running(early), coolify.is_running(late)) == (False, True)


async def test_worker_of_a_cancelled_deployment_is_busy_until_its_pull_ends() -> None:
    config = EmulatorConfig(concurrent_builds=9, workers=1, status_lag_s=(0, 0))
    async with emulated(config) as coolify:
        deployment = await coolify.start(await coolify.create("cancelled"))
        coolify.wait(10)
        await coolify.call("POST", f"/deployments/{deployment}/cancel")
        waiting = await coolify.create("waiting", docker_registry_image_tag="2")
        coolify.emulated.deployments.images.add("team/bot:2")
        await coolify.start(waiting)
        coolify.wait(300)
        assert not coolify.is_running(waiting)
        coolify.wait(200)
        assert coolify.is_running(waiting)


async def test_old_status_replaces_a_newer_one_until_the_next_refresh() -> None:
    async with emulated(replace(NO_LAG, status_lag_s=(20, 20))) as coolify:
        uuid = await coolify.running()
        await coolify.faults(oldStatus={"seconds": 90, "times": 1})
        await coolify.stop(uuid)
        statuses = []
        for _ in range(250):
            coolify.wait(1)
            statuses.append(coolify.emulated.applications[uuid].status)
        changes = [new for old, new in pairwise(statuses) if old != new]
        assert changes == [EXITED, "running:unknown", EXITED]


async def test_stop_waits_while_deployments_use_all_workers() -> None:
    config = EmulatorConfig(concurrent_builds=9, workers=4, status_lag_s=(0, 0), stop_s=(30, 30))
    async with emulated(config) as coolify:
        uuid = await coolify.running()
        for number in range(4):
            name = f"slow-{number}"
            await coolify.start(await coolify.create(name, docker_registry_image_tag="9"))
        coolify.wait(2)
        await coolify.stop(uuid)
        coolify.wait(300)
        assert coolify.is_running(uuid), "all four workers are busy with pulls"
        coolify.wait(200)
        assert not coolify.is_running(uuid)


async def test_deployment_reads_environment_when_its_job_begins(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    await coolify.write(uuid, {"A": "at the call"})
    await coolify.start(uuid)
    await coolify.write(uuid, {"A": "at the job"})
    coolify.wait(5)
    await coolify.write(uuid, {"A": "too late"})
    coolify.wait(600)
    (container,) = coolify.emulated.containers.running
    assert container.environment == {"A": "at the job", "COOLIFY_RESOURCE_UUID": uuid}


class RecordingRuntime(SimulatedRuntime):
    """Records starts and stops."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def start(self, application_uuid: str, environment: Mapping[str, str]) -> Hashable:
        self.calls.append("start")
        return super().start(application_uuid, environment)

    def stop(self, handle: Hashable) -> None:
        self.calls.append("stop")
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
async def test_old_container_stops_first_only_with_consistent_name_or_mapped_ports(
    fields: dict[str, object], order: list[str]
) -> None:
    runtime = RecordingRuntime()
    async with emulated(NO_LAG, runtime=runtime) as coolify:
        uuid = await coolify.running(**fields)
        await coolify.start(uuid)
        coolify.wait(120)
        assert runtime.calls == order
        assert len(coolify.emulated.containers.running) == 1


@pytest.mark.parametrize("fault", [{"registryDown": True}, {"pullFails": {"image": IMAGE}}])
async def test_failed_pull_fails_deployment_and_keeps_old_container(
    coolify: CoolifyClient, fault: dict[str, object]
) -> None:
    """A start always pulls, even a cached image."""
    uuid = await coolify.running()
    await coolify.faults(**fault)
    deployment = await coolify.start(uuid)
    coolify.wait(10)
    assert await coolify.deployment(deployment) == "failed"
    assert coolify.is_running(uuid), "the old container is untouched"


async def test_pull_fails_fault_affects_only_its_image(coolify: CoolifyClient) -> None:
    await coolify.faults(pullFails={"image": "other:1"})
    await coolify.running()


async def test_crash_loop_reports_running_then_restarting_then_exited(
    coolify: CoolifyClient,
) -> None:
    await coolify.faults(crashLoop={"seconds": 5})
    coolify.emulated.deployments.images.add(IMAGE)
    uuid = await coolify.create()
    deployment = await coolify.start(uuid)
    coolify.wait(33)
    assert await coolify.deployment(deployment) == "finished"
    observed = []
    for _ in range(400):
        observed.append(await coolify.status(uuid))
        coolify.wait(0.5)
    (deployed,) = coolify.emulated.applications[uuid].deployments
    assert deployed.environment["COOLIFY_RESOURCE_UUID"] == uuid
    assert [*dict.fromkeys(observed)] == ["running:unknown", "restarting:unknown", EXITED]
    assert coolify.emulated.containers.running == ()


async def test_coolify_restart_fails_open_deployments(coolify: CoolifyClient) -> None:
    deployments = [await coolify.start(await coolify.create(f"bot-{n}")) for n in range(3)]
    coolify.wait(10)
    await coolify.faults(restartCoolify={"seconds": 20})
    coolify.wait(21)
    assert [await coolify.deployment(each) for each in deployments] == ["failed"] * 3
    coolify.wait(600)
    assert coolify.emulated.containers.running == ()
    uuid = await coolify.create("after")
    await coolify.start(uuid)
    coolify.wait(600)
    assert coolify.is_running(uuid), "the workers are free again"


@pytest.mark.parametrize(
    ("fault", "status"), [("hangQueued", "queued"), ("hangInProgress", "in_progress")]
)
async def test_hung_deployment_stays_open_until_cancelled(
    coolify: CoolifyClient, fault: str, status: str
) -> None:
    await coolify.faults(**{fault: 1})
    uuid = await coolify.create()
    deployment = await coolify.start(uuid)
    coolify.wait(86_400)
    assert await coolify.deployment(deployment) == status
    assert (await coolify.call("POST", f"/deployments/{deployment}/cancel")).status_code == 200
    await coolify.start(uuid)
    coolify.wait(600)
    assert coolify.is_running(uuid)


async def test_unreachable_server_reports_exited_while_containers_run(
    lagging_coolify: CoolifyClient,
) -> None:
    uuid = await lagging_coolify.running()
    await lagging_coolify.faults(serverUnreachable=True)
    (shown,) = await lagging_coolify.get("/applications")
    assert (shown["status"], shown["server_status"]) == (EXITED, False)
    lagging_coolify.wait(120)
    assert await lagging_coolify.status(uuid) == EXITED
    assert lagging_coolify.is_running(uuid)
    await lagging_coolify.stop(uuid)
    failing = await lagging_coolify.start(uuid)
    lagging_coolify.wait(120)
    assert lagging_coolify.is_running(uuid), "neither a stop nor a start reaches the server"
    assert await lagging_coolify.deployment(failing) == "failed"
    assert await lagging_coolify.status(uuid) == EXITED, "also after a status refresh"
    await lagging_coolify.faults(serverUnreachable=False)
    assert (await lagging_coolify.get("/applications"))[0]["server_status"] is True
    lagging_coolify.wait(61)
    assert (await lagging_coolify.status(uuid)).startswith("running")


async def test_health_status_follows_running_status() -> None:
    async with emulated(NO_LAG) as coolify:
        uuid = await coolify.running(health_check_enabled=True)
        coolify.wait(361)
        assert await coolify.status(uuid) == "running:healthy"
        await coolify.faults(healthCheckFails=True)
        sick = await coolify.running(name="sick", health_check_enabled=True)
        coolify.wait(361)
        assert await coolify.status(sick) == "running:unhealthy"


async def test_report_status_fault_affects_only_its_application(coolify: CoolifyClient) -> None:
    uuid, other = await coolify.running(), await coolify.create("other")
    await coolify.faults(reportStatus={"status": "degraded:unhealthy", "application": uuid})
    assert await coolify.status(uuid) == "degraded:unhealthy"
    assert await coolify.status(other) == EXITED


async def test_status_lag_fault_sets_lag(lagging_coolify: CoolifyClient) -> None:
    await lagging_coolify.faults(statusLag={"minSeconds": 100, "maxSeconds": 100})
    lagging_coolify.emulated.deployments.images.add(IMAGE)
    uuid = await lagging_coolify.create()
    await lagging_coolify.start(uuid)
    lagging_coolify.wait(32 + 99)
    assert lagging_coolify.is_running(uuid) and await lagging_coolify.status(uuid) == EXITED
    lagging_coolify.wait(3)
    assert await lagging_coolify.status(uuid) == "running:unknown"
