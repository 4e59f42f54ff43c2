"""The machine: every public operation, every trouble, in any order, against the reference.

After each step everything written since is followed by the reference, what the database holds is
compared with it, every invariant is asked, and the platform says whether anything ran that should
not have. At the end everything works again: then every bot must come to its end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from reference import FINAL, Bot, Pool, Reference
from theatre import Row, Sight, Theatre
from world import Killed, Living, Platform

from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    IdempotencyConflict,
    NoSlot,
    NotFound,
    PoolDrained,
)
from botpool.domain.ids import BotId, SlotId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica

from replicas import MEET, TEAMS, key, pool, wish

T = TypeVar("T")
POLICY = Policy()
MAXIMA = {MEET: 2, TEAMS: 1}
POOLS = st.sampled_from([MEET, MEET, MEET, TEAMS])
WHICH = st.integers(0, 5)
"""Counted from the latest."""
REPORTS = ["JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "CALL_ENDED", "DONE", "FAILED"]
CALLS = ["ensure", "start", "look", "stop", "delete", "list_owned"]
HELD = ["start", "look", "answer of ensure", "answer of start", "answer of look", "answer of stop"]
"""Where a paused replica's call may be: a late start or look does no harm at any platform."""
DIED = object()


class Machine(RuleBasedStateMachine):
    theatre: ClassVar[Theatre]

    def __init__(self) -> None:
        super().__init__()
        self.theatre.empty()
        self.platform = Platform()
        self.reference = Reference({name: Pool(maximum=size) for name, size in MAXIMA.items()})
        self.living = [self._new_replica(), self._new_replica()]
        self.paused: tuple[Living, list[asyncio.Task[Any]], asyncio.Event] | None = None
        self.keys: dict[str, tuple[bytes, int]] = {}
        self.sight = self.theatre.look()
        self._do(self._configure)

    # Users

    @rule(
        platform=POOLS,
        priority=st.sampled_from([50, 100, 100, 150]),
        timeout_s=st.sampled_from([300, 300, 20, 0]),
        name=st.sampled_from([None, None, "k1", "k2"]),
        body=st.sampled_from([b"one", b"one", b"one", b"other"]),
    )
    def admit(
        self, platform: str, priority: int, timeout_s: int, name: str | None, body: bytes
    ) -> None:
        wanted = Bot(platform=platform, priority=priority, timeout_s=timeout_s)
        request = wish(platform, priority=priority, queue_timeout_ms=1000 * timeout_s)  # type: ignore[arg-type]
        expected, known = self.reference.admission(wanted), self.keys.get(name or "")
        self.reference.asked_for = None if known else wanted
        asked = key(name, body) if name else None
        before = len(self.sight.bots)
        answer = self._do(lambda r: _or_error(r.admission.admit(request, asked)), repeat=bool(name))
        self.reference.asked_for = None
        if answer is DIED or isinstance(answer, BaseException) or answer.replayed:
            assert answer is DIED or known or len(self.sight.bots) == before or name
        if name and not known and answer is not DIED and not isinstance(answer, BaseException):
            self.keys[name] = (body, answer.bot.id)
        if answer is DIED or self.died:
            return
        if known:
            same = known[0] == body
            assert answer.bot.id == known[1] if same else isinstance(answer, IdempotencyConflict)
        elif expected in ("drained", "refused"):
            refusal = PoolDrained if expected == "drained" else NoSlot
            assert isinstance(answer, refusal), answer
            assert len(self.sight.bots) == before, "a refusal records nothing"
        else:
            assert answer.bot.status == expected, (answer, expected)
            waiting = self.reference.queue(platform)
            place = waiting.index(answer.bot.id) + 1 if answer.bot.id in waiting else None
            assert answer.position == place

    @precondition(lambda self: self.reference.bots)
    @rule(which=WHICH)
    def stop(self, which: int) -> None:
        number = self._bot(which)
        bot = self.reference.bots[number]
        before = bot.status
        bot.stop_asked = bot.stop_asked or before not in FINAL
        answer = self._do(lambda r: r.stopping.stop(BotId(number)), repeat=True)
        if before in ("QUEUED", "DEPLOYING"):
            assert bot.status == "CANCELLED"
        elif before in FINAL:
            assert bot.status == before
            assert not answer[1]
        else:
            assert bot.status == ("CALL_ENDED" if before == "CALL_ENDED" else "LEAVING")

    # Agents: also of runs that are long over, and twice

    @precondition(lambda self: self.platform.started)
    @rule(which=WHICH, twice=st.booleans())
    def who_am_i(self, which: int, twice: bool) -> None:
        assignment, number, container = self._run(which)
        for _ in range(1 + twice):
            live = self._calls(assignment, number)
            answer = self._do(lambda r: r.agents.who_am_i(assignment, container), repeat=True)
            assert answer[0].bot.id == number
            assert self.died or answer[1] == (not live), "released"

    @precondition(lambda self: self.platform.started)
    @rule(which=WHICH, twice=st.booleans())
    def heartbeat(self, which: int, twice: bool) -> None:
        assignment, number, _ = self._run(which)
        for _ in range(1 + twice):
            live = self._calls(assignment, number)
            bot = self.reference.bots[number]
            orders = self._do(lambda r: r.agents.heartbeat(assignment, number), repeat=True)
            if live:
                bot.heard_at = self.reference.now
            assert orders.should_exit == (not live)
            assert orders.should_leave == (not live or bot.stop_asked)

    @precondition(lambda self: self.platform.started)
    @rule(which=WHICH, status=st.sampled_from(REPORTS), twice=st.booleans())
    def report(self, which: int, status: str, twice: bool) -> None:
        assignment, number, _ = self._run(which)
        for _ in range(1 + twice):
            taken = self.reference.takes(number, assignment, status)
            if self._calls(assignment, number):
                self.reference.bots[number].said.add(status)
            answer = self._do(
                lambda r: r.agents.report(assignment, number, BotStatus(status), None), repeat=True
            )
            assert self.died or answer == taken

    # Operators

    @precondition(lambda self: self.sight.slots)
    @rule(which=WHICH, cordoned=st.booleans())
    def cordon(self, which: int, cordoned: bool) -> None:
        slot = self._slot(which)
        self._lever(lambda r: r.pools.cordon(slot["id"], cordoned=cordoned, reason="test"))
        assert self.reference.slots[slot["slot_name"]].cordoned == cordoned

    @precondition(lambda self: self.sight.slots)
    @rule(which=WHICH)
    def release(self, which: int) -> None:
        slot = self._slot(which, operated=True)
        self._lever(lambda r: r.levers.release(slot["id"], reason="released by test"))
        self._lost_its_slot(slot)

    @precondition(lambda self: self.sight.slots)
    @rule(which=WHICH)
    def recover_slot(self, which: int) -> None:
        slot = self._slot(which, operated=True)
        self._lever(lambda r: r.levers.recover(slot["id"], reason="recovered by test"))
        if not self.died and slot["status"] in ("idle", "deploying", "busy"):
            after = {"idle": "error"}.get(slot["status"], "releasing")
            assert self.reference.slots[slot["slot_name"]].status == after

    @precondition(lambda self: self.sight.slots)
    @rule(which=WHICH)
    def delete(self, which: int) -> None:
        slot = self._slot(which)
        deleted = self._lever(lambda r: r.pools.remove(slot["id"], reason="deleted by test"))
        assert self.died or deleted == (slot["status"] in ("idle", "error"))

    @precondition(lambda self: self.sight.slots)
    @rule(which=WHICH)
    def delete_by_force(self, which: int) -> None:
        slot = self._slot(which, operated=True)
        self._lever(lambda r: r.levers.delete(slot["id"], reason="deleted by test"))
        self._lost_its_slot(slot)

    @rule(platform=POOLS, drained=st.booleans())
    def drain(self, platform: Any, drained: bool) -> None:
        if not drained:
            self.reference.pools[platform].drained = False
        self._lever(lambda r: r.pools.drain(platform, drained=drained, reason="test"))
        self.reference.pools[platform].drained = drained

    @rule(platform=POOLS, maximum=st.integers(0, 3))
    def change_the_maximum(self, platform: Any, maximum: int) -> None:
        self.reference.pools[platform].maximum = maximum
        self._lever(self._configure)

    # What replicas do by themselves

    @rule(which=WHICH)
    def step(self, which: int) -> None:
        self._do(None, which=which)

    @rule(which=WHICH)
    def look(self, which: int) -> None:
        self._do(lambda r: r.looker.look("process"), which=which)

    @rule(which=WHICH)
    def poll_the_queue(self, which: int) -> None:
        if self._do(lambda r: r.queue_keeper.keep(), which=which) is not DIED:
            assert not self.sight.unserved, self.sight.unserved

    @rule(which=WHICH)
    def pass_of_recovery(self, which: int) -> None:
        self._do(lambda r: r.recovery.recover(), which=which)

    @rule(which=WHICH, force=st.booleans())
    def clean_up(self, which: int, force: bool) -> None:
        self._do(lambda r: r.cleanup.clean(all_strays=force), which=which)

    @rule()
    def settle(self) -> None:
        for _ in range(6):
            self._do(None)
            self._do(lambda r: r.looker.look("process"))

    @rule(seconds=st.sampled_from([1, 10, 21, 61, 310, 930, 1850, 7 * 3600]), alive=st.booleans())
    def time_passes(self, seconds: int, alive: bool) -> None:
        self._pass(seconds, alive=alive)

    # Trouble

    @precondition(lambda self: self.paused is None)
    @rule(steps=st.integers(1, 6), after=st.booleans())
    def a_replica_is_going_to_die(self, steps: int, after: bool) -> None:
        """At a statement or a call of whatever it does next."""
        fate = self.living[0].fate
        fate.dies_in, fate.dies_after = steps, after

    @precondition(lambda self: self.paused is None)
    @rule(call=st.sampled_from(HELD), work=st.sampled_from(["step", "step", "look", "recover"]))
    def a_replica_pauses(self, call: str, work: str) -> None:
        paused = self.living.pop(0)
        paused.fate.dies_in = None
        self.living.append(self._new_replica())
        gate = self.platform.hold(call)
        if tasks := self.theatre.run(_until_held(paused, work, gate[0])):
            self.paused = (paused, tasks, gate[1])
        self.platform.release(call)
        self._see()

    @precondition(lambda self: self.paused is not None)
    @rule()
    def the_paused_replica_goes_on(self) -> None:
        assert self.paused is not None
        paused, tasks, go_on = self.paused
        self.paused = None
        go_on.set()
        self.theatre.run(_ended(tasks))
        paused.bury()
        self._see()

    @rule(call=st.sampled_from(CALLS), times=st.integers(1, 3), refused=st.booleans())
    def calls_will_fail(self, call: str, times: int, refused: bool) -> None:
        refuses = refused and call in ("ensure", "start")
        error = BackendRefused("setting", "wrong") if refuses else BackendUnavailable("502")
        self.platform.fail(call, *[error] * times)

    @rule(state=st.sampled_from(["running", "starting", "error", "exited"]))
    def starts_will_end_in(self, state: str) -> None:
        self.platform.state_after_start = ContainerState(state)

    @rule(stops=st.booleans(), deletes=st.booleans(), blind=st.booleans())
    def the_platform_is_in_a_mood(self, stops: bool, deletes: bool, blind: bool) -> None:
        self.platform.stops_work, self.platform.deletes_at_once = stops, deletes
        self.platform.is_blind = blind

    @precondition(lambda self: self.platform.running)
    @rule(which=WHICH, vanishes=st.booleans())
    def a_container_ends(self, which: int, vanishes: bool) -> None:
        running = [each for each, c in self.platform.containers.items() if c.state == "running"]
        container = running[which % len(running)]
        self._fell(self.platform.containers[container].assignment_id)
        if vanishes:
            self.platform.lose(container)
        else:
            self.platform.show(container, ContainerState.EXITED)

    @precondition(lambda self: any(s["status"] == "idle" for s in self.sight.slots))
    @rule(which=WHICH)
    def an_idle_container_runs(self, which: int) -> None:
        idle = [s["container_id"] for s in self.sight.slots if s["status"] == "idle"]
        container = idle[which % len(idle)]
        if container in self.platform.containers:
            self.platform.haunted.add(container)
            self.platform.show(container, ContainerState.RUNNING)

    # In the end

    def teardown(self) -> None:
        """Everything works again: every bot comes to its end, and nothing is left over."""
        if self.paused:
            self.the_paused_replica_goes_on()
        self.platform.heal()
        for each in self.living:
            each.fate.dies_in = None
        for _ in range(40):
            self._pass(61, alive=True)
            for assignment, number, _ in self.platform.started:
                if self.reference.is_live(number, assignment):
                    self._calls(assignment, number)
                    self.reference.bots[number].said.add("DONE")
                    self._do(lambda r: r.agents.report(assignment, number, BotStatus.DONE, None))  # noqa: B023
            self.settle()
            self._do(lambda r: r.queue_keeper.keep())
            self._do(lambda r: r.recovery.recover())
            if self._rests():
                break
        assert self._rests(), (self.sight.bots, self.sight.slots)
        for _ in range(2):
            self._pass(601, alive=False)
            self._do(lambda r: r.cleanup.clean(all_strays=True))
        kept = {slot["container_id"] for slot in self.sight.slots}
        assert set(self.platform.containers) <= kept, "a container is left over"
        assert not self.platform.running

    def _rests(self) -> bool:
        ended = all(bot["status"] in FINAL for bot in self.sight.bots)
        return ended and all(slot["status"] == "idle" for slot in self.sight.slots)

    # How it is done

    def _new_replica(self) -> Living:
        return Living(self.theatre.database, self.theatre.turn, self.platform, POLICY)

    async def _configure(self, replica: Replica) -> None:
        maxima = {name: each.maximum for name, each in self.reference.pools.items()}
        specs = [pool(maximum, name) for name, maximum in maxima.items()]  # type: ignore[arg-type]
        await replica.pools.configure([replace(spec) for spec in specs])

    def _do(
        self,
        work: Callable[[Replica], Awaitable[T]] | None,
        *,
        which: int = 0,
        repeat: bool = False,
    ) -> Any:
        """Let a replica do it (its due steps, by default), and see what came of it.

        `repeat`: whoever asked gets no answer from a replica that dies, and asks another.
        """
        self.died = False
        while True:
            living = self.living[which % len(self.living)]
            try:
                done = self.theatre.run(_one(living, work))
            except (Killed, asyncio.CancelledError):
                assert living.fate.is_dead, "cancelled by nobody"
                living.bury()
                self.living[which % len(self.living)] = self._new_replica()
                self.died, done = True, DIED
            self._see()
            if done is not DIED or not repeat:
                return done

    def _lever(self, work: Callable[[Replica], Awaitable[T]]) -> Any:
        """An operator whose slot is gone by now is told so."""
        return self._do(lambda replica: _or_error(work(replica)), repeat=True)

    def _see(self) -> None:
        self.theatre.steps += 1
        for container in self.platform.containers.values():
            if container.state in (ContainerState.EXITED, ContainerState.ERROR):
                self._fell(container.assignment_id)
        self.sight = sight = self.theatre.look()
        for transaction in sight.transactions:
            self.reference.follow(transaction)
        _compare(self.reference, sight)
        assert not sight.broken, sight.broken
        assert not self.platform.outrages, self.platform.outrages
        for slot in sight.slots:
            container = self.platform.containers.get(slot["container_id"])
            if container and container.state is not ContainerState.RUNNING:
                self.platform.haunted.discard(slot["container_id"])
            if slot["status"] in ("idle", "error") and container:
                quiet = container.state is not ContainerState.RUNNING
                assert quiet or slot["container_id"] in self.platform.haunted, "it runs for nobody"

    def _pass(self, seconds: float, *, alive: bool) -> None:
        """Time in which replicas lived, or did not."""
        left = seconds
        while left > 0:
            part = min(left, 29 if alive and seconds < 1000 else left)
            left -= part
            self.reference.now += part
            self.theatre.move_clock(self.reference.now)
            if alive:
                self.theatre.run(_one(self.living[-1], lambda r: r.recovery.say_alive()))

    def _fell(self, assignment: int | None) -> None:
        for bot in self.reference.bots.values():
            bot.fell = bot.fell or (assignment is not None and bot.assignment == assignment)

    def _calls(self, assignment: int, number: int) -> bool:
        """An agent calls: while it is live, that says that its container runs."""
        live = self.reference.is_live(number, assignment)
        if live:
            self.reference.bots[number].agent_called = True
        return live

    def _lost_its_slot(self, slot: Row) -> None:
        if slot["status"] in ("deploying", "busy"):
            assert self.reference.bots[slot["assigned_bot_id"]].status in ("FAILED", "CANCELLED")

    def _bot(self, which: int) -> int:
        numbers = sorted(self.reference.bots)
        return numbers[-1 - which % len(numbers)]

    def _run(self, which: int) -> tuple[Any, Any, Any]:
        return self.platform.started[-1 - which % len(self.platform.started)]

    def _slot(self, which: int, *, operated: bool = False) -> Any:
        slot = self.sight.slots[which % len(self.sight.slots)]
        if operated and slot["assigned_bot_id"]:
            self.reference.bots[slot["assigned_bot_id"]].operated = True
        return slot | {"id": SlotId(slot["id"])}


