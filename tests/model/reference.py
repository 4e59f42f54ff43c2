"""A reference model of the design in plain Python, without a database or a backend.

The model follows the design, not the code. It predicts responses (`admission`, `is_live`,
`accepts_report`) and applies the history, transaction by transaction. It rejects a row that the
design does not allow, and an end of a bot without a cause.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

FINAL = {"DONE", "FAILED", "CANCELLED"}
RUNNING = ["JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "LEAVING", "CALL_ENDED"]
"""A bot passes these statuses in this order and never goes back."""
ATTEMPTS = 2
HEARTBEAT_FRESH_S = 300.0
MAX_DURATION_S = 6 * 3600.0
HANDOVER_S = 3.0
"""No hand-over to a standby is given up as too slow before this time."""
DEPLOY_STUCK_S = 900.0
"""No deployment is given up as too slow before this time."""
MIN_RETRY_TIMEOUT_S = 60.0
FINISH_S = 900.0
"""No bot fails after its call before this time."""

SLOT_TRANSITIONS = {
    None: {"idle"},
    "idle": {"deploying", "error", "deleting"},
    "deploying": {"busy", "releasing"},
    "busy": {"releasing"},
    "releasing": {"idle", "error", "deploying"},
    "error": {"idle", "deleting"},
    "deleting": {None},
}


@dataclass(frozen=True, kw_only=True)
class HistoryRow:
    """One row of the history."""

    kind: str
    bot: int | None
    slot: str | None
    assignment: int | None
    old: str | None
    new: str | None
    code: str | None
    """The failure code of the bot."""


@dataclass(frozen=True, kw_only=True)
class Tenant:
    name: str
    weight: int = 1
    max_live: int | None = None


TENANTS = {
    1: Tenant(name="default"),
    2: Tenant(name="heavy", weight=2),
    3: Tenant(name="limited", max_live=1),
}


@dataclass(kw_only=True)
class Bot:
    pool_name: str
    tenant: int = 1
    priority: int
    timeout_s: float
    status: str = "PENDING"
    attempts: int = 0
    deadline: float | None = None
    assignment: int | None = None
    run: int | None = None
    """The run of its container: of its assignment, or of the standby that gets the bot."""
    from_standby: bool = False
    """A standby got the bot, and its agent has not accepted it yet."""
    standby_at: float = 0.0
    """When the start of that standby began."""
    call_ended_at: float = 0.0
    stop_requested: bool = False
    operator_intervened: bool = False
    """An operator took the bot's slot."""
    assigned_at: float = 0.0
    container_ended: bool = False
    """The container of the current assignment ended without a stop from Botpool."""
    agent_called: bool = False
    reported: set[str] = field(default_factory=set)
    started_at: float = 0.0
    heartbeat_at: float = 0.0


@dataclass(kw_only=True)
class Slot:
    pool_name: str
    status: str | None = None
    bot: int | None = None
    cordoned: bool = False
    standby: str | None = None
    """`starting` for a standby that may get a bot, `stopping` for one that may not."""
    standby_at: float = 0.0


@dataclass(kw_only=True)
class Pool:
    maximum: int
    hot: int = 0
    drained: bool = False


