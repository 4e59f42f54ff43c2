"""Stops, cancels and deletes."""

from tests.backends.emulator.coolify_client import EXITED, IMAGE, CoolifyClient


async def test_stop_takes_30_seconds(coolify: CoolifyClient) -> None:
    uuid = await coolify.running()
    await coolify.stop(uuid)
    coolify.wait(29)
    assert coolify.is_running(uuid)
    coolify.wait(3)
    assert not coolify.is_running(uuid)
    assert await coolify.status(uuid) == EXITED


async def test_stop_slow_fault_delays_stop(coolify: CoolifyClient) -> None:
    uuid = await coolify.running()
    await coolify.faults(stopSlow={"seconds": 300})
    await coolify.stop(uuid)
    coolify.wait(290)
    assert coolify.is_running(uuid)
    coolify.wait(20)
    assert not coolify.is_running(uuid)


async def test_stop_does_nothing_fault_ignores_two_stops(coolify: CoolifyClient) -> None:
    uuid = await coolify.running()
    await coolify.faults(stopDoesNothing={"times": 2})
    for expected in (True, True, False):
        await coolify.stop(uuid)
        coolify.wait(60)
        assert coolify.is_running(uuid) is expected
        assert (await coolify.status(uuid)).startswith("running") is expected


async def test_stop_lies_fault_reports_exited_while_container_runs(coolify: CoolifyClient) -> None:
    uuid = await coolify.running()
    await coolify.faults(stopLies={"times": 1, "application": uuid})
    await coolify.stop(uuid)
    coolify.wait(60)
    assert await coolify.status(uuid) == EXITED
    assert coolify.is_running(uuid)
    (listed,) = (await coolify.state())["applications"]
    assert (listed["status"], listed["running"]) == (EXITED, True)
    await coolify.stop(uuid)
    coolify.wait(60)
    assert not coolify.is_running(uuid)


async def test_stop_does_not_cancel_deployment(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    deployment = await coolify.start(uuid)
    coolify.wait(100)
    await coolify.stop(uuid)
    coolify.wait(60)
    assert await coolify.deployment(deployment) == "in_progress"
    coolify.wait(300)
    assert coolify.is_running(uuid)


async def test_cancel_ends_deployment_once(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    deployment = await coolify.start(uuid)
    coolify.wait(100)
    response = await coolify.call("POST", f"/deployments/{deployment}/cancel")
    assert response.json()["status"] == "cancelled-by-user"
    coolify.wait(600)
    assert not coolify.is_running(uuid)
    again = await coolify.call("POST", f"/deployments/{deployment}/cancel")
    assert again.status_code == 400
    assert again.json()["message"].endswith("Current status: cancelled-by-user")


async def test_cancelled_pull_leaves_no_image(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    deployment = await coolify.start(uuid)
    coolify.wait(100)
    await coolify.call("POST", f"/deployments/{deployment}/cancel")
    await coolify.start(uuid)
    coolify.wait(600)
    assert (await coolify.state())["pulls"] == {IMAGE: 2}


async def test_cancel_after_container_start_leaves_container_running(
    coolify: CoolifyClient,
) -> None:
    """The cancel comes between the container's start and `finished`."""
    coolify.emulated.deployments.images.add(IMAGE)
    uuid = await coolify.create()
    deployment = await coolify.start(uuid)
    coolify.wait(31)
    assert coolify.is_running(uuid)
    assert (await coolify.call("POST", f"/deployments/{deployment}/cancel")).status_code == 200
    coolify.wait(100)
    assert coolify.is_running(uuid) and (await coolify.status(uuid)).startswith("running")


async def test_cancel_leaves_running_fault_starts_container_after_cancel(
    coolify: CoolifyClient,
) -> None:
    await coolify.faults(cancelLeavesRunning=True)
    uuid = await coolify.create()
    deployment = await coolify.start(uuid)
    coolify.wait(100)
    await coolify.call("POST", f"/deployments/{deployment}/cancel")
    assert not coolify.is_running(uuid)
    coolify.wait(400)
    assert await coolify.deployment(deployment) == "cancelled-by-user"
    assert coolify.is_running(uuid) and (await coolify.status(uuid)).startswith("running")


async def test_cancel_answers_500_fault_cancels_deployment(coolify: CoolifyClient) -> None:
    await coolify.faults(cancelAnswers500=True)
    deployment = await coolify.start(await coolify.create())
    response = await coolify.call("POST", f"/deployments/{deployment}/cancel")
    assert response.status_code == 500
    assert await coolify.deployment(deployment) == "cancelled-by-user"


async def test_deleted_application_is_found_until_removed(coolify: CoolifyClient) -> None:
    uuid = await coolify.running()
    assert (await coolify.call("DELETE", f"/applications/{uuid}")).status_code == 200
    coolify.wait(3)
    assert await coolify.status(uuid)
    assert len(await coolify.get("/applications")) == 1
    coolify.wait(10)
    response = await coolify.call("GET", f"/applications/{uuid}")
    assert (response.status_code, response.json()) == (404, {"message": "Application not found."})
    assert await coolify.get("/applications") == []
    assert coolify.emulated.containers.running == ()


async def test_delete_never_finishes_fault_keeps_application(coolify: CoolifyClient) -> None:
    uuid = await coolify.running()
    await coolify.faults(deleteNeverFinishes=1)
    assert (await coolify.call("DELETE", f"/applications/{uuid}")).status_code == 200
    coolify.wait(86_400)
    assert coolify.is_running(uuid)
    await coolify.call("DELETE", f"/applications/{uuid}")
    coolify.wait(10)
    assert (await coolify.call("GET", f"/applications/{uuid}")).status_code == 404


async def test_delete_does_not_cancel_deployment(coolify: CoolifyClient) -> None:
    """The deployment starts a container without an application."""
    uuid = await coolify.create()
    await coolify.start(uuid)
    coolify.wait(100)
    await coolify.call("DELETE", f"/applications/{uuid}")
    coolify.wait(500)
    state = await coolify.state()
    assert (state["applications"], state["runningContainers"]) == ([], 1)
    assert state["orphanContainers"] == 1


async def test_queued_deployment_of_deleted_application_fails(coolify: CoolifyClient) -> None:
    for number in range(2):
        await coolify.start(await coolify.create(f"first-{number}"))
    uuid = await coolify.create()
    deployment = await coolify.start(uuid)
    await coolify.call("DELETE", f"/applications/{uuid}")
    coolify.wait(600)
    assert await coolify.deployment(deployment) == "failed"
    assert (await coolify.state())["orphanContainers"] == 0
