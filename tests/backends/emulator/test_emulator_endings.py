"""Stops, cancels and deletes: accepted at once, done later, or not at all."""

from tests.backends.emulator.emulated_coolify import EXITED, IMAGE, Coolify


async def test_a_stop_takes_its_time(prompt: Coolify) -> None:
    """Point 7."""
    uuid = await prompt.running()
    await prompt.stop(uuid)
    prompt.wait(29)
    assert prompt.truth(uuid)
    prompt.wait(3)
    assert not prompt.truth(uuid)
    assert await prompt.status(uuid) == EXITED


async def test_a_slow_stop(prompt: Coolify) -> None:
    uuid = await prompt.running()
    await prompt.faults(stopSlow={"seconds": 300})
    await prompt.stop(uuid)
    prompt.wait(290)
    assert prompt.truth(uuid)
    prompt.wait(20)
    assert not prompt.truth(uuid)


async def test_a_stop_that_does_nothing(prompt: Coolify) -> None:
    """Point 7: twice, then it works."""
    uuid = await prompt.running()
    await prompt.faults(stopDoesNothing={"times": 2})
    for expected in (True, True, False):
        await prompt.stop(uuid)
        prompt.wait(60)
        assert prompt.truth(uuid) is expected
        assert (await prompt.status(uuid)).startswith("running") is expected


async def test_a_stop_that_lies(prompt: Coolify) -> None:
    """Point 7: reported as exited, and it runs."""
    uuid = await prompt.running()
    await prompt.faults(stopLies={"times": 1, "application": uuid})
    await prompt.stop(uuid)
    prompt.wait(600)
    assert await prompt.status(uuid) == EXITED
    assert prompt.truth(uuid)
    (listed,) = (await prompt.state())["applications"]
    assert (listed["status"], listed["running"]) == (EXITED, True)
    await prompt.stop(uuid)
    prompt.wait(60)
    assert not prompt.truth(uuid)


async def test_a_stop_during_a_deployment_comes_back(prompt: Coolify) -> None:
    """Point 7: a stop cancels no deployment."""
    uuid = await prompt.create()
    deployment = await prompt.start(uuid)
    prompt.wait(100)
    await prompt.stop(uuid)
    prompt.wait(60)
    assert await prompt.deployment(deployment) == "in_progress"
    prompt.wait(300)
    assert prompt.truth(uuid)


async def test_cancel_then_stop_ends_it(prompt: Coolify) -> None:
    uuid = await prompt.create()
    deployment = await prompt.start(uuid)
    prompt.wait(100)
    answer = await prompt.call("POST", f"/deployments/{deployment}/cancel")
    assert answer.json()["status"] == "cancelled-by-user"
    prompt.wait(600)
    assert not prompt.truth(uuid)
    again = await prompt.call("POST", f"/deployments/{deployment}/cancel")
    assert again.status_code == 400
    assert again.json()["message"].endswith("Current status: cancelled-by-user")


async def test_a_cancelled_pull_leaves_no_image(prompt: Coolify) -> None:
    uuid = await prompt.create()
    deployment = await prompt.start(uuid)
    prompt.wait(100)
    await prompt.call("POST", f"/deployments/{deployment}/cancel")
    await prompt.start(uuid)
    prompt.wait(600)
    assert (await prompt.state())["pulls"] == {IMAGE: 2}


async def test_a_cancel_leaves_what_has_started(prompt: Coolify) -> None:
    """Point 8, by nature: between the container's start and `finished`."""
    prompt.world.deployments.images.add(IMAGE)
    uuid = await prompt.create()
    deployment = await prompt.start(uuid)
    prompt.wait(31)
    assert prompt.truth(uuid)
    assert (await prompt.call("POST", f"/deployments/{deployment}/cancel")).status_code == 200
    prompt.wait(100)
    assert prompt.truth(uuid) and (await prompt.status(uuid)).startswith("running")


async def test_a_cancel_that_leaves_the_container_running(prompt: Coolify) -> None:
    """Point 8, on demand: the container comes after the cancel."""
    await prompt.faults(cancelLeavesRunning=True)
    uuid = await prompt.create()
    deployment = await prompt.start(uuid)
    prompt.wait(100)
    await prompt.call("POST", f"/deployments/{deployment}/cancel")
    assert not prompt.truth(uuid)
    prompt.wait(400)
    assert await prompt.deployment(deployment) == "cancelled-by-user"
    assert prompt.truth(uuid) and (await prompt.status(uuid)).startswith("running")


async def test_a_cancel_that_answers_500_and_worked(prompt: Coolify) -> None:
    await prompt.faults(cancelAnswers500=True)
    deployment = await prompt.start(await prompt.create())
    answer = await prompt.call("POST", f"/deployments/{deployment}/cancel")
    assert answer.status_code == 500
    assert await prompt.deployment(deployment) == "cancelled-by-user"


async def test_a_delete_takes_its_time(prompt: Coolify) -> None:
    """Point 9: found until it is gone, then a real 404."""
    uuid = await prompt.running()
    assert (await prompt.call("DELETE", f"/applications/{uuid}")).status_code == 200
    prompt.wait(3)
    assert await prompt.status(uuid)
    assert len(await prompt.get("/applications")) == 1
    prompt.wait(10)
    answer = await prompt.call("GET", f"/applications/{uuid}")
    assert (answer.status_code, answer.json()) == (404, {"message": "Application not found."})
    assert await prompt.get("/applications") == []
    assert prompt.world.running_containers == ()


async def test_a_delete_that_never_finishes(prompt: Coolify) -> None:
    uuid = await prompt.running()
    await prompt.faults(deleteNeverFinishes=1)
    assert (await prompt.call("DELETE", f"/applications/{uuid}")).status_code == 200
    prompt.wait(86_400)
    assert prompt.truth(uuid)
    await prompt.call("DELETE", f"/applications/{uuid}")
    prompt.wait(10)
    assert (await prompt.call("GET", f"/applications/{uuid}")).status_code == 404


async def test_a_delete_cancels_no_deployment(prompt: Coolify) -> None:
    """What was under way starts its container for nobody."""
    uuid = await prompt.create()
    await prompt.start(uuid)
    prompt.wait(100)
    await prompt.call("DELETE", f"/applications/{uuid}")
    prompt.wait(500)
    state = await prompt.state()
    assert (state["applications"], state["runningContainers"]) == ([], 1)
    assert state["orphanContainers"] == 1


async def test_a_deployment_still_queued_when_its_application_goes_fails(prompt: Coolify) -> None:
    for number in range(2):
        await prompt.start(await prompt.create(f"first-{number}"))
    uuid = await prompt.create()
    deployment = await prompt.start(uuid)
    await prompt.call("DELETE", f"/applications/{uuid}")
    prompt.wait(600)
    assert await prompt.deployment(deployment) == "failed"
    assert (await prompt.state())["orphanContainers"] == 0
