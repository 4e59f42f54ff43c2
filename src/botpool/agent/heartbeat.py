"""The heartbeat: reports that the bot is alive and receives its instructions."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from .backoff import spread
from .commands import Commands
from .errors import Refused, Unavailable
from .transport import Transport

log = logging.getLogger(__name__)


class HeartbeatBody:
    """What the next heartbeats tell: phase, progress, media and acknowledged commands."""

    def __init__(self, commands: Commands | None = None) -> None:
        self._fields: dict[str, Any] = {}
        self._commands = commands or Commands()
        self._urgent = asyncio.Event()

    def finishing(self) -> None:
        """Tell that the bot is finishing, in a heartbeat that is sent at once."""
        if "phase" not in self._fields:
            self._fields["phase"] = "finishing"
            self._urgent.set()

    def progress(self, figures: Mapping[str, Any]) -> None:
        json.dumps(figures, allow_nan=False)  # a bad value fails here, not in the heartbeat's task
        self._fields["progress"] = dict(figures)

    def media(self) -> None:
        self._fields["lastMediaAt"] = datetime.now(UTC).isoformat()

    def take(self) -> dict[str, Any]:
        """Return the fields of the next heartbeat."""
        ids = self._commands.to_acknowledge
        return {**self._fields, **({"acknowledged": ids} if ids else {})}

    def delivered(self, fields: Mapping[str, Any]) -> None:
        """Forget what the control plane knows now."""
        self._commands.acknowledged(fields.get("acknowledged", ()))

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
        fields = body.take()
        text = json.dumps(fields, allow_nan=False) if fields else None
        try:
            answer = await transport.call("POST", f"/v1/agent/bots/{bot_id}/heartbeat", text)
        except Unavailable as outage:
            wait_s = max(wait_s, outage.retry_after_s)
        except Refused as refusal:
            log.warning("A heartbeat was refused; the bot continues. %s", refusal)
        else:
            body.delivered(fields)
            apply(answer)
            if answer.get("shouldExit"):
                return
        await body.wait(wait_s)