class Reference:
    def __init__(self, pools: dict[str, Pool]) -> None:
        self.now = 0.0
        self.outage_ended_at = 0.0
        """End of the last outage: before this time no replica could receive heartbeats."""
        self.refused: set[object] = set()
        """Slots and assignments for which the backend refused a creation or a start."""
        self.pools = pools
        self.bots: dict[int, Bot] = {}
        self.slots: dict[str, Slot] = {}
        self.expected_bot: Bot | None = None
        """The bot that the client requests now: the history may create no other."""

    # Expected responses

    def queue(self, pool_name: str, tenant: int | None = None) -> list[int]:
        """Return the queue of a pool, or the queue of one tenant in it."""
        waiting = [n for n, b in self.bots.items() if b.deadline and b.pool_name == pool_name]
        own = [n for n in waiting if tenant in (None, self.bots[n].tenant)]
        return sorted(own, key=lambda n: (self.bots[n].priority, n))

    def quota_room(self, tenant: int) -> float:
        """Return how many slots a tenant may get before it is at its quota."""
        quota = TENANTS[tenant].max_live
        live = [s for s in self.slots.values() if s.bot and self.bots[s.bot].tenant == tenant]
        return math.inf if quota is None else quota - len(live)

    def free_capacity(self, pool_name: str) -> int:
        """Return the number of bots that could get a slot now."""
        pool = self.pools[pool_name]
        slots = [slot for slot in self.slots.values() if slot.pool_name == pool_name]
        idle = sum(
            slot.status == "idle" and not slot.cordoned and slot.standby != "stopping"
            for slot in slots
        )
        return 0 if pool.drained else idle + max(0, pool.maximum - len(slots))

    def admission(self, wanted: Bot) -> str:
        """Predict an admission: queued bots first, then a slot, then the queue or a refusal."""
        if self.pools[wanted.pool_name].drained:
            return "drained"
        waiting = self._before_deadline(self.queue(wanted.pool_name))
        own = [n for n in waiting if self.bots[n].tenant == wanted.tenant]
        ahead = [n for n in own if self.bots[n].priority <= wanted.priority]
        capacity = self.free_capacity(wanted.pool_name)
        if len(ahead) >= min(capacity, self.quota_room(wanted.tenant)):
            return "QUEUED" if wanted.timeout_s else "refused"
        # Beside bots of other tenants, also expired ones, the turns decide, perhaps after the
        # response.
        others = [n for n in self.queue(wanted.pool_name) if self.bots[n].tenant != wanted.tenant]
        return "by turn" if others else "DEPLOYING"

    def slot_of(self, number: int) -> str | None:
        return next((name for name, slot in self.slots.items() if slot.bot == number), None)

    def is_live(self, number: int, assignment: int) -> bool:
        """Return whether this assignment is current, so that its agent's calls have an effect."""
        slot = self.slots.get(self.slot_of(number) or "")
        holds = slot is not None and slot.status in ("deploying", "busy")
        return holds and self.bots[number].assignment == assignment

    def accepts_report(self, number: int, assignment: int, report: str) -> bool:
        """Return whether this report advances a bot whose assignment is current."""
        current = self.bots[number].status
        if not self.is_live(number, assignment) or current in FINAL:
            return False
        current_index = -1 if current not in RUNNING else RUNNING.index(current)
        # The call itself is evidence that the container runs: the bot is JOINING_CALL already.
        return report in FINAL or RUNNING.index(report) > max(current_index, 0)

    # Checks of the written history

    def apply_transaction(self, transaction: Sequence[HistoryRow]) -> None:
        assigned = [m for m in transaction if m.kind == "bot.status" and m.new == "DEPLOYING"]
        for row in transaction:
            if row.kind == "bot.status" and row not in assigned:
                self._apply_bot_status(row)
        for pool_name in {self.bots[m.bot].pool_name for m in assigned if m.bot}:
            self._apply_assignments(
                pool_name, [m for m in assigned if self.bots[m.bot or 0].pool_name == pool_name]
            )
        for row in transaction:
            assert row.slot or row.kind == "bot.status", row
            if row.kind == "slot.status":
                self._apply_slot_status(row)
            elif row.kind == "slot.standby":
                self._apply_standby(row)
            elif row.kind == "slot.cordon":
                self.slots[row.slot or ""].cordoned = row.new == "cordoned"
            elif row.kind == "slot.delete_requested":
                self.slots[row.slot or ""].cordoned = True
        for tenant in TENANTS:
            assert self.quota_room(tenant) >= 0, f"tenant {tenant} is above its quota"

    def _apply_assignments(self, pool_name: str, assigned: Sequence[HistoryRow]) -> None:
        """Check that exactly the first bots of each tenant's queue leave it, and assign them."""
        waiting = [n for n, b in self.bots.items() if b.deadline or b.status == "PENDING"]
        waiting = [n for n in waiting if self.bots[n].pool_name == pool_name]
        waiting.sort(key=lambda n: (self.bots[n].priority, n))
        for tenant in TENANTS:
            numbers = {row.bot for row in assigned if self.bots[row.bot or 0].tenant == tenant}
            own = [n for n in waiting if self.bots[n].tenant == tenant]
            first = self._before_deadline(own)[: len(numbers)]
            assert numbers == set(first), f"{numbers} overtook {first}"
        for row in assigned:
            bot = self.bots[row.bot or 0]
            assert row.old == bot.status, (row, bot)
            bot.status, bot.deadline, bot.assignment = "DEPLOYING", None, row.assignment
            bot.assigned_at, bot.container_ended = self.now, False
            bot.attempts += 1
            assert bot.attempts <= ATTEMPTS, (row, bot)

    def _apply_bot_status(self, row: HistoryRow) -> None:
        assert row.bot is not None
        if row.new == "PENDING":
            assert self.expected_bot is not None, "no client requested this bot"
            self.bots[row.bot], self.expected_bot = self.expected_bot, None
            return
        bot = self.bots[row.bot]
        assert row.old == bot.status, (row, bot)
        assert bot.status not in FINAL, (row, bot)
        if row.new == "QUEUED":
            again = bot.status == "DEPLOYING"
            assert bot.status == "PENDING" or (again and not bot.agent_called), (row, bot)
            assert bot.attempts < ATTEMPTS, (row, bot)
            bot.deadline = self.now + max(bot.timeout_s, MIN_RETRY_TIMEOUT_S if again else 0)
        elif row.new in FINAL:
            assert self._end_is_justified(bot, row), (row, bot, self.now)
            bot.deadline = None
        else:
            assert row.new in RUNNING, row
            current_index = RUNNING.index(bot.status) if bot.status in RUNNING else -1
            # A request to leave may follow the end of the call; it does not change the status back.
            assert RUNNING.index(row.new) >= current_index, (row, bot)
            bot.from_standby = False
            if row.new == "CALL_ENDED":
                bot.call_ended_at = self.now
            if row.new == "JOINING_CALL":
                bot.started_at = bot.heartbeat_at = self.now
        bot.status = row.new or ""

    def _end_is_justified(self, bot: Bot, row: HistoryRow) -> bool:
        """Return whether something that happened justifies this final status."""
        silence_s = self.now - max(bot.heartbeat_at, self.outage_ended_at)
        reasons = {
            "queue_timeout": bot.deadline is not None and self.now >= bot.deadline,
            "deploy_failed": bot.status == "DEPLOYING" and bot.attempts == ATTEMPTS,
            "heartbeat_lost": silence_s > HEARTBEAT_FRESH_S and bot.status in RUNNING,
            "container_exited": bot.container_ended and bot.status in RUNNING,
            "max_duration": self.now - bot.started_at >= MAX_DURATION_S and bot.status in RUNNING,
            "meeting_failed": "FAILED" in bot.reported,
            "finish_timeout": bot.status == "CALL_ENDED"
            and self.now - bot.call_ended_at >= FINISH_S,
            "operator": bot.operator_intervened,
        }
        if row.new == "FAILED":
            return reasons.get(row.code or "", False)
        return (
            bot.stop_requested
            if row.new == "CANCELLED"
            else bool(bot.reported & {"DONE", "CALL_ENDED"})
        )

    def _deployment_may_be_given_up(self, bot: Bot, row: HistoryRow) -> bool:
        """Return whether a fault of this bot's own deployment justifies giving it up."""
        refusals = self.refused & {row.slot, row.assignment, bot.run}
        self.refused -= refusals
        limit_s = HANDOVER_S if bot.from_standby else DEPLOY_STUCK_S
        # The standby may have come up for long before it got its bot.
        silent = bot.from_standby and self.now - bot.standby_at >= DEPLOY_STUCK_S
        slow = self.now - bot.assigned_at >= limit_s or silent
        return bot.container_ended or bot.operator_intervened or slow or bool(refusals)

    def _apply_slot_status(self, row: HistoryRow) -> None:
        assert row.slot is not None
        pool_name = row.slot.removeprefix("pool-").rsplit("-", 1)[0]
        slot = self.slots.setdefault(row.slot, Slot(pool_name=pool_name))
        assert row.old == slot.status, (row, slot)
        assert row.new in SLOT_TRANSITIONS[slot.status], (row, slot)
        if slot.status == "releasing" and row.new == "deploying":
            self._apply_cold_start(slot, row)
        elif row.new == "deploying":
            assert not slot.cordoned, (row, slot)
            assert slot.standby != "stopping", (row, slot)
            assert not self.pools[pool_name].drained, row
            assert row.bot is not None
            assert self.bots[row.bot].pool_name == pool_name, "a bot in another pool's slot"
            slot.bot = row.bot
            self.bots[row.bot].from_standby = slot.standby is not None
            self.bots[row.bot].standby_at = slot.standby_at
            slot.standby = None
        elif row.new == "releasing":
            bot = self.bots[slot.bot or 0]
            assert bot.status in FINAL or self._deployment_may_be_given_up(bot, row), (row, bot)
        elif row.new in ("idle", "error", "deleting"):
            slot.bot = slot.standby = None
        slot.status = row.new
        if row.new is None:
            del self.slots[row.slot]

    def _apply_cold_start(self, slot: Slot, row: HistoryRow) -> None:
        """After the stop of a standby, its bot starts in the same slot, also in a cordoned one."""
        bot = self.bots[row.bot or 0]
        assert slot.bot == row.bot, (row, slot)
        assert bot.from_standby and bot.status == "DEPLOYING", (row, bot)
        assert bot.assignment is not None and row.assignment is not None
        assert row.assignment > bot.assignment, "the backend refuses the old id"
        bot.assignment, bot.assigned_at = row.assignment, self.now
        bot.from_standby = bot.container_ended = False

    def _apply_standby(self, row: HistoryRow) -> None:
        slot = self.slots[row.slot or ""]
        assert slot.status == "idle", "only an idle slot has a standby of its own"
        if row.new == "starting":
            assert slot.standby is None, (row, slot)
            assert not slot.cordoned and not self.pools[slot.pool_name].drained, (row, slot)
        else:
            assert slot.standby == ("stopping" if row.new is None else "starting"), (row, slot)
        slot.standby, slot.standby_at = row.new, self.now

    def _before_deadline(self, numbers: Iterable[int]) -> list[int]:
        """Return the bots whose queue deadline has not passed."""
        deadlines = ((n, self.bots[n].deadline) for n in numbers)
        return [n for n, at in deadlines if at is None or self.now < at]
