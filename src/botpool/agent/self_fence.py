"""The self-fence: a bot whose heartbeats Botpool does not answer leaves its meeting and exits.

A bot that Botpool cannot reach may be in a meeting beside the bot that replaces it. With a limit,
the agent asks the bot to leave after this time without an answer. A bot that does not leave then is
ended with its process. A bot that has left may finish, for example to save its recording.
"""

import asyncio
import logging
import os
from collections.abc import Callable

log = logging.getLogger(__name__)

LEAVE_LIMIT_S = 30.0
"""How long the bot may take to leave; at most as long as the fence itself."""
EXIT_CODE = 75


class SelfFence:
    """Measures the time since the last answer of Botpool."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._answered = asyncio.Event()
        self._left = asyncio.Event()

    def answered(self) -> None:
        self._answered.set()

    def left(self) -> None:
        """Note that the bot has left its call."""
        self._left.set()

    async def keep(self, leave: Callable[[], None]) -> None:
        """Wait for the end of the limit, then let the bot leave, or end this process."""
        while await self._is_answered():
            self._answered.clear()
        log.error("Botpool has not answered for %g s: the bot leaves.", self._limit_s)
        leave()
        limit_s = min(LEAVE_LIMIT_S, self._limit_s)
        try:
            await asyncio.wait_for(self._left.wait(), limit_s)
        except TimeoutError:
            log.error("The bot did not leave within %g s: its process ends.", limit_s)
            os._exit(EXIT_CODE)

    async def _is_answered(self) -> bool:
        """Wait for the next answer; False if there is none within the limit."""
        try:
            await asyncio.wait_for(self._answered.wait(), self._limit_s)
        except TimeoutError:
            return False
        return True
