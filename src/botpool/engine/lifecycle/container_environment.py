"""What a container finds in its environment: whom to call, as whom, and for which bot."""

import json
from collections.abc import Mapping

from botpool.domain.ids import ContainerId
from botpool.domain.records import LeasedSlot
from botpool.domain.tokens import agent_token

_BOT_DATA_LIMIT = 100 * 1024


def container_environment(
    slot: LeasedSlot, container_id: ContainerId, *, public_url: str, secret: bytes
) -> Mapping[str, str]:
    """The environment of one assignment. Bot data too large for it is left for the agent to ask."""
    assert slot.assignment_id is not None
    bot_data = json.dumps(
        {
            "id": slot.bot_id,
            "meetingUrl": slot.meeting_url,
            "botDisplayName": slot.bot_display_name,
            "pool_name": slot.pool_name,
            "correlationId": slot.correlation_id,
            "botData": slot.bot_data,
        }
    )
    environment = {
        "BOTPOOL_URL": public_url,
        "BOTPOOL_CONTAINER_ID": container_id,
        "BOTPOOL_TOKEN": agent_token(slot.assignment_id, secret),
    }
    if len(bot_data.encode()) <= _BOT_DATA_LIMIT:
        environment["BOT_DATA"] = bot_data
    return environment
