"""Commands of users to bots, such as chat messages.

The heartbeat's response delivers the commands of a bot in order. A command is delivered again until
the agent acknowledges it: a response that was lost loses no command, and an agent may receive a
command twice. After a crash at any point, the next heartbeat delivers what is not acknowledged.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botpool.domain.bot_data import MAX_COMMANDS, MAX_OPEN_COMMANDS, Command, SentCommand
from botpool.domain.errors import BotHasEnded, NotFound, TooManyCommands
from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.states import FINAL
from botpool.engine.service import Service
from botpool.store.bot_data import (
    acknowledge_commands,
    deliver_commands,
    insert_command,
    lock_bot_data,
    take_command,
)
from botpool.store.bots import get_bot

_PER_HEARTBEAT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BotCommands(Service):
    """Stores commands to bots and hands them to their agents."""

    async def send(self, bot_id: BotId, kind: str, data: Mapping[str, Any]) -> SentCommand:
        """Store a command; the bot's next heartbeat receives it."""
        insert = insert_command.statement(bot_id=bot_id, kind=kind, data=json.dumps(data))
        await self.database.commit([lock_bot_data.statement(bot_id=bot_id), insert])
        if insert.result is not None:
            return insert.result
        found = await get_bot(self.database, bot_id=bot_id)
        if found is None:
            raise NotFound("bot", bot_id)
        if found.bot.status in FINAL:
            raise BotHasEnded(bot_id)
        raise TooManyCommands(bot_id, max_open=MAX_OPEN_COMMANDS, max_commands=MAX_COMMANDS)

    async def deliver(self, assignment_id: AssignmentId) -> Sequence[Command]:
        """Return the first commands that the agent has not acknowledged, in order."""
        return await deliver_commands(
            self.database, assignment_id=assignment_id, limit=_PER_HEARTBEAT
        )

    async def take(self, assignment_id: AssignmentId, kind: str) -> Command | None:
        """Return the next command of a kind, once, for an agent that acknowledges nothing."""
        return await take_command(self.database, assignment_id=assignment_id, kind=kind)

    async def acknowledge(self, assignment_id: AssignmentId, command_ids: Sequence[int]) -> int:
        """Mark commands as received; commands of other bots and unknown ones do not count."""
        acknowledged = await acknowledge_commands(
            self.database, assignment_id=assignment_id, command_ids=list(command_ids)
        )
        return len(acknowledged)
