"""What Botpool promises, as a page of Python without a database, a backend or a second thought.

It is written from the design, not from the code. It says how a call must be answered (`admission`,
`is_live`, `takes`), and it follows what is written in the history, transaction by transaction: a
move that the design does not allow, or that nothing in the world gave a reason for, is refused.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

FINAL = {"DONE", "FAILED", "CANCELLED"}
RUNNING = ["JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "LEAVING", "CALL_ENDED"]
"""In this order, and never back."""
ATTEMPTS = 2
FRESH_S = 300.0
LONGEST_S = 6 * 3600.0
STUCK_S = 900.0
"""Before that nobody gives a deployment up because of the time it takes."""
SHORTEST_RETRY_S = 60.0

SLOT_TRANSITIONS = {
    None: {"idle"},
    "idle": {"deploying", "error", "deleting"},
    "deploying": {"busy", "releasing"},
    "busy": {"releasing"},
    "releasing": {"idle", "error"},
    "error": {"idle", "deleting"},
    "deleting": {None},
}


@dataclass(frozen=True, kw_only=True)
class Move:
    """One row of the history."""

    kind: str
    bot: int | None
    slot: str | None
    assignment: int | None
    old: str | None
    new: str | None
    code: str | None
    """With which a bot that failed has failed."""


@dataclass(kw_only=True)
class Bot:
    pool_name: str
    priority: int
    timeout_s: float
    status: str = "PENDING"
    attempts: int = 0
    deadline: float | None = None
    assignment: int | None = None
    stop_asked: bool = False
    operated: bool = False
    """An operator took its slot."""
    assigned_at: float = 0.0
    fell: bool = False
    """The container of its present assignment ended by itself."""
    agent_called: bool = False
    said: set[str] = field(default_factory=set)
    ran_at: float = 0.0
    heard_at: float = 0.0


@dataclass(kw_only=True)
class Slot:
    pool_name: str
    status: str | None = None
    bot: int | None = None
    cordoned: bool = False


@dataclass(kw_only=True)
class Pool:
    maximum: int
    drained: bool = False


class Reference:
    def __init__(self, pools: dict[str, Pool]) -> None:
        self.now = 0.0
        self.outage_ended_at = 0.0
        """No replica lived before that: nobody could have heard an agent."""
        self.refused: set[object] = set()
        """Slots whose container the backend would not make, assignments it would not start."""
        self.pools = pools
        self.bots: dict[int, Bot] = {}
        self.slots: dict[str, Slot] = {}
        self.asked_for: Bot | None = None
        """What the client asks for now: no other bot can come into being."""

    # How calls must be answered

    def queue(self, pool_name: str) -> list[int]:
        waiting = [n for n, b in self.bots.items() if b.deadline and b.pool_name == pool_name]
        return sorted(waiting, key=lambda n: (self.bots[n].priority, n))

    def places(self, pool_name: str) -> int:
        """How many bots could have a slot now."""
        pool = self.pools[pool_name]
        slots = [slot for slot in self.slots.values() if slot.pool_name == pool_name]
        idle = sum(slot.status == "idle" and not slot.cordoned for slot in slots)
        return 0 if pool.drained else idle + max(0, pool.maximum - len(slots))

    def admission(self, wanted: Bot) -> str:
        """Whoever waits goes first; then a slot; then the queue, or a refusal."""
        if self.pools[wanted.pool_name].drained:
            return "drained"
        waiting = self._in_time(self.queue(wanted.pool_name))
        ahead = [n for n in waiting if self.bots[n].priority <= wanted.priority]
        if len(ahead) < self.places(wanted.pool_name):
            return "DEPLOYING"
        return "QUEUED" if wanted.timeout_s else "refused"

    def slot_of(self, number: int) -> str | None:
        return next((name for name, slot in self.slots.items() if slot.bot == number), None)

    def is_live(self, number: int, assignment: int) -> bool:
        """May this agent's word still change anything?"""
        slot = self.slots.get(self.slot_of(number) or "")
        holds = slot is not None and slot.status in ("deploying", "busy")
        return holds and self.bots[number].assignment == assignment

    def takes(self, number: int, assignment: int, report: str) -> bool:
        """Is this report of an agent a step forward of a live bot?"""
        current = self.bots[number].status
        if not self.is_live(number, assignment) or current in FINAL:
            return False
        place = -1 if current not in RUNNING else RUNNING.index(current)
        # A bot whose agent calls has joined: so much is known before the report is read.
        return report in FINAL or RUNNING.index(report) > max(place, 0)

    # What is written must have been allowed

    def follow(self, transaction: Sequence[Move]) -> None:
        served = [m for m in transaction if m.kind == "bot.status" and m.new == "DEPLOYING"]
        for move in transaction:
            if move.kind == "bot.status" and move not in served:
                self._move_bot(move)
        for pool_name in {self.bots[m.bot].pool_name for m in served if m.bot}:
            self._serve(
                pool_name, [m for m in served if self.bots[m.bot or 0].pool_name == pool_name]
            )
        for move in transaction:
            assert move.slot or move.kind == "bot.status", move
            if move.kind == "slot.status":
                self._move_slot(move)
            elif move.kind == "slot.cordon":
                self.slots[move.slot or ""].cordoned = move.new == "cordoned"
            elif move.kind == "slot.delete_requested":
                self.slots[move.slot or ""].cordoned = True

    def _serve(self, pool_name: str, served: Sequence[Move]) -> None:
        """Taken off the queue: its first ones, in order, and nobody else."""
        numbers = {move.bot for move in served}
        waiting = [n for n, b in self.bots.items() if b.deadline or b.status == "PENDING"]
        waiting = [n for n in waiting if self.bots[n].pool_name == pool_name]
        waiting.sort(key=lambda n: (self.bots[n].priority, n))
        first = self._in_time(waiting)[: len(served)]
        assert numbers == set(first), f"{numbers} overtook {first}"
        for move in served:
            bot = self.bots[move.bot or 0]
            assert move.old == bot.status, (move, bot)
            bot.status, bot.deadline, bot.assignment = "DEPLOYING", None, move.assignment
            bot.assigned_at, bot.fell = self.now, False
            bot.attempts += 1
            assert bot.attempts <= ATTEMPTS, (move, bot)

    def _move_bot(self, move: Move) -> None:
        assert move.bot is not None
        if move.new == "PENDING":
            assert self.asked_for is not None, "nobody asked for this bot"
            self.bots[move.bot], self.asked_for = self.asked_for, None
            return
        bot = self.bots[move.bot]
        assert move.old == bot.status, (move, bot)
        assert bot.status not in FINAL, (move, bot)
        if move.new == "QUEUED":
            again = bot.status == "DEPLOYING"
            assert bot.status == "PENDING" or (again and not bot.agent_called), (move, bot)
            assert bot.attempts < ATTEMPTS, (move, bot)
            bot.deadline = self.now + max(bot.timeout_s, SHORTEST_RETRY_S if again else 0)
        elif move.new in FINAL:
            assert self._has_reason(bot, move), (move, bot, self.now)
            bot.deadline = None
        else:
            assert move.new in RUNNING, move
            place = RUNNING.index(bot.status) if bot.status in RUNNING else -1
            # A request to leave may come after the call has ended; it moves nobody back.
            assert RUNNING.index(move.new) >= place, (move, bot)
            if move.new == "JOINING_CALL":
                bot.ran_at = bot.heard_at = self.now
        bot.status = move.new or ""

    def _has_reason(self, bot: Bot, move: Move) -> bool:
        """Nothing alive is killed: an end has its cause in the world."""
        silent_s = self.now - max(bot.heard_at, self.outage_ended_at)
        reasons = {
            "queue_timeout": bot.deadline is not None and self.now >= bot.deadline,
            "deploy_failed": bot.status == "DEPLOYING" and bot.attempts == ATTEMPTS,
            "heartbeat_lost": silent_s > FRESH_S and bot.status in RUNNING,
            "container_exited": bot.fell and bot.status in RUNNING,
            "max_duration": self.now - bot.ran_at >= LONGEST_S and bot.status in RUNNING,
            "meeting_failed": "FAILED" in bot.said,
            "operator": bot.operated,
        }
        if move.new == "FAILED":
            return reasons.get(move.code or "", False)
        return (
            bot.stop_asked if move.new == "CANCELLED" else bool(bot.said & {"DONE", "CALL_ENDED"})
        )

    def _has_failed_to_deploy(self, bot: Bot, move: Move) -> bool:
        """Is there a cause, of this bot's own, to give its deployment up?"""
        refusals = self.refused & {move.slot, move.assignment}
        self.refused -= refusals
        slow = self.now - bot.assigned_at >= STUCK_S
        return bot.fell or bot.operated or slow or bool(refusals)

    def _move_slot(self, move: Move) -> None:
        assert move.slot is not None
        pool_name = move.slot.removeprefix("pool-").rsplit("-", 1)[0]
        slot = self.slots.setdefault(move.slot, Slot(pool_name=pool_name))
        assert move.old == slot.status, (move, slot)
        assert move.new in SLOT_TRANSITIONS[slot.status], (move, slot)
        if move.new == "deploying":
            assert not slot.cordoned, (move, slot)
            assert not self.pools[pool_name].drained, move
            assert move.bot is not None
            assert self.bots[move.bot].pool_name == pool_name, "a bot in another pool's slot"
            slot.bot = move.bot
        elif move.new == "releasing":
            bot = self.bots[slot.bot or 0]
            assert bot.status in FINAL or self._has_failed_to_deploy(bot, move), (move, bot)
        elif move.new in ("idle", "error", "deleting"):
            slot.bot = None
        slot.status = move.new
        if move.new is None:
            del self.slots[move.slot]

    def _in_time(self, numbers: Iterable[int]) -> list[int]:
        """Those whose time has not run out."""
        deadlines = ((n, self.bots[n].deadline) for n in numbers)
        return [n for n, at in deadlines if at is None or self.now < at]
