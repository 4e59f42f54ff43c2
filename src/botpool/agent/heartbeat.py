"""The heartbeat: reports that the bot is alive and receives its instructions."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from .backoff import spread
from .errors import Refused, Unavailable
from .transport import Transport

log = logging.getLogger(__name__)


class HeartbeatBody:
    """What the next heartbeats tell: that the bot is finishing, and its progress."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._urgent = asyncio.Event()

    def finishing(self) -> None:
        """Tell that the bot is finishing, in a heartbeat that is sent at once."""
        if "phase" not in self._fields:
            self._fields["phase"] = "finishing"
            self._urgent.set()

    def progress(self, figures: Mapping[str, Any]) -> None:
        json.dumps(figures, allow_nan=False)  # a bad value fails here, not in the heartbeat's task
        self._fields["progress"] = dict(figures)

    def text(self) -> str | None:
        """Return the body as JSON; None if there is nothing to tell."""
        return json.dumps(self._fields, allow_nan=False) if self._fields else None

    async def wait(self, seconds: float) -> None:
        """Wait for the time of the next heartbeat, or until one is urgent."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._urgent.wait(), seconds)
        self._urgent.clear()


async def keep_heartbeat(
    transport: Transport,
    bot_id: int,
    interval_s: float,
    body: HeartbeatBody,
    apply: Callable[[Mapping[str, Any]], None],
) -> None:
    """Send heartbeats until the control plane instructs the bot to exit.

    A failure never ends the heartbeat: the meeting continues while the control plane is
    unreachable, and the next heartbeat after an outage suffices.
    """
    while True:
        wait_s = spread(interval_s, 0.9, 1.1)
        try:
            answer = await transport.call("POST", f"/v1/agent/bots/{bot_id}/heartbeat", body.text())
        except Unavailable as outage:
            wait_s = max(wait_s, outage.retry_after_s)
        except Refused as refusal:
            log.warning("A heartbeat was refused; the bot continues. %s", refusal)
        else:
            apply(answer)
            if answer.get("shouldExit"):
                return
        await body.wait(wait_s)
