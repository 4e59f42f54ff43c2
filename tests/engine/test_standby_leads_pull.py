"""A standby that leads the pull of an image must not delay bots that wait for the image.

They wait for the image and not for the standby's agent, and its start has their place in the order.
"""

import pytest

from botpool.domain.ids import PoolName
from botpool.domain.observation import ContainerState, DeploymentState
from botpool.engine.replica import Replica
from tests.support.invariants import assert_invariants
from tests.support.replicas import TEAMS, Stage, bot_request, pool
from tests.support.standbys import hot_pool, keep

ZOOM = PoolName("zoom")


async def admit(stage: Stage, replica: Replica, pool_name: PoolName) -> None:
    await replica.admission.admit(bot_request(pool_name))
    while await stage.step(replica):
        pass


def phases(stage: Stage, pool_name: PoolName) -> list[str | None]:
    return [slot["phase"] for slot in stage.slots() if slot["pool_name"] == pool_name]


def leader(stage: Stage) -> dict[str, object]:
    (slot,) = [slot for slot in stage.slots() if slot["leads_image"]]
    return slot


@pytest.mark.parametrize("has_deployments", [True, False])
@pytest.mark.parametrize("ends", [True, False])
async def test_bots_wait_for_the_image_and_not_for_the_poll_of_the_standby(
    stage: Stage, has_deployments: bool, ends: bool
) -> None:
    stage.backend.has_deployments = has_deployments
    stage.backend.state_after_start = ContainerState.STARTING
    replica = await stage.replica(hot_pool(1, max_size=1), pool(1, TEAMS))
    await keep(stage, replica)
    led = leader(stage)
    assert led["standby"] == "starting"
    await admit(stage, replica, TEAMS)
    assert phases(stage, TEAMS) == ["waiting_for_image"]
    await replica.observer.observe("process")
    assert phases(stage, TEAMS) == ["waiting_for_image"], "the image is not there yet"

    container_id = str(led["container_id"])
    if has_deployments:
        stage.backend.finish(container_id, DeploymentState.FINISHED)
    if ends:
        stage.backend.exit(container_id, 3)
    else:
        stage.backend.show(container_id, ContainerState.RUNNING)
    await replica.observer.observe("process")
    assert phases(stage, TEAMS) == ["starting"], "no poll has arrived"
    assert not [slot for slot in stage.slots() if slot["leads_image"]]
    assert_invariants(stage.url)


async def test_bot_that_gets_the_leading_standby_does_not_delay_the_others(stage: Stage) -> None:
    stage.backend.state_after_start = ContainerState.STARTING
    replica = await stage.replica(hot_pool(1, max_size=1), pool(1, TEAMS))
    await keep(stage, replica)
    led = leader(stage)
    await replica.admission.admit(bot_request())
    await admit(stage, replica, TEAMS)
    assert leader(stage)["phase"] == "handing_over"
    assert phases(stage, TEAMS) == ["waiting_for_image"]
    stage.backend.show(str(led["container_id"]), ContainerState.RUNNING)
    await replica.observer.observe("process")
    assert phases(stage, TEAMS) == ["starting"]
    assert_invariants(stage.url)


async def test_start_of_a_leading_standby_has_the_place_of_the_bots_behind_it(
    stage: Stage,
) -> None:
    """Standbys leave the last start to bots. This one is what a bot waits for."""
    stage.rows("INSERT INTO known_images VALUES ('process', 'here', 'other', 'infinity')")
    stage.backend.concurrent_starts = 2
    stage.backend.has_deployments = True
    replica = await stage.replica(
        hot_pool(1, max_size=1), pool(1, TEAMS), pool(2, ZOOM, image="other")
    )
    await admit(stage, replica, ZOOM)
    await keep(stage, replica)
    assert leader(stage)["phase"] == "waiting_for_start", "the last start is for a bot"
    stage.clock.move(1)
    await admit(stage, replica, TEAMS)
    assert phases(stage, TEAMS) == ["waiting_for_image"]
    assert leader(stage)["phase"] == "starting", "the bot waits for this start"
    stage.clock.move(1)
    await admit(stage, replica, ZOOM)
    assert phases(stage, ZOOM) == ["starting", "waiting_for_start"]
    assert_invariants(stage.url)
