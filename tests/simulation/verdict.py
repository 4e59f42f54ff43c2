"""What must be true of every morning, whatever went wrong in it."""

from typing import Any

from botpool.emulators.coolify import EmulatedCoolify
from tests.simulation.morning import Morning
from tests.support.invariants import assert_settled


def put_in_others(world: EmulatedCoolify) -> list[str]:
    """Applications of other people, some with names like ours; some run."""
    names = ("website", "pool-google-meet-001", "pool-google-meet-002")
    applications = [
        world.create_application(name=name, image="others/app", tag="1", tags=tags)
        for name, tags in zip(names, ((), ("botpool-two",), ("botpool",)), strict=True)
    ]
    for application in applications[:2]:
        world.run_without_deployment(application)
    return [application.uuid for application in applications]


def snapshot(world: EmulatedCoolify, uuids: list[str]) -> list[Any]:
    """Everything of them that a client could have changed."""
    return [
        (
            uuid,
            (application := world.applications[uuid]).name,
            application.description,
            application.image_and_tag,
            application.tags,
            application.running,
            len(application.deployments),
            application.updated_at,
        )
        for uuid in uuids
    ]


def assert_good(morning: Morning, *, restarts: bool = False) -> None:
    """No bot lost, none started twice, nothing left over, never too many requests.

    `restarts`: the backend itself starts containers again, as in a crash loop.
    """
    assert_settled(morning.url)
    failed = morning.rows("SELECT id, failure_reason FROM bots WHERE status = 'FAILED'")
    assert all(bot["failure_reason"] for bot in failed), failed
    bots = morning.bots
    if not restarts:
        assert not {a: n for a, n in bots.started.items() if n > 1}, "started twice"
        assert not {b: joins for b, joins in bots.joined.items() if len(joins) > 1}, "joined twice"
    assert not {b: joins for b, joins in bots.joined.items() if len(set(joins)) > 1}, "joined twice"
    assert not bots.running, "left running"
    assert morning.is_tidy(), "applications left over, or lost"
    most = max(morning.requests_by_minute())
    assert most <= 200, f"{most} requests in a minute"
