"""One schedule: runs a seed from the first request until everything is settled."""

import asyncio
import random
import traceback
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import structlog

from botpool.engine.maintenance.doctor.invariants import ALL_HISTORY
from botpool.store.readonly_connection import check_statement
from tests.schedules.actors import Actors
from tests.schedules.end_causes import ENDS
from tests.schedules.installation import Installation
from tests.schedules.simulated_backend import BackendFaults, Run, SimulatedBackend
from tests.schedules.simulated_database import DatabaseFaults, Server
from tests.schedules.turn_scheduler import TurnScheduler, VirtualLoop
from tests.support.invariants import ALWAYS
from tests.support.standbys import hot_pool

TROUBLE_S = 25.0
LIMIT_S = 600.0
CHECK_INTERVAL_S = 5.0
STALLS_AT = (
    None,
    "free_slots",
    "free_slots",
    "enqueue_bots",
    "record_start",
    "record_container",
    "end_bot",
    "mark_running",
    "postpone_step",
    "lease_slots: response",
    "observe: response",
    "stop",
    "start",
)
"""Labels of the turns that a schedule may stall often."""

_UNSETTLED = """
SELECT 'bot ' || id || ' is ' || status AS what FROM bots WHERE ended_at IS NULL
UNION ALL
SELECT slot_name || ' is ' || status FROM bot_pool_slots WHERE status <> 'idle'
UNION ALL
SELECT slot_name || ' is leased' FROM bot_pool_slots WHERE lease_until > botpool_now()
"""
_RULES = "\nUNION ALL\n".join(
    f"SELECT '{name}' AS rule, to_jsonb(found) AS found FROM ({check_statement(name)}) AS found"
    for name in ALWAYS.values()
)


@dataclass
class Outcome:
    seed: int
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    bots: int = 0
    virtual_s: float = 0.0


def run(server: Server, seed: int) -> Outcome:
    """Run the schedule of this seed. The same seed gives the same outcome, step by step."""
    scheduler = TurnScheduler(seed)
    random.seed(seed)  # The engine uses this generator for its jitter.
    server.reset()
    outcome = Outcome(seed=seed)
    loop = VirtualLoop(scheduler)
    schedule_run = _ScheduleRun(server, scheduler, outcome)
    structlog.configure(processors=[schedule_run.record_unexpected_error])
    try:
        loop.run_until_complete(schedule_run.run())
        outcome.violations += [str(context) for context in loop.failures]
    finally:
        structlog.reset_defaults()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    outcome.trace, outcome.virtual_s = scheduler.trace, scheduler.now
    return outcome


