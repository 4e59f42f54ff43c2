"""Commands of users to the bot, as the heartbeat's answers deliver them.

An answer repeats every command that is not acknowledged. Each command is handed to the callback
once, in order, and acknowledged after the callback has ended.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, such as `chat` with the data `{"text": "Hello"}`."""

    id: int
    kind: str
    data: Mapping[str, Any]


CommandCallback = Callable[[Command], Awaitable[object] | object]


class Commands:
    """Hands each command to the callback and remembers what to acknowledge."""

    def __init__(self) -> None:
        self._callback: CommandCallback | None = None
        self._waiting: deque[Command] = deque()
        self._received: set[int] = set()
        self._unacknowledged: list[int] = []
        self._worker: asyncio.Task[None] | None = None

    def on_command(self, callback: CommandCallback) -> None:
        self._callback = callback
        self._work()

    @property
    def to_acknowledge(self) -> list[int]:
        """The ids that the next heartbeat acknowledges."""
        return self._unacknowledged[:100]

    def acknowledged(self, ids: Iterable[int]) -> None:
        """Forget ids that a heartbeat has acknowledged."""
        done = set(ids)
        self._unacknowledged = [each for each in self._unacknowledged if each not in done]

    def receive(self, answer: Mapping[str, Any]) -> None:
        """Take the new commands of a heartbeat's answer."""
        for raw in answer.get("commands") or ():
            if raw["id"] not in self._received:
                self._received.add(raw["id"])
                self._waiting.append(
                    Command(id=raw["id"], kind=str(raw["kind"]), data=raw.get("data") or {})
                )
        self._work()

    async def close(self) -> None:
        """Cancel the callback that still runs."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    def _work(self) -> None:
        is_working = self._worker is not None and not self._worker.done()
        if self._callback is not None and self._waiting and not is_working:
            self._worker = asyncio.ensure_future(self._run(self._callback))

    async def _run(self, callback: CommandCallback) -> None:
        while self._waiting:
            command = self._waiting.popleft()
            try:
                result = callback(command)
                if inspect.isawaitable(result):
                    await result
            except Exception:
                log.exception("The callback for command %d (%s) failed.", command.id, command.kind)
            self._unacknowledged.append(command.id)
