"""The environment and the command of an assignment's container.

Botpool's own variables are the API's address, a token and the bot's data. The pool's settings add
others, and may replace the command of the image.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from typing import Protocol as TypedProtocol

from botpool.domain.agent_views import Handover
from botpool.domain.communication import Protocol
from botpool.domain.container_template import (
    ContainerProgram,
    ContainerTemplate,
    PlaceholderValues,
)
from botpool.domain.fenced_slots import LeasedSlot
from botpool.domain.ids import BotId, ContainerId, PoolName
from botpool.domain.protocol_environment import ProtocolValues, with_protocol
from botpool.domain.tokens import agent_token, standby_token
from botpool.domain.trace_context import container_traceparent, trace_of

_BOT_DATA_LIMIT = 100 * 1024
_PLAIN = ContainerTemplate()


class _BotOfSlot(TypedProtocol):
    """The bot in a slot, as far as its container needs to know it."""

    @property
    def pool_name(self) -> PoolName: ...
    @property
    def bot_id(self) -> BotId | None: ...
    @property
    def correlation_id(self) -> str | None: ...
    @property
    def traceparent(self) -> str | None: ...
    @property
    def meeting_url(self) -> str | None: ...
    @property
    def bot_display_name(self) -> str | None: ...
    @property
    def bot_data(self) -> Mapping[str, Any] | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnvironment:
    """Builds the environment and the command of containers."""

    public_url: str
    agent_key: bytes = field(repr=False)
    standby_key: bytes = field(default=b"", repr=False)
    templates: Mapping[str, ContainerTemplate] = field(default_factory=dict)
    """By pool name, from this replica's settings."""
    self_fence_s: float = 0.0
    traces: bool = False
    """Whether every bot has a trace, also without `traceparent` in its request."""

    def of(self, slot: LeasedSlot, container_id: ContainerId) -> ContainerProgram:
        """Return the program of the slot's run: of its assignment, or of a standby."""
        if slot.standby is not None:
            return self._of_standby(slot, container_id)
        assert slot.assignment_id is not None
        return self._of_bot(slot, container_id, agent_token(slot.assignment_id, self.agent_key))

    def of_handover(self, handover: Handover) -> Mapping[str, str]:
        """Return the environment of a bot that a standby gets."""
        program = self._of_bot(handover, handover.container_id, self.token_of(handover))
        return program.environment

    def token_of(self, handover: Handover) -> str:
        return agent_token(handover.assignment_id, self.agent_key, run_id=handover.run_id)

    def _of_standby(self, slot: LeasedSlot, container_id: ContainerId) -> ContainerProgram:
        """Return the program of a standby, which knows no bot: placeholders of it are empty."""
        assert slot.run_id is not None
        own = {
            **self._of_every_container(container_id),
            "BOTPOOL_STANDBY_TOKEN": standby_token(slot.slot_id, slot.run_id, self.standby_key),
        }
        values = dict.fromkeys(
            ("bot.id", "bot.meetingUrl", "bot.displayName", "bot.joinAt", "token"), ""
        )
        values |= {"url": self.public_url, "containerId": container_id}
        return self._template(slot.pool_name).fill(
            own, PlaceholderValues(values=values, bot_data={})
        )

    def _of_bot(self, slot: _BotOfSlot, container_id: ContainerId, token: str) -> ContainerProgram:
        """Return the program of a bot.

        The agent fetches bot data that is too large for the environment.
        """
        own = {
            **self._of_every_container(container_id),
            "BOTPOOL_TOKEN": token,
        }
        bot_data = json.dumps(
            {
                "id": slot.bot_id,
                "meetingUrl": slot.meeting_url,
                "botDisplayName": slot.bot_display_name,
                "platform": slot.pool_name,
                "correlationId": slot.correlation_id,
                "botData": slot.bot_data,
            }
        )
        if len(bot_data.encode()) <= _BOT_DATA_LIMIT:
            own["BOT_DATA"] = bot_data
        if self.traces or slot.traceparent is not None:
            assert slot.bot_id is not None and slot.correlation_id is not None
            trace = trace_of(slot.bot_id, slot.correlation_id, slot.traceparent)
            own["TRACEPARENT"] = container_traceparent(slot.bot_id, trace)
        values = PlaceholderValues(
            values={
                "bot.id": str(slot.bot_id),
                "bot.meetingUrl": slot.meeting_url or "",
                "bot.displayName": slot.bot_display_name or "",
                "bot.joinAt": "",
                "token": token,
                "url": self.public_url,
                "containerId": container_id,
            },
            bot_data=slot.bot_data or {},
        )
        template = self._template(slot.pool_name)
        program = template.fill(own, values)
        if template.protocol is Protocol.BOTPOOL:
            return program
        assert slot.bot_id is not None
        of_protocol = ProtocolValues(
            url=self.public_url,
            token=token,
            container_id=container_id,
            bot_id=slot.bot_id,
            pool_name=slot.pool_name,
            meeting_url=slot.meeting_url or "",
            display_name=slot.bot_display_name or "",
            bot_data=slot.bot_data or {},
        )
        environment = with_protocol(template.protocol, program.environment, of_protocol)
        return replace(program, environment=environment)

    def _of_every_container(self, container_id: ContainerId) -> Mapping[str, str]:
        own = {"BOTPOOL_URL": self.public_url, "BOTPOOL_CONTAINER_ID": container_id}
        if self.self_fence_s:
            own["BOTPOOL_SELF_FENCE_S"] = str(math.ceil(self.self_fence_s))
        return own

    def mask(self, pool_name: PoolName, text: str) -> str:
        """Replace the secrets of a pool in a text."""
        return self._template(pool_name).mask(text)

    def mask_output(self, pool_name: PoolName, output: bytes) -> bytes:
        """Replace the secrets of a pool in the output of a container."""
        return self._template(pool_name).mask_bytes(output)

    def _template(self, pool_name: PoolName) -> ContainerTemplate:
        return self.templates.get(pool_name, _PLAIN)
