"""The machine: every public operation, and every trouble, in any order.

How calls must be answered is asked of the reference before they are made. At the end everything
works again: then every bot must come to its end.
"""

import sys
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    IdempotencyConflict,
    NoFreeSlot,
    PoolDrained,
)
from botpool.domain.ids import BotId, ContainerId
from botpool.domain.observation import ContainerState
from botpool.domain.records import IdempotencyKey
from botpool.domain.states import BotStatus
from tests.model.doings import all_of, or_error, pull, until_held, working
from tests.model.life import DIED, Life
from tests.model.reference import FINAL, Bot
from tests.support.replicas import MEET, TEAMS, bot_request, key

POOLS = st.sampled_from([MEET, MEET, MEET, TEAMS])
PRIORITIES = st.sampled_from([50, 100, 100, 150])
TIMEOUTS = st.sampled_from([300, 300, 20, 0])
BODIES = st.sampled_from([b"one", b"one", b"other"])
TWICE = st.sampled_from([1, 1, 2])
MOSTLY = st.sampled_from([True, True, True, False])
WHICH = st.integers(0, 5)
"""Counted from the latest."""
REPORTS = ["JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "CALL_ENDED", "DONE", "DONE", "FAILED"]
LEVERS = ["cordon", "uncordon", "release", "recover", "delete", "delete by force"]
WORK = ["step", "step", "step", "observe", "observe", "poll", "recover", "clean", "describe"]
CALLS = ["ensure", "start", "observe", "stop", "delete", "list_owned"]
PAUSES = [
    ("step", "start"),
    ("step", "answer of ensure"),
    ("step", "answer of start"),
    ("step", "answer of stop"),
    ("step", "answer of observe"),
    ("observe", "observe"),
    ("observe", "answer of observe"),
    ("recover", "answer of observe"),
]
"""At what a replica may pause, and where its call is then: late, none of these does any harm."""
MEANWHILE = ["nothing", "deploys", "runs", "is released"]
"""How far the next tenant of a slot has come when a paused replica goes on."""
STATES = [ContainerState.RUNNING] * 3 + [
    ContainerState.STARTING,
    ContainerState.ERROR,
    ContainerState.EXITED,
]
REFUSALS: dict[str, type[Exception]] = {"drained": PoolDrained, "refused": NoFreeSlot}


class Machine(Life):
    # Users

    @rule(
        pool_name=POOLS,
        wanted=st.lists(st.tuples(PRIORITIES, TIMEOUTS), min_size=1, max_size=3),
    )
    def admit(self, pool_name: Any, wanted: list[tuple[int, int]]) -> None:
        for priority, timeout_s in wanted:
            self._admit(pool_name, priority, timeout_s)

    @rule(pool_name=POOLS, name=st.sampled_from(["k1", "k2"]), body=BODIES)
    def admit_again(self, pool_name: Any, name: str, body: bytes) -> None:
        """With a key: the first is a bot, the others are the same one."""
        known = self.api_keys.get(name)
        if known is None:
            answer = self._admit(pool_name, 100, 300, key(name, body))
            if not isinstance(answer, Exception):
                self.api_keys[name] = (body, answer.bot.id)
            return
        answer = self.do(
            lambda r: or_error(r.admission.admit(bot_request(pool_name), key(name, body))),
            repeat=True,
        )
        if known[0] == body:
            assert (answer.bot.id, answer.replayed) == (known[1], True)
        else:
            assert isinstance(answer, IdempotencyConflict)

    def _admit(
        self, pool_name: Any, priority: int, timeout_s: int, asked: IdempotencyKey | None = None
    ) -> Any:
        wanted = Bot(pool_name=pool_name, priority=priority, timeout_s=timeout_s)
        request = bot_request(pool_name, priority=priority, queue_timeout_ms=1000 * timeout_s)
        expected, before = self.reference.admission(wanted), len(self.sight.bots)
        self.reference.asked_for = wanted
        answer = self.do(
            lambda r: or_error(r.admission.admit(request, asked)), repeat=asked is not None
        )
        self.reference.asked_for = None
        if self.died:
            return answer
        if expected in REFUSALS:
            assert isinstance(answer, REFUSALS[expected]), answer
            assert len(self.sight.bots) == before, "a refusal records nothing"
        else:
            assert answer.bot.status == expected, (answer, expected)
            waiting = self.reference.queue(pool_name)
            place = waiting.index(answer.bot.id) + 1 if answer.bot.id in waiting else None
            assert answer.position == place
        return answer

    @precondition(lambda self: self.reference.bots)
    @rule(which=WHICH)
    def stop(self, which: int) -> None:
        numbers = sorted(self.reference.bots)
        number = numbers[-1 - which % len(numbers)]
        bot = self.reference.bots[number]
        before = bot.status
        bot.stop_asked = bot.stop_asked or before not in FINAL
        answer = self.do(lambda r: r.bot_stopper.stop(BotId(number)), repeat=True)
        if before in ("QUEUED", "DEPLOYING"):
            assert bot.status == "CANCELLED"
        elif before in FINAL:
            assert (bot.status, answer[1]) == (before, False)
        else:
            assert bot.status == ("CALL_ENDED" if before == "CALL_ENDED" else "LEAVING")

    # Agents: also of runs that are long over, and twice

    @precondition(lambda self: self.pool_name.started)
    @rule(which=WHICH, call=st.sampled_from(["identify", "heartbeat", *REPORTS]), twice=TWICE)
    def agent_calls(self, which: int, call: str, twice: int) -> None:
        run = self.pool_name.started[-1 - which % len(self.pool_name.started)]
        for _ in range(twice):
            if call == "identify":
                self._ask_who(*run)
            elif call == "heartbeat":
                self._beat(*run)
            else:
                self._report(*run, call)

    def _ask_who(self, assignment: Any, number: Any, container: Any) -> None:
        live = self.hear(assignment, number)
        answer = self.do(lambda r: r.agents.identify(assignment, container), repeat=True)
        assert (answer[0].bot.id, answer[1]) == (number, not live), "its own bot, or released"

    def _beat(self, assignment: Any, number: Any, _: Any) -> None:
        live, bot = self.hear(assignment, number), self.reference.bots[number]
        orders = self.do(lambda r: r.agents.heartbeat(assignment, number), repeat=True)
        if live:
            bot.heard_at = self.reference.now
        assert orders.should_exit == (not live)
        assert orders.should_leave == (not live or bot.stop_asked)

    def _all_report_done(self) -> None:
        for run in self.pool_name.started:
            if self.reference.is_live(run[1], run[0]):
                self._report(*run, "DONE")

    def _report(self, assignment: Any, number: Any, _: Any, status: str) -> None:
        taken = self.reference.takes(number, assignment, status)
        if self.hear(assignment, number):
            self.reference.bots[number].said.add(status)
        said = BotStatus(status)
        answer = self.do(lambda r: r.agents.report(assignment, number, said, None), repeat=True)
        assert answer == taken or self.died

    # Operators

    @precondition(lambda self: self.sight.slots)
    @rule(which=WHICH, lever=st.sampled_from(LEVERS))
    def operate(self, which: int, lever: str) -> None:
        slot = self.sight.slots[which % len(self.sight.slots)]
        bot = self.reference.bots.get(slot["assigned_bot_id"])
        if bot is not None:
            bot.operated = bot.operated or lever in ("release", "recover", "delete by force")
        done = self.do(lambda r: or_error(pull(r, lever, slot["id"])), repeat=True)
        after = self.reference.slots.get(slot["slot_name"])
        if lever in ("cordon", "uncordon"):
            assert after is not None
            assert after.cordoned == (lever == "cordon")
        elif lever == "delete":
            assert self.died or done == (slot["status"] in ("idle", "error"))
        elif slot["status"] in ("deploying", "busy"):
            assert after is not None
            assert after.status == "releasing", "taken from its bot"
        elif slot["status"] == "idle" and lever != "release" and not self.died:
            assert after is None or after.status == ("error" if lever == "recover" else "deleting")

    @rule(pool_name=POOLS, drained=st.booleans(), maximum=st.integers(0, 3))
    def set_up_the_pool(self, pool_name: Any, drained: bool, maximum: int) -> None:
        """What opens a pool may be followed at once by a match; what closes it, by none."""
        wanted = self.reference.pools[pool_name]
        wanted.drained = wanted.drained and drained
        self.do(lambda r: r.pools.drain(pool_name, drained=drained, reason="test"), repeat=True)
        wanted.drained, wanted.maximum = drained, maximum
        self.do(self.configure, repeat=True)

    # What replicas do by themselves

    @rule(which=WHICH, work=st.sampled_from(WORK))
    def work(self, which: int, work: str) -> None:
        done = self.do(working(work), which=which)
        if work == "poll" and done is not DIED:
            assert not self.sight.unserved, self.sight.unserved

    @rule()
    def settle(self) -> None:
        for _ in range(4):
            self.do(None)
            self.do(working("observe"))

    @rule()
    def nobody_lives_for_an_hour(self) -> None:
        """And the first thing done after it is a pass."""
        self.pass_time(3600, alive=False)
        self.do(working("recover"))

    @rule(seconds=st.sampled_from([1, 21, 61, 280, 310, 930, 7 * 3600]), alive=st.booleans())
    def time_passes(self, seconds: int, alive: bool) -> None:
        self.pass_time(seconds, alive=alive)

    # Trouble

    @precondition(lambda self: self.paused is None)
    @rule(steps=st.integers(1, 6), after=st.booleans())
    def a_replica_is_going_to_die(self, steps: int, after: bool) -> None:
        """At a statement or a call of whatever it does next."""
        fate = self.living[0].fate
        fate.dies_in, fate.dies_after = steps, after

    @precondition(lambda self: self.paused is None)
    @rule(
        pause=st.sampled_from(PAUSES),
        before=st.sampled_from(["nothing", "agents report their end", "containers end"]),
    )
    def a_replica_pauses(self, pause: tuple[str, str], before: str) -> None:
        """With what it was just about to act on."""
        if before == "agents report their end":
            self._all_report_done()
        elif before == "containers end":
            for container in self._running():
                self._container_ends(container, vanishes=False)
        work, call = pause
        paused = self.living.pop(0)
        paused.fate.dies_in = None
        self.living.append(self.new_replica())
        gate = self.pool_name.hold(call)
        if tasks := self.theatre.run(until_held(paused, work, gate[0])):
            self.paused = (paused, tasks, gate[1])
        self.pool_name.release(call)
        self.see()

    @precondition(lambda self: self.paused is not None)
    @rule(meanwhile=st.sampled_from(MEANWHILE))
    def the_paused_replica_goes_on(self, meanwhile: str) -> None:
        """At once, or when its lease has run out and its slot has the next tenant."""
        if meanwhile != "nothing":
            self._next_tenant_comes(meanwhile)
        self._go_on()

    def _next_tenant_comes(self, as_far_as: str) -> None:
        self.pass_time(61, alive=True)
        self._all_report_done()
        self.settle()
        self._admit(MEET, 100, 300)
        self.do(None)
        if as_far_as != "deploys":
            self.do(working("observe"))
        if as_far_as == "is released":
            self._all_report_done()

    def _go_on(self) -> None:
        assert self.paused is not None
        paused, tasks, go_on = self.paused
        self.paused = None
        go_on.set()
        self.theatre.run(all_of(tasks))
        paused.bury()
        self.see()

    @rule(call=st.sampled_from(CALLS), times=st.integers(1, 3), refused=st.booleans())
    def calls_will_fail(self, call: str, times: int, refused: bool) -> None:
        refuses = refused and call in ("ensure", "start")
        error = BackendRefused("setting", "wrong") if refuses else BackendUnavailable("502")
        self.pool_name.fail(call, *[error] * times)

    @rule(state=st.sampled_from(STATES), stops=MOSTLY, deletes=MOSTLY, sees=MOSTLY)
    def the_platform_is_in_a_mood(
        self, state: ContainerState, stops: bool, deletes: bool, sees: bool
    ) -> None:
        self.pool_name.state_after_start = state
        self.pool_name.stops_work, self.pool_name.deletes_at_once = stops, deletes
        self.pool_name.status_unreliable = not sees

    @precondition(lambda self: self.pool_name.running)
    @rule(which=WHICH, vanishes=st.booleans())
    def a_container_ends(self, which: int, vanishes: bool) -> None:
        running = self._running()
        self._container_ends(running[which % len(running)], vanishes=vanishes)

    def _running(self) -> list[ContainerId]:
        return [each for each, c in self.pool_name.containers.items() if c.state == "running"]

    def _container_ends(self, container: ContainerId, *, vanishes: bool) -> None:
        self.fell(self.pool_name.containers[container].assignment_id)
        if vanishes:
            self.pool_name.lose(container)
        else:
            self.pool_name.show(container, ContainerState.EXITED)

    @precondition(lambda self: any(s["status"] == "idle" for s in self.sight.slots))
    @rule(which=WHICH)
    def an_idle_container_runs(self, which: int) -> None:
        idle = [s["container_id"] for s in self.sight.slots if s["status"] == "idle"]
        container = idle[which % len(idle)]
        if container in self.pool_name.containers:
            self.pool_name.haunted.add(container)
            self.pool_name.show(container, ContainerState.RUNNING)

    # In the end

    def teardown(self) -> None:
        """Everything works again: every bot comes to its end, and nothing is left over."""
        if sys.exc_info()[0] is not None:
            return  # It has gone wrong already.
        if self.paused:
            self._go_on()
        self.pool_name.heal()
        for each in self.living:
            each.fate.dies_in = None
        for _ in range(40):
            self.pass_time(61, alive=True)
            self._all_report_done()
            self.settle()
            for work in ("poll", "recover"):
                self.do(working(work))
            if self._rests():
                break
        assert self._rests(), (self.sight.bots, self.sight.slots)
        self._is_tidy()

    def _is_tidy(self) -> None:
        for _ in range(2):
            self.pass_time(601, alive=False)
            self.do(working("clean by force"))
        kept = {slot["container_id"] or slot["slot_name"] for slot in self.sight.slots}
        for container_id, container in self.pool_name.containers.items():
            # One whose making was never answered waits under its slot's name.
            assert kept & {container_id, container.name}, "a container is left over"
        assert not self.pool_name.running

    def _rests(self) -> bool:
        ended = all(bot["status"] in FINAL for bot in self.sight.bots)
        return ended and all(slot["status"] == "idle" for slot in self.sight.slots)