class _ScheduleRun:
    def __init__(self, server: Server, scheduler: TurnScheduler, outcome: Outcome) -> None:
        self._server = server
        self._scheduler = scheduler
        self._outcome = outcome

    def record_unexpected_error(
        self, _: object, method: str, event: dict[str, Any]
    ) -> dict[str, Any]:
        """Record a logged exception as a violation, and drop all other log lines."""
        if method in ("error", "exception", "critical") and "exc_info" in event:
            self._outcome.violations.append(f"unexpected: {event}\n{traceback.format_exc()}")
        raise structlog.DropEvent

    async def run(self) -> None:
        rng, actors = self._scheduler.rng, Actors(self._scheduler)
        self._scheduler.slow = rng.choice((0.01, 0.05, 0.2))
        self._scheduler.stalls = rng.choice((0.0, 0.01, 0.02))
        self._scheduler.stalls_at = rng.choice(STALLS_AT)
        faults = DatabaseFaults(
            held_open=rng.choice((0.0, 0.1, 0.3)),
            fails=rng.choice((0.0, 0.0, 0.02)),
            response_lost=rng.choice((0.0, 0.0, 0.02)),
        )
        backend_faults = BackendFaults(
            lost=rng.choice((0.0, 0.0, 0.1)),
            response_lost=rng.choice((0.0, 0.0, 0.1)),
            start_fails=rng.choice((0.0, 0.0, 0.2)),
        )
        maximum = rng.choice((1, 1, 2, 3))
        hot = rng.choice((0, 0, 1, 2))
        maximum += hot
        pool_spec = hot_pool(hot, maximum, max_age_s=rng.choice((10.0, 3600.0)))
        backend = SimulatedBackend(
            self._scheduler, backend_faults, actors.run_agent, maximum=maximum
        )
        actors.backend = backend
        self._server.after_release = lambda: self._check_free_slots(backend)
        actors.installation = Installation(
            self._server,
            self._scheduler,
            backend,
            faults,
            pools=[pool_spec],
            concurrent_starts=rng.choice((None, None, 1)),
        )
        for _ in range(rng.choice((2, 2, 3))):
            await actors.installation.start_replica()
        if hot:
            actors.posts_within_s = 20.0  # Standbys come up between the bots.
            await asyncio.sleep(rng.uniform(0.0, 8.0))
        await self._run_actors(actors, faults, backend_faults)
        self._check_outcome(actors)

    async def _run_actors(
        self, actors: Actors, faults: DatabaseFaults, backend_faults: BackendFaults
    ) -> None:
        rng = self._scheduler.rng
        acts: list[Coroutine[Any, Any, None]] = []
        acts += [actors.post_bot(number) for number in range(rng.randint(4, 8))]
        acts += [actors.run_operator_command() for _ in range(rng.choice((0, 0, 1, 2)))]
        acts += [actors.kill_replica() for _ in range(rng.choice((0, 1, 1, 2)))]
        acts += [actors.restart_replica() for _ in range(rng.choice((0, 0, 1)))]
        acts += [actors.break_container() for _ in range(rng.choice((0, 0, 1, 2)))]
        doing = [asyncio.ensure_future(act) for act in acts]
        while self._scheduler.now < TROUBLE_S:
            await asyncio.sleep(CHECK_INTERVAL_S)
            self._check_invariants()
            if all(task.done() for task in doing) and not self._unsettled(actors):
                break
        self._scheduler.slow = self._scheduler.stalls = 0.0
        self._scheduler.stalls_at = None
        faults.held_open = faults.fails = faults.response_lost = 0.0
        backend_faults.lost = backend_faults.response_lost = backend_faults.start_fails = 0.0
        await asyncio.wait(doing, timeout=LIMIT_S)
        for task in doing:
            if not task.done():
                self._outcome.violations.append(f"never ended: {task}")
            elif (error := task.exception()) is not None:
                self._outcome.violations.append(f"unexpected response: {error!r}")
        await self._wait_until_settled(actors)

    async def _wait_until_settled(self, actors: Actors) -> None:
        ends_at = self._scheduler.now + LIMIT_S
        while unsettled := self._unsettled(actors):
            self._check_invariants()
            if self._scheduler.now > ends_at or self._outcome.violations:
                self._outcome.violations.append(f"never settled: {unsettled}")
                return
            await asyncio.sleep(CHECK_INTERVAL_S)

    def _unsettled(self, actors: Actors) -> list[str]:
        self._server.set_clock(self._scheduler.now)
        rows = self._server.rows(_UNSETTLED)
        slots = self._server.rows("SELECT slot_name, container_id FROM bot_pool_slots")
        # A slot finds a container whose creation got no response by its name.
        known = {slot["container_id"] or slot["slot_name"] for slot in slots}
        return (
            [row["what"] for row in rows]
            + [f"{run.container_id} runs" for run in self._without_standby(actors.backend.running)]
            + [
                f"{container_id} has no slot"
                for container_id, container in actors.backend.containers.items()
                if container_id not in known and container.name not in known
            ]
        )

    def _check_invariants(self) -> None:
        """Record every broken invariant."""
        self._server.set_clock(self._scheduler.now)
        for found in self._server.connection.execute(_RULES, ALL_HISTORY).fetchall():
            self._outcome.violations.append(f"{self._scheduler.now:.3f} {found}")

    def _check_free_slots(self, backend: SimulatedBackend) -> None:
        rows = self._server.rows(
            "SELECT container_id FROM bot_pool_slots WHERE assigned_bot_id IS NULL"
        )
        free = {row["container_id"] for row in rows}
        for run in self._without_standby(backend.running):
            if run.container_id in free:
                self._outcome.violations.append(
                    f"{self._scheduler.now:.3f} {run.container_id} belongs to a free slot and runs"
                )

    def _without_standby(self, runs: list[Run]) -> list[Run]:
        """Leave out the current standbys of slots, and those that a reset is about to stop.

        A standby that knows a bot serves no other one, so its slot must not keep it.
        """
        rows = self._server.rows(
            "SELECT id, status, run_id FROM bot_pool_slots"
            " WHERE (status = 'idle' AND standby IS NOT NULL) OR status = 'error'"
        )
        standbys = {row["run_id"] for row in rows if row["status"] == "idle"}
        in_error = {row["id"] for row in rows if row["status"] == "error"}
        return [
            run
            for run in runs
            if run.bot_id is not None
            or (run.assignment_id not in standbys and run.slot_id not in in_error)
        ]

    def _check_outcome(self, actors: Actors) -> None:
        outcome = self._outcome
        self._check_invariants()
        outcome.violations += actors.backend.violations + actors.violations
        rows = self._server.rows("SELECT id, status FROM bots")
        statuses = {row["id"]: row["status"] for row in rows}
        outcome.bots = len(statuses)
        lost = [bot for bot in actors.accepted if bot not in statuses]
        if lost:
            outcome.violations.append(f"accepted and lost: {lost}")
        now, down_at = self._scheduler.now, actors.backend.down_at
        for end in self._server.rows(ENDS):
            if not actors.causes.explain(end, now=now, down_at=down_at):
                outcome.violations.append(f"ended without a cause: {end}")
