"""Plans: replays of a pool's recorded bots under other warm floors."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime

from botpool.domain.errors import NotFound
from botpool.domain.ids import BotId, PoolName
from botpool.domain.plan.policies import Goal, Plan, Planner
from botpool.domain.plan.record import PlannedPool, Record, RecordedBot, StartKind, Stay
from botpool.domain.warm import Warm, WarmWindow
from botpool.store.database import Database
from botpool.store.plans import RecordedAssignment, find_planned_pool, list_recorded_bots

_PAGE = 5_000
_PAUSE_S = 0.001


class Plans:
    """Reads records and replays them, one at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._one_at_a_time = asyncio.Lock()

    async def plan(
        self, pool_name: PoolName, *, replay_s: float, goal: Goal, timezone: str = "UTC"
    ) -> Plan:
        """Compare policies for a pool by the bots of the last `replay_s`."""
        pool = await self.pool(pool_name)
        record = await self.record(pool_name, replay_s=replay_s)
        # In a thread that pauses now and then, so that requests do not wait for it.
        planner = Planner(record, pool, goal, timezone=timezone, pause=lambda: time.sleep(_PAUSE_S))
        async with self._one_at_a_time:
            return await asyncio.to_thread(planner.plan)

    async def pool(self, pool_name: PoolName) -> PlannedPool:
        """Read the settings that a replay depends on."""
        found = await find_planned_pool(self._database, pool_name=pool_name)
        if found is None:
            raise NotFound("pool", pool_name)
        windows = [
            WarmWindow(**(window | {"days": tuple(window["days"])}))
            for window in found.warm.get("windows", [])
        ]
        warm = Warm(**({**found.warm} | {"windows": tuple(windows)}))
        return PlannedPool(name=pool_name, max_size=found.max_size, warm=warm)

    async def record(self, pool_name: PoolName, *, replay_s: float) -> Record:
        """Read the bots that arrived in the last `replay_s`."""
        reader = _RecordReader()
        after = BotId(0)
        while rows := await list_recorded_bots(
            self._database, pool_name=pool_name, replay_s=replay_s, after=after, limit=_PAGE
        ):
            reader.add(rows)
            after = rows[-1].bot_id
        return reader.record(replay_s)


@dataclass(slots=True)
class _Bot:
    row: RecordedAssignment
    stays: list[Stay]


class _RecordReader:
    """Collects the rows of assignments as bots."""

    def __init__(self) -> None:
        self._bots: dict[BotId, _Bot] = {}
        self._first_was_warm: dict[str, bool] = {}
        self._now: datetime | None = None

    def add(self, rows: list[RecordedAssignment]) -> None:
        for row in rows:
            self._now = row.now
            bot = self._bots.setdefault(row.bot_id, _Bot(row, []))
            if row.assigned_at is None or row.slot_name is None or row.warm is None:
                continue
            self._first_was_warm.setdefault(row.slot_name, row.warm)
            end = row.released_at or row.now
            kind = StartKind.WARM if row.warm else StartKind.COLD
            if row.hot:
                kind = StartKind.HOT
            began = row.running_at or row.assigned_at
            bot.stays.append(
                Stay(
                    kind=kind,
                    start_s=None
                    if row.running_at is None
                    else max((row.running_at - row.assigned_at).total_seconds(), 0.0),
                    after_s=max((end - began).total_seconds(), 0.0),
                )
            )

    def record(self, replay_s: float) -> Record:
        if self._now is None:
            return Record(
                since=datetime.fromtimestamp(0).astimezone(), duration_s=replay_s, bots=[]
            )
        rows = [bot.row for bot in self._bots.values()]
        since = min(row.created_at for row in rows)
        return Record(
            since=since,
            duration_s=max((self._now - since).total_seconds(), 1.0),
            bots=[_recorded_bot(bot, since) for bot in self._bots.values()],
            idle_slots=sum(self._first_was_warm.values()),
        )


def _recorded_bot(bot: _Bot, since: datetime) -> RecordedBot:
    row = bot.row
    return RecordedBot(
        arrived_s=(row.created_at - since).total_seconds(),
        priority=row.priority,
        queue_timeout_s=row.queue_timeout_ms / 1000,
        stays=bot.stays,
        wait_s=None
        if row.started_at is None
        else max((row.started_at - row.created_at).total_seconds(), 0.0),
    )
