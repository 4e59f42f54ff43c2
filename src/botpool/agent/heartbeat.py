"""The heartbeat: reports that the bot is alive and receives its instructions."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from .backoff import spread
from .errors import Refused, Unavailable
from .transport import Transport

log = logging.getLogger(__name__)


async def keep_heartbeat(
    transport: Transport, bot_id: int, interval_s: float, apply: Callable[[Mapping[str, Any]], None]
) -> None:
    """Send heartbeats until the control plane instructs the bot to exit.

    A failure never ends the heartbeat: the meeting continues while the control plane is
    unreachable, and the next heartbeat after an outage suffices.
    """
    while True:
        wait_s = spread(interval_s, 0.9, 1.1)
        try:
            answer = await transport.call("POST", f"/v1/agent/bots/{bot_id}/heartbeat")
        except Unavailable as outage:
            wait_s = max(wait_s, outage.retry_after_s)
        except Refused as refusal:
            log.warning("A heartbeat was refused; the bot continues. %s", refusal)
        else:
            apply(answer)
            if answer.get("shouldExit"):
                return
        await asyncio.sleep(wait_s)
