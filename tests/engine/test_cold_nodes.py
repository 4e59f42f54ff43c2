"""A cluster whose nodes each keep images: the gate bounds the nodes that pull at once.

The scripted backend stands for the cluster; it says which images more nodes lack than may pull.
"""

import pytest

from botpool.domain.errors import BackendUnavailable
from botpool.domain.observation import ContainerState
from botpool.engine.replica import Replica
from tests.support.invariants import assert_invariants
from tests.support.replicas import Stage, bot_request, pool
from tests.support.standbys import hot_pool, keep


@pytest.fixture(autouse=True)
def cluster(stage: Stage) -> None:
    """The image was started before, and a start takes time."""
    stage.rows(
        "INSERT INTO known_images (backend, image_host, image, last_started_at)"
        " VALUES ('process', 'here', 'demo', 'infinity')"
    )
    stage.backend.concurrent_pulls = 2
    stage.backend.state_after_start = ContainerState.STARTING


async def admit(stage: Stage, replica: Replica, bots: int) -> None:
    for _ in range(bots):
        await replica.admission.admit(bot_request())
    while await stage.step(replica):
        pass


def phases(stage: Stage) -> list[str | None]:
    return [slot["phase"] for slot in stage.slots()]


async def test_starts_pass_at_once_while_few_nodes_lack_the_image(stage: Stage) -> None:
    replica = await stage.replica(pool(5))
    await replica.image_gate.find_missing_images("process")
    await admit(stage, replica, 5)
    assert phases(stage) == ["starting"] * 5
    assert not [slot for slot in stage.slots() if slot["leads_image"]], "nothing is counted"


async def test_starts_are_bounded_while_many_nodes_lack_the_image(stage: Stage) -> None:
    stage.backend.missing_images = {"demo"}
    replica = await stage.replica(pool(5))
    await replica.image_gate.find_missing_images("process")
    await admit(stage, replica, 5)
    assert phases(stage).count("starting") == 2
    assert phases(stage).count("waiting_for_image") == 3
    (first, second) = [slot for slot in stage.slots() if slot["leads_image"]]

    stage.backend.show(first["container_id"], ContainerState.RUNNING)
    await replica.observer.observe("process")
    assert phases(stage).count("starting") == 2, "one start has ended, and the next begins"
    assert phases(stage).count("waiting_for_image") == 2
    stage.backend.show(second["container_id"], ContainerState.EXITED)
    await replica.observer.observe("process")
    while await stage.step(replica):
        pass
    assert phases(stage).count("waiting_for_image") <= 2, "a failed start holds no place"
    assert_invariants(stage.url)


async def test_waiting_starts_pass_together_once_the_nodes_have_the_image(stage: Stage) -> None:
    stage.backend.missing_images = {"demo"}
    replica = await stage.replica(pool(5))
    await replica.image_gate.find_missing_images("process")
    await admit(stage, replica, 5)
    stage.backend.missing_images = set()
    await replica.image_gate.find_missing_images("process")
    assert phases(stage) == ["starting"] * 5
    assert_invariants(stage.url)


async def test_other_images_are_not_bounded(stage: Stage) -> None:
    stage.backend.missing_images = {"another"}
    replica = await stage.replica(pool(5))
    await replica.image_gate.find_missing_images("process")
    await admit(stage, replica, 5)
    assert phases(stage) == ["starting"] * 5


async def test_no_answer_of_the_cluster_keeps_the_bound(stage: Stage) -> None:
    stage.backend.missing_images = {"demo"}
    replica = await stage.replica(pool(5))
    await replica.image_gate.find_missing_images("process")
    stage.backend.missing_images = set()
    stage.backend.fail("find_missing_images", BackendUnavailable("no answer"))
    await replica.image_gate.find_missing_images("process")
    await admit(stage, replica, 5)
    assert phases(stage).count("starting") == 2


async def test_bots_lead_before_standbys(stage: Stage) -> None:
    stage.backend.missing_images = {"demo"}
    replica = await stage.replica(hot_pool(3, max_size=6))
    await replica.image_gate.find_missing_images("process")
    await keep(stage, replica)
    assert phases(stage).count("starting") == 2
    (first, _) = [slot for slot in stage.slots() if slot["leads_image"]]
    await admit(stage, replica, 1)
    stage.backend.show(first["container_id"], ContainerState.RUNNING)
    await replica.observer.observe("process")
    with_bot = [slot for slot in stage.slots() if slot["assigned_bot_id"]]
    assert [slot["phase"] for slot in with_bot] == ["starting"]


async def test_observing_a_backend_observes_its_nodes_too(stage: Stage) -> None:
    stage.backend.missing_images = {"demo"}
    replica = await stage.replica(pool(3))
    await replica.observer.observe_due_backends()
    await admit(stage, replica, 3)
    assert phases(stage).count("waiting_for_image") == 1
