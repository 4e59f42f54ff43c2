"""The heartbeat: tells the control plane that the bot lives, and brings its orders back."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from .backoff import spread
from .errors import Refused, Unavailable
from .transport import Transport

log = logging.getLogger(__name__)


async def keep_heartbeat(
    transport: Transport, bot_id: int, interval_s: float, obey: Callable[[Mapping[str, Any]], None]
) -> None:
    """Beat until the control plane says exit.

    No failure ends it: the meeting goes on while the control plane is away, and the next beat
    after an outage is all that it needs to know.
    """
    while True:
        wait_s = spread(interval_s, 0.9, 1.1)
        try:
            answer = await transport.call("POST", f"/v1/agent/bots/{bot_id}/heartbeat")
        except Unavailable as outage:
            wait_s = max(wait_s, outage.retry_after_s)
        except Refused as refusal:
            log.warning("A heartbeat was refused; the bot goes on. %s", refusal)
        else:
            obey(answer)
            if answer.get("shouldExit"):
                return
        await asyncio.sleep(wait_s)
