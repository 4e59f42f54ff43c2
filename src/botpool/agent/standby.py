"""Waiting for a bot in a container that Botpool started before it had one.

The agent keeps one long poll open, which tells Botpool that the container is ready. A poll without
a bot is followed by the next one at once. After an outage the agent polls again, with a short
backoff: a container without a poll gets no bot. The next poll repeats a lost answer.
"""

from functools import partial
from typing import Any

from .backoff import Backoff, until_answered
from .transport import Transport

POLL_S = 30.0
POLL_RETRY_S = 0.2
POLL_RETRY_CAP_S = 2.0


async def wait_for_assignment(
    transport: Transport, boot_id: str, poll_s: float, backoff: Backoff
) -> dict[str, Any] | None:
    """Return the assignment of this container; None if it gets none and must end."""
    path = f"/v1/agent/assignment?wait={poll_s:g}&bootId={boot_id}"
    while True:
        answer = await until_answered(partial(transport.call, "GET", path), backoff)
        if answer.get("shouldExit"):
            return None
        assignment = answer.get("assignment")
        if isinstance(assignment, dict):
            return assignment