def _compare(reference: Reference, sight: Sight) -> None:
    """What the history tells is what the tables hold."""
    assert {bot["id"]: (bot["status"], bot["attempts"]) for bot in sight.bots} == {
        number: (bot.status, bot.attempts) for number, bot in reference.bots.items()
    }
    assert {
        slot["slot_name"]: (slot["status"], slot["assigned_bot_id"], slot["cordoned"])
        for slot in sight.slots
    } == {name: (slot.status, slot.bot, slot.cordoned) for name, slot in reference.slots.items()}
    for platform in reference.pools:
        waiting = [row["bot_id"] for row in sight.queue if row["platform"] == platform]
        assert waiting == reference.queue(platform)


async def _one(living: Living, work: Callable[[Replica], Awaitable[T]] | None) -> Any:
    return await (work(living.replica) if work else living.step())


async def _or_error(work: Awaitable[T]) -> T | Exception:
    try:
        return await work
    except (PoolDrained, NoSlot, IdempotencyConflict, NotFound) as error:
        return error


async def _until_held(living: Living, work: str, held: asyncio.Event) -> list[asyncio.Task[Any]]:
    """Do the work until a call of it is held; what then waits. Nothing: it met no such call."""
    replica = living.replica
    tasks: list[asyncio.Task[Any]]
    if work == "step":
        await replica.stepper.make_due_steps()
        tasks = list(replica.stepper.under_way)
    elif work == "look":
        tasks = [asyncio.create_task(replica.looker.look("process"))]
    else:
        tasks = [asyncio.create_task(replica.recovery.recover())]
    waits = asyncio.create_task(held.wait())
    while not held.is_set() and not all(task.done() for task in tasks):
        open_tasks = [task for task in tasks if not task.done()]
        await asyncio.wait([waits, *open_tasks], return_when=asyncio.FIRST_COMPLETED)
    waits.cancel()
    return tasks if held.is_set() else []


async def _ended(tasks: Sequence[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks)
