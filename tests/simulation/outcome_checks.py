"""Checks that hold at the end of every simulation, whatever faults it had."""

from typing import Any

from botpool.emulators.coolify import EmulatedCoolify
from tests.simulation.coolify_simulation import CoolifySimulation
from tests.support.invariants import assert_settled


def add_foreign_applications(coolify: EmulatedCoolify) -> list[str]:
    """Add applications of other owners: some have names like ours, some run."""
    names = ("website", "pool-google-meet-001", "pool-google-meet-002")
    applications = [
        coolify.create_application(name=name, image="others/app", tag="1", tags=tags)
        for name, tags in zip(names, ((), ("botpool-two",), ("botpool",)), strict=True)
    ]
    for application in applications[:2]:
        coolify.run_without_deployment(application)
    return [application.uuid for application in applications]


def snapshot(coolify: EmulatedCoolify, uuids: list[str]) -> list[Any]:
    """Return every property of the applications that a client could change."""
    return [
        (
            uuid,
            (application := coolify.applications[uuid]).name,
            application.description,
            application.image_and_tag,
            application.tags,
            application.running,
            len(application.deployments),
            application.updated_at,
        )
        for uuid in uuids
    ]


def assert_consistent_end(simulation: CoolifySimulation, *, restarts: bool = False) -> None:
    """Check that no bot is lost or started twice, and that nothing is left over.

    `restarts`: bots crash, and the backend restarts their containers.
    """
    assert_settled(simulation.url)
    failed = simulation.rows("SELECT id, failure_reason FROM bots WHERE status = 'FAILED'")
    assert all(bot["failure_reason"] for bot in failed), failed
    bots = simulation.bots
    if not restarts:
        assert not {a: n for a, n in bots.started.items() if n > 1}, "started twice"
    assert not {b: joins for b, joins in bots.joined.items() if len(joins) > 1}, "joined twice"
    assert not bots.running, "left running"
    assert simulation.has_no_leftovers(), "applications are left over or lost"
    most = max(simulation.requests_by_minute())
    assert most <= 200, f"{most} requests in a minute"
