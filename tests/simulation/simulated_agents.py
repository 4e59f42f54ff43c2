"""Simulated agents in emulated containers; they record which runs joined a call.

Each agent identifies itself before it joins, sends heartbeats, follows its instructions and reports
DONE. The real engine responds to its calls.
"""

import itertools
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from botpool.domain.ids import AssignmentId, BotId, ContainerId
from botpool.domain.states import BotStatus
from botpool.domain.tokens import assignment_of
from botpool.engine.agents.agents import Agents

HEARTBEAT_S = 10.0


@dataclass(eq=False)
class Agent:
    control_plane_url: str
    """The address of the installation that the agent calls."""
    container_id: ContainerId
    assignment_id: AssignmentId | None
    acts_at: float
    boot_id: str
    waits_for_stop: bool
    """After its last report the agent waits for its stop, as Botpool asks on Coolify."""
    running: bool = True
    ended: bool = False
    crashes: bool = False
    """Exits instead of its next heartbeat, without a report."""
    bot_id: BotId | None = None
    leaves_at: float = 0.0


class SimulatedAgents:
    """A `ContainerRuntime` whose containers are agents."""

    def __init__(self, agent_key: bytes, *, call_s: float, boot_s: float = 0.0) -> None:
        self._agent_key = agent_key
        self.call_s = call_s
        self._boot_s = boot_s
        self.now = 0.0
        self._boots = itertools.count(1)
        self.agents: list[Agent] = []
        self.started: dict[AssignmentId, int] = defaultdict(int)
        """The number of container starts for each assignment."""
        self.joined: dict[BotId, list[AssignmentId]] = defaultdict(list)
        """The assignments with which each bot joined its call."""

    @property
    def running(self) -> list[Agent]:
        return [agent for agent in self.agents if agent.running and agent.assignment_id]

    def start(self, application_uuid: str, environment: Mapping[str, str]) -> Hashable:
        token = environment.get("BOTPOOL_TOKEN", "")
        assignment_id = assignment_of(token, (self._agent_key,))
        if assignment_id is not None:
            self.started[assignment_id] += 1
        agent = Agent(
            control_plane_url=environment.get("BOTPOOL_URL", ""),
            container_id=ContainerId(environment.get("BOTPOOL_CONTAINER_ID", "")),
            assignment_id=assignment_id,
            acts_at=self.now + self._boot_s,
            boot_id=f"boot-{next(self._boots)}",
            waits_for_stop="BOTPOOL_WAIT_FOR_STOP_S" in environment,
        )
        self.agents.append(agent)
        return agent

    def request_stop(self, handle: Hashable) -> None:
        self.stop(handle)

    def stop(self, handle: Hashable) -> None:
        assert isinstance(handle, Agent)
        handle.running = False

    def is_running(self, handle: Hashable) -> bool:
        return isinstance(handle, Agent) and handle.running

    def output(self, handle: Hashable, lines: int) -> str:
        return ""

    async def act(self, control_plane_url: str, control_plane: Agents) -> None:
        """Run the due work of every agent of that control plane."""
        for agent in self.running:
            is_due = agent.acts_at <= self.now and not agent.ended
            if agent.control_plane_url == control_plane_url and is_due:
                await self._act(agent, control_plane)

    async def _act(self, agent: Agent, control_plane: Agents) -> None:
        assert agent.assignment_id is not None
        if agent.bot_id is None:
            view, released = await control_plane.identify(
                agent.assignment_id, agent.container_id, agent.boot_id
            )
            if released:
                self._end(agent)
                return
            agent.bot_id, agent.leaves_at = view.bot.id, self.now + self.call_s
            self.joined[view.bot.id].append(agent.assignment_id)
            await control_plane.report(agent.assignment_id, view.bot.id, BotStatus.IN_CALL, None)
        if agent.crashes:
            agent.running = False
            return
        instructions = await control_plane.heartbeat(agent.assignment_id, agent.bot_id)
        if instructions.should_leave or instructions.should_exit or self.now >= agent.leaves_at:
            await control_plane.report(agent.assignment_id, agent.bot_id, BotStatus.DONE, None)
            self._end(agent)
        agent.acts_at = min(self.now + HEARTBEAT_S, max(agent.leaves_at, self.now + 1))

    def _end(self, agent: Agent) -> None:
        agent.ended = True
        agent.running = agent.waits_for_stop
