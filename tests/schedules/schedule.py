"""One schedule: a seed, lived from the first post until everything has come to rest."""

import asyncio
import random
import traceback
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import structlog

from botpool.engine.maintenance.doctor.invariants import ALL_HISTORY
from botpool.store.readonly_connection import check_statement
from tests.schedules.cast import Cast
from tests.schedules.causes import ENDS
from tests.schedules.conductor import Conductor, VirtualLoop
from tests.schedules.installation import Installation
from tests.schedules.simulated_database import Server, Trouble
from tests.schedules.simulated_platform import Manners, PoolName
from tests.support.invariants import ALWAYS
from tests.support.replicas import pool

TROUBLE_S = 25.0
LIMIT_S = 600.0
LOOK_S = 5.0
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
    "lease_slots: answer",
    "look: answer",
    "stop",
    "start",
)
"""The turns of one kind that a schedule likes to hold up."""

_RESTLESS = """
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
    """Live the schedule of this seed. The same seed gives the same outcome, step by step."""
    conductor = Conductor(seed)
    random.seed(seed)  # The engine's own jitter.
    server.forget()
    outcome = Outcome(seed=seed)
    loop = VirtualLoop(conductor)
    stage = _Stage(server, conductor, outcome)
    structlog.configure(processors=[stage.hear])
    try:
        loop.run_until_complete(stage.play())
        outcome.violations += [str(context) for context in loop.failures]
    finally:
        structlog.reset_defaults()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    outcome.trace, outcome.virtual_s = conductor.trace, conductor.now
    return outcome


class _Stage:
    def __init__(self, server: Server, conductor: Conductor, outcome: Outcome) -> None:
        self._server = server
        self._conductor = conductor
        self._outcome = outcome

    def hear(self, _: object, method: str, event: dict[str, Any]) -> dict[str, Any]:
        """What the engine did not expect is a violation; the rest of its log goes nowhere."""
        if method in ("error", "exception", "critical") and "exc_info" in event:
            self._outcome.violations.append(f"unexpected: {event}\n{traceback.format_exc()}")
        raise structlog.DropEvent

    async def play(self) -> None:
        chance, cast = self._conductor.chance, Cast(self._conductor)
        self._conductor.slow = chance.choice((0.01, 0.05, 0.2))
        self._conductor.stalls = chance.choice((0.0, 0.01, 0.02))
        self._conductor.stalls_at = chance.choice(STALLS_AT)
        trouble = Trouble(
            held=chance.choice((0.0, 0.1, 0.3)),
            fails=chance.choice((0.0, 0.0, 0.02)),
            answer_lost=chance.choice((0.0, 0.0, 0.02)),
        )
        manners = Manners(
            lost=chance.choice((0.0, 0.0, 0.1)),
            answer_lost=chance.choice((0.0, 0.0, 0.1)),
            start_fails=chance.choice((0.0, 0.0, 0.2)),
        )
        maximum = chance.choice((1, 1, 2, 3))
        pool_name = PoolName(self._conductor, manners, cast.live, maximum=maximum)
        cast.pool_name = pool_name
        self._server.after_release = lambda: self._see_nobody_running(pool_name)
        cast.installation = Installation(
            self._server,
            self._conductor,
            pool_name,
            trouble,
            pools=[pool(maximum)],
            concurrent_starts=chance.choice((None, None, 1)),
        )
        for _ in range(chance.choice((2, 2, 3))):
            await cast.installation.start_replica()
        await self._live(cast, trouble, manners)
        self._judge(cast)

    async def _live(self, cast: Cast, trouble: Trouble, manners: Manners) -> None:
        chance = self._conductor.chance
        acts: list[Coroutine[Any, Any, None]] = []
        acts += [cast.post(number) for number in range(chance.randint(4, 8))]
        acts += [cast.operate() for _ in range(chance.choice((0, 0, 1, 2)))]
        acts += [cast.kill_a_replica() for _ in range(chance.choice((0, 1, 1, 2)))]
        acts += [cast.restart_a_replica() for _ in range(chance.choice((0, 0, 1)))]
        acts += [cast.break_a_container() for _ in range(chance.choice((0, 0, 1, 2)))]
        doing = [asyncio.ensure_future(act) for act in acts]
        while self._conductor.now < TROUBLE_S:
            await asyncio.sleep(LOOK_S)
            self._observe()
            if all(task.done() for task in doing) and not self._restless(cast):
                break
        self._conductor.slow = self._conductor.stalls = 0.0
        self._conductor.stalls_at = None
        trouble.held = trouble.fails = trouble.answer_lost = 0.0
        manners.lost = manners.answer_lost = manners.start_fails = 0.0
        await asyncio.wait(doing, timeout=LIMIT_S)
        for task in doing:
            if not task.done():
                self._outcome.violations.append(f"never ended: {task}")
            elif (error := task.exception()) is not None:
                self._outcome.violations.append(f"unexpected answer: {error!r}")
        await self._come_to_rest(cast)

    async def _come_to_rest(self, cast: Cast) -> None:
        ends_at = self._conductor.now + LIMIT_S
        while restless := self._restless(cast):
            self._observe()
            if self._conductor.now > ends_at or self._outcome.violations:
                self._outcome.violations.append(f"never came to rest: {restless}")
                return
            await asyncio.sleep(LOOK_S)

    def _restless(self, cast: Cast) -> list[str]:
        self._server.show(self._conductor.now)
        rows = self._server.rows(_RESTLESS)
        slots = self._server.rows("SELECT slot_name, container_id FROM bot_pool_slots")
        # A container whose making was never answered waits under its slot's name.
        known = {slot["container_id"] or slot["slot_name"] for slot in slots}
        return (
            [row["what"] for row in rows]
            + [f"{container.name} runs" for container in cast.pool_name.up]
            + [
                f"{container_id} is nobody's"
                for container_id, container in cast.pool_name.containers.items()
                if container_id not in known and container.name not in known
            ]
        )

    def _observe(self) -> None:
        """What must always hold, holds now."""
        self._server.show(self._conductor.now)
        for found in self._server.eye.execute(_RULES, ALL_HISTORY).fetchall():
            self._outcome.violations.append(f"{self._conductor.now:.3f} {found}")

    def _see_nobody_running(self, pool_name: PoolName) -> None:
        rows = self._server.rows(
            "SELECT container_id FROM bot_pool_slots WHERE assigned_bot_id IS NULL"
        )
        free = {row["container_id"] for row in rows}
        for run in pool_name.running:
            if run.container_id in free:
                self._outcome.violations.append(
                    f"{self._conductor.now:.3f} {run.container_id} is free, and runs"
                )

    def _judge(self, cast: Cast) -> None:
        outcome = self._outcome
        self._observe()
        outcome.violations += cast.pool_name.violations + cast.violations
        rows = self._server.rows("SELECT id, status FROM bots")
        statuses = {row["id"]: row["status"] for row in rows}
        outcome.bots = len(statuses)
        lost = [bot for bot in cast.accepted if bot not in statuses]
        if lost:
            outcome.violations.append(f"accepted, and lost: {lost}")
        now, down_at = self._conductor.now, cast.pool_name.down_at
        for end in self._server.rows(ENDS):
            if not cast.causes.explain(end, now=now, down_at=down_at):
                outcome.violations.append(f"ended without a cause: {end}")
