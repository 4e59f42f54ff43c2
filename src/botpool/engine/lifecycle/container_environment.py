"""The environment of an assignment's container: the API's address, a token and the bot's data."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from botpool.domain.ids import ContainerId
from botpool.domain.records import LeasedSlot
from botpool.domain.tokens import agent_token

_BOT_DATA_LIMIT = 100 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnvironment:
    """Builds the environment of containers."""

    public_url: str
    agent_key: bytes = field(repr=False)

    def of(self, slot: LeasedSlot, container_id: ContainerId) -> Mapping[str, str]:
        """Return the environment of the slot's assignment.

        The agent fetches bot data that is too large for the environment.
        """
        assert slot.assignment_id is not None
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
        environment = {
            "BOTPOOL_URL": self.public_url,
            "BOTPOOL_CONTAINER_ID": container_id,
            "BOTPOOL_TOKEN": agent_token(slot.assignment_id, self.agent_key),
        }
        if len(bot_data.encode()) <= _BOT_DATA_LIMIT:
            environment["BOT_DATA"] = bot_data
        return environment
