"""A tag that is pushed again is a new image for the gate, where the backend resolves tags."""

import pytest

from botpool.domain.errors import BackendUnavailable
from botpool.domain.observation import ContainerState
from botpool.engine.lifecycle import image_digests
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, bot_request, pool
from tests.support.scripted_backend import ScriptedBackend


class ResolvingBackend(ScriptedBackend):
    """A backend whose registry has one digest for every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.digest = "sha256:old"

    async def resolve_image(self, image: str, *, timeout_s: float) -> str:
        await self._called("resolve_image", image)
        return f"{image}@{self.digest}"


@pytest.fixture
def backend(stage: Stage) -> ResolvingBackend:
    backend = stage.backend = ResolvingBackend()
    return backend


@pytest.fixture(autouse=True)
def resolve_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no digest stay valid, except in the tests that set a time."""
    monkeypatch.setattr(image_digests, "_VALID_S", -1.0)
    monkeypatch.setattr(image_digests, "_RETRY_S", -1.0)


def images(stage: Stage) -> set[str]:
    return {slot["image"] for slot in stage.slots()}


def phases(stage: Stage) -> list[str | None]:
    return sorted(str(slot["phase"]) for slot in stage.slots())


async def warm_pool(stage: Stage, replica: Replica, size: int) -> None:
    """Run bots until the pool has that many idle slots with the image."""
    bots = [(await replica.admission.admit(bot_request())).bot for _ in range(size)]
    await stage.settle(replica)
    for bot in bots:
        await stage.end(replica, bot.id)
    await stage.settle(replica)


async def test_tag_that_is_pushed_again_is_pulled_by_one_slot(
    stage: Stage, backend: ResolvingBackend
) -> None:
    replica = await stage.replica(pool(3))
    await warm_pool(stage, replica, 3)
    assert images(stage) == {"demo@sha256:old"}
    backend.digest = "sha256:new"
    backend.state_after_start = ContainerState.STARTING
    for _ in range(3):
        await replica.admission.admit(bot_request())
    for _ in range(3):
        await stage.step(replica)
    assert phases(stage) == ["starting", "waiting_for_image", "waiting_for_image"]
    (leader,) = [slot for slot in stage.slots() if slot["leads_image"]]
    assert leader["leads_image"] == "demo@sha256:new"
    backend.show(leader["container_id"], ContainerState.RUNNING)
    backend.state_after_start = ContainerState.RUNNING
    await stage.settle(replica)
    assert {slot["status"] for slot in stage.slots()} == {"busy"}
    assert images(stage) == {"demo@sha256:new"}


async def test_unchanged_tag_starts_at_once(stage: Stage, backend: ResolvingBackend) -> None:
    replica = await stage.replica(pool(3))
    await warm_pool(stage, replica, 3)
    backend.state_after_start = ContainerState.STARTING
    for _ in range(3):
        await replica.admission.admit(bot_request())
    await stage.step(replica)
    assert phases(stage) == ["starting"] * 3


async def test_concurrent_deployments_share_one_request(
    stage: Stage, backend: ResolvingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_digests, "_VALID_S", 300.0)
    replica = await stage.replica(pool(3))
    await warm_pool(stage, replica, 3)
    await warm_pool(stage, replica, 3)
    assert backend.calls_of("resolve_image") == ["demo"]


async def test_unreachable_registry_keeps_the_known_digest(
    stage: Stage, backend: ResolvingBackend
) -> None:
    """Also after a restart of the replica, which then knows the digest from the slot."""
    replica = await stage.replica(pool(1))
    await warm_pool(stage, replica, 1)
    for each in (replica, await stage.replica(pool(1))):
        backend.fail("resolve_image", BackendUnavailable("no route"))
        await warm_pool(stage, each, 1)
        assert images(stage) == {"demo@sha256:old"}
    assert len(stage.rows("SELECT * FROM known_images")) == 1


async def test_reset_keeps_the_digest_of_its_container(
    stage: Stage, backend: ResolvingBackend
) -> None:
    replica = await stage.replica(pool(1))
    await warm_pool(stage, replica, 1)
    await replica.slot_commands.recover(stage.slots()[0]["id"], reason="by a test")
    await stage.settle(replica)
    assert images(stage) == {"demo@sha256:old"}


async def test_backend_without_digests_keeps_the_tag(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await warm_pool(stage, replica, 1)
    assert images(stage) == {"demo"}
