"""The environment and the command of an assignment's container.

Botpool's own variables are the API's address, a token and the bot's data. The pool's settings add
others, and may replace the command of the image.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from botpool.domain.communication import Protocol
from botpool.domain.container_template import (
    ContainerProgram,
    ContainerTemplate,
    PlaceholderValues,
)
from botpool.domain.ids import ContainerId, PoolName
from botpool.domain.protocol_environment import ProtocolValues, with_protocol
from botpool.domain.records import LeasedSlot
from botpool.domain.tokens import agent_token

_BOT_DATA_LIMIT = 100 * 1024
_PLAIN = ContainerTemplate()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnvironment:
    """Builds the environment and the command of containers."""

    public_url: str
    agent_key: bytes = field(repr=False)
    templates: Mapping[str, ContainerTemplate] = field(default_factory=dict)
    """By pool name, from this replica's settings."""

    def of(self, slot: LeasedSlot, container_id: ContainerId) -> ContainerProgram:
        """Return the program of the slot's assignment.

        The agent fetches bot data that is too large for the environment.
        """
        assert slot.assignment_id is not None
        token = agent_token(slot.assignment_id, self.agent_key)
        own = {
            "BOTPOOL_URL": self.public_url,
            "BOTPOOL_CONTAINER_ID": container_id,
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

    def mask(self, pool_name: PoolName, text: str) -> str:
        """Replace the secrets of a pool in a text."""
        return self._template(pool_name).mask(text)

    def mask_output(self, pool_name: PoolName, output: bytes) -> bytes:
        """Replace the secrets of a pool in the output of a container."""
        return self._template(pool_name).mask_bytes(output)

    def _template(self, pool_name: PoolName) -> ContainerTemplate:
        return self.templates.get(pool_name, _PLAIN)
