"""The state machine: every public operation and every fault, in any order.

Before each call the reference predicts its response. At the end all faults stop, and then every
bot must reach a final status.
"""

import sys
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from botpool.domain.bots import IdempotencyKey
from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    IdempotencyConflict,
    NoFreeSlot,
    PoolDrained,
)
from botpool.domain.ids import BotId, ContainerId, TenantId
from botpool.domain.observation import ContainerState
from botpool.domain.states import BotStatus
from tests.model.checked_machine import CRASHED
from tests.model.reference import FINAL, TENANTS, Bot
from tests.model.replica_operations import (
    loop_work,
    result_or_error,
    run_slot_command,
    run_until_held,
    wait_for_all,
)
from tests.model.standby_machine import HandedOver, StandbyMachine
from tests.support.replicas import CALLER, MEET, TEAMS, bot_request, key

POOLS = st.sampled_from([MEET, MEET, MEET, TEAMS])
TENANT_IDS = st.sampled_from([1, 1, 1, 2, 2, 3])
PRIORITIES = st.sampled_from([50, 100, 100, 150])
TIMEOUTS = st.sampled_from([300, 300, 20, 0])
BODIES = st.sampled_from([b"one", b"one", b"other"])
TWICE = st.sampled_from([1, 1, 2])
MOSTLY_TRUE = st.sampled_from([True, True, True, False])
INDEXES = st.integers(0, 5)
"""Positions in a list, counted from its newest element."""
REPORTS = ["JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "CALL_ENDED", "DONE", "DONE", "FAILED"]
SLOT_COMMANDS = ["cordon", "uncordon", "release", "recover", "delete", "delete by force"]
WORK = ["step", "step", "step", "observe", "observe", "poll", "recover", "clean", "describe"]
WORK += ["keep standbys", "keep standbys"]
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
"""The work in which a replica may pause, and the held call. Continuing late must do no harm."""
MEANWHILE = ["nothing", "deploys", "runs", "is released"]
"""What the slot's next bot did before a paused replica continues."""
STATES = [ContainerState.RUNNING] * 3 + [
    ContainerState.STARTING,
    ContainerState.ERROR,
    ContainerState.EXITED,
]
REFUSALS: dict[str, type[Exception]] = {"drained": PoolDrained, "refused": NoFreeSlot}


class Machine(StandbyMachine):
    # Users

    @rule(
        pool_name=POOLS,
        wanted=st.lists(st.tuples(PRIORITIES, TIMEOUTS, TENANT_IDS), min_size=1, max_size=3),
    )
    def admit(self, pool_name: Any, wanted: list[tuple[int, int, int]]) -> None:
        for priority, timeout_s, tenant in wanted:
            self._admit(pool_name, priority, timeout_s, tenant=tenant)

    @rule(pool_name=POOLS, name=st.sampled_from(["k1", "k2"]), body=BODIES)
    def admit_with_idempotency_key(self, pool_name: Any, name: str, body: bytes) -> None:
        """Repeat a request with an idempotency key: all responses name the first bot."""
        known = self.api_keys.get(name)
        if known is None:
            response = self._admit(pool_name, 100, 300, key(name, body))
            if not isinstance(response, Exception):
                self.api_keys[name] = (body, response.bot.id)
            return
        response = self.do(
            lambda r: result_or_error(r.admission.admit(bot_request(pool_name), key(name, body))),
            repeat=True,
        )
        if known[0] == body:
            assert (response.bot.id, response.replayed) == (known[1], True)
        else:
            assert isinstance(response, IdempotencyConflict)

    def _admit(
        self,
        pool_name: Any,
        priority: int,
        timeout_s: int,
        key_: IdempotencyKey | None = None,
        *,
        tenant: int = 1,
    ) -> Any:
        wanted = Bot(pool_name=pool_name, tenant=tenant, priority=priority, timeout_s=timeout_s)
        request = bot_request(
            pool_name,
            priority=priority,
            queue_timeout_ms=1000 * timeout_s,
            caller=replace(CALLER, tenant_id=TenantId(tenant), tenant=TENANTS[tenant].name),
        )
        expected, before = self.reference.admission(wanted), len(self.snapshot.bots)
        self.reference.expected_bot = wanted
        response = self.do(
            lambda r: result_or_error(r.admission.admit(request, key_)), repeat=key_ is not None
        )
        self.reference.expected_bot = None
        if self.crashed or expected == "by turn":
            return response
        if expected in REFUSALS:
            assert isinstance(response, REFUSALS[expected]), response
            assert len(self.snapshot.bots) == before, "a refused request must record nothing"
        else:
            assert response.bot.status == expected, (response, expected)
            waiting = self.reference.queue(pool_name, tenant)
            position = waiting.index(response.bot.id) + 1 if response.bot.id in waiting else None
            assert response.position == position
        return response

    @precondition(lambda self: self.reference.bots)
    @rule(which=INDEXES)
    def stop(self, which: int) -> None:
        numbers = sorted(self.reference.bots)
        number = numbers[-1 - which % len(numbers)]
        bot = self.reference.bots[number]
        before = bot.status
        bot.stop_requested = bot.stop_requested or before not in FINAL
        response = self.do(lambda r: r.bot_stopper.stop(BotId(number)), repeat=True)
        if before in ("QUEUED", "DEPLOYING"):
            assert bot.status == "CANCELLED"
        elif before in FINAL:
            assert (bot.status, response[1]) == (before, False)
        else:
            assert bot.status == ("CALL_ENDED" if before == "CALL_ENDED" else "LEAVING")

    # Agents, also those of ended runs, and repeated calls

    @precondition(lambda self: self.backend.started)
    @rule(which=INDEXES, call=st.sampled_from(["identify", "heartbeat", *REPORTS]), twice=TWICE)
    def agent_calls(self, which: int, call: str, twice: int) -> None:
        run = self.backend.started[-1 - which % len(self.backend.started)]
        for _ in range(twice):
            if call == "identify":
                self._identify(*run)
            elif call == "heartbeat":
                self._heartbeat(*run)
            else:
                self._report(*run, call)

    def _identify(self, assignment: Any, number: Any, container: Any) -> None:
        if assignment in self.accepted:
            run, boot = self.accepted[assignment]
            answer = HandedOver(assignment=assignment, run=run, bot=number, container=container)
            self.call_accept(answer, boot)
            return
        is_live = self.record_agent_call(assignment, number)
        response = self.do(lambda r: r.agents.identify(assignment, container), repeat=True)
        assert (response[0].bot.id, response[1]) == (number, not is_live), (
            "an agent gets its own bot, and learns whether it is released"
        )

    def _heartbeat(self, assignment: Any, number: Any, _: Any) -> None:
        is_live, bot = self.record_agent_call(assignment, number), self.reference.bots[number]
        instructions = self.do(lambda r: r.agents.heartbeat(assignment, number), repeat=True)
        if is_live:
            bot.heartbeat_at = self.reference.now
        assert instructions.should_exit == (not is_live)
        assert instructions.should_leave == (not is_live or bot.stop_requested)

    def _all_report_done(self) -> None:
        for run in self.backend.started:
            if self.reference.is_live(run[1], run[0]):
                self._report(*run, "DONE")

    def _report(self, assignment: Any, number: Any, _: Any, status: str) -> None:
        taken = self.reference.accepts_report(number, assignment, status)
        if self.record_agent_call(assignment, number):
            self.reference.bots[number].reported.add(status)
        reported = BotStatus(status)
        response = self.do(
            lambda r: r.agents.report(assignment, number, reported, None), repeat=True
        )
        assert response == taken or self.crashed

    # Operators

    @precondition(lambda self: self.snapshot.slots)
    @rule(which=INDEXES, command=st.sampled_from(SLOT_COMMANDS))
    def operate(self, which: int, command: str) -> None:
        slot = self.snapshot.slots[which % len(self.snapshot.slots)]
        bot = self.reference.bots.get(slot["assigned_bot_id"])
        if bot is not None:
            bot.operator_intervened = bot.operator_intervened or command in (
                "release",
                "recover",
                "delete by force",
            )
        done = self.do(
            lambda r: result_or_error(run_slot_command(r, command, slot["id"])), repeat=True
        )
        after = self.reference.slots.get(slot["slot_name"])
        if command in ("cordon", "uncordon"):
            assert after is not None
            assert after.cordoned == (command == "cordon")
        elif command == "delete":
            assert self.crashed or done == (slot["status"] in ("idle", "error"))
        elif slot["status"] in ("deploying", "busy"):
            assert after is not None
            assert after.status == "releasing", "the command takes the slot from its bot"
        elif slot["status"] == "idle" and command != "release" and not self.crashed:
            assert after is None or after.status == (
                "error" if command == "recover" else "deleting"
            )

    @rule(pool_name=POOLS, drained=st.booleans(), maximum=st.integers(0, 3))
    def configure_pool(self, pool_name: Any, drained: bool, maximum: int) -> None:
        """Drain or open a pool, then change its maximum.

        Opening may assign bots at once, so the reference opens its pool before the call.
        """
        wanted = self.reference.pools[pool_name]
        wanted.drained = wanted.drained and drained
        self.do(lambda r: r.pools.drain(pool_name, drained=drained, reason="test"), repeat=True)
        wanted.drained, wanted.maximum = drained, maximum
        self.do(self.configure, repeat=True)

    # Background loops

    @rule(which=INDEXES, work=st.sampled_from(WORK))
    def work(self, which: int, work: str) -> None:
        done = self.do(loop_work(work), which=which)
        if work == "poll" and done is not CRASHED:
            assert not self.snapshot.unserved, self.snapshot.unserved

    @rule()
    def settle(self) -> None:
        for _ in range(4):
            self.do(None)
            self.do(loop_work("observe"))

    @rule()
    def outage_of_an_hour(self) -> None:
        """No replica runs for an hour; then the first work is a recovery pass."""
        self.advance_clock(3600, alive=False)
        self.do(loop_work("recover"))

    @rule(seconds=st.sampled_from([1, 21, 61, 280, 310, 930, 7 * 3600]), alive=st.booleans())
    def advance_time(self, seconds: int, alive: bool) -> None:
        self.advance_clock(seconds, alive=alive)

    # Faults

    @precondition(lambda self: self.paused is None)
    @rule(steps=st.integers(1, 6), after=st.booleans())
    def schedule_crash(self, steps: int, after: bool) -> None:
        """Crash a replica at one of its next statements or calls."""
        crash_plan = self.replicas[0].crash_plan
        crash_plan.crashes_in, crash_plan.crashes_after_step = steps, after

    @precondition(lambda self: self.paused is None)
    @rule(
        pause=st.sampled_from(PAUSES),
        before=st.sampled_from(["nothing", "agents report DONE", "containers end"]),
    )
    def pause_replica(self, pause: tuple[str, str], before: str) -> None:
        """Pause a replica in the middle of a call, optionally after its bots ended."""
        if before == "agents report DONE":
            self._all_report_done()
        elif before == "containers end":
            for container in self._running():
                self._end_container(container, vanishes=False)
        work, call = pause
        paused = self.replicas.pop(0)
        paused.crash_plan.crashes_in = None
        self.replicas.append(self.new_replica())
        gate = self.backend.hold(call)
        if tasks := self.model.run(run_until_held(paused, work, gate[0])):
            self.paused = (paused, tasks, gate[1])
        self.backend.release(call)
        self.check()

    @precondition(lambda self: self.paused is not None)
    @rule(meanwhile=st.sampled_from(MEANWHILE))
    def resume_paused_replica(self, meanwhile: str) -> None:
        """Continue at once, or after the lease ended and the slot got its next bot."""
        if meanwhile != "nothing":
            self._assign_next_bot(meanwhile)
        self._resume()

    def _assign_next_bot(self, as_far_as: str) -> None:
        self.advance_clock(61, alive=True)
        self._all_report_done()
        self.settle()
        self._admit(MEET, 100, 300)
        self.do(None)
        if as_far_as != "deploys":
            self.do(loop_work("observe"))
        if as_far_as == "is released":
            self._all_report_done()

    def _resume(self) -> None:
        assert self.paused is not None
        paused, tasks, go_on = self.paused
        self.paused = None
        go_on.set()
        self.model.run(wait_for_all(tasks))
        paused.discard()
        self.check()

    @rule(call=st.sampled_from(CALLS), times=st.integers(1, 3), refused=st.booleans())
    def fail_next_calls(self, call: str, times: int, refused: bool) -> None:
        refuses = refused and call in ("ensure", "start")
        error = BackendRefused("setting", "wrong") if refuses else BackendUnavailable("502")
        self.backend.fail(call, *[error] * times)

    @rule(
        state=st.sampled_from(STATES), stops=MOSTLY_TRUE, deletes=MOSTLY_TRUE, reliable=MOSTLY_TRUE
    )
    def change_backend_behaviour(
        self, state: ContainerState, stops: bool, deletes: bool, reliable: bool
    ) -> None:
        self.backend.state_after_start = state
        self.backend.stops_work, self.backend.deletes_at_once = stops, deletes
        self.backend.status_unreliable = not reliable

    @precondition(lambda self: self.backend.running)
    @rule(which=INDEXES, vanishes=st.booleans())
    def end_container(self, which: int, vanishes: bool) -> None:
        running = self._running()
        self._end_container(running[which % len(running)], vanishes=vanishes)

    def _running(self) -> list[ContainerId]:
        return [each for each, c in self.backend.containers.items() if c.state == "running"]

    def _end_container(self, container: ContainerId, *, vanishes: bool) -> None:
        self.record_container_end(self.backend.containers[container].assignment_id)
        if vanishes:
            self.backend.lose(container)
        else:
            self.backend.show(container, ContainerState.EXITED)

    # The end of a sequence

    def teardown(self) -> None:
        """Stop all faults: every bot must become final, and no container may be left over."""
        if sys.exc_info()[0] is not None:
            return  # The sequence has failed already.
        if self.paused:
            self._resume()
        self.backend.clear_faults()
        for each in self.replicas:
            each.crash_plan.crashes_in = None
        for pool_name in self.reference.pools:
            self.configure_hot_slots(pool_name, 0)
        for _ in range(40):
            self.advance_clock(61, alive=True)
            self._all_report_done()
            self.settle()
            for work in ("poll", "recover", "keep standbys"):
                self.do(loop_work(work))
            if self._is_settled():
                break
        assert self._is_settled(), (self.snapshot.bots, self.snapshot.slots)
        self._check_leftovers()

    def _check_leftovers(self) -> None:
        for _ in range(2):
            self.advance_clock(601, alive=False)
            self.do(loop_work("clean by force"))
        kept = {slot["container_id"] or slot["slot_name"] for slot in self.snapshot.slots}
        for container_id, container in self.backend.containers.items():
            # A slot finds a container whose creation got no response by its name.
            assert kept & {container_id, container.name}, "a container is left over"
        assert not self.backend.running

    def _is_settled(self) -> bool:
        ended = all(bot["status"] in FINAL for bot in self.snapshot.bots)
        return ended and all(
            slot["status"] == "idle" and slot["standby"] is None for slot in self.snapshot.slots
        )
