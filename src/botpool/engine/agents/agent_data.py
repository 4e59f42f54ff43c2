"""Data that agents send for their bots: artifacts by reference, and screenshots.

An agent is not trusted: the number and the size of everything are limited, and after the end of its
assignment it records nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from botpool.domain.bot_data import NewArtifact, Screenshot, picture_type
from botpool.domain.errors import NotAPicture
from botpool.domain.ids import AssignmentId, BotId
from botpool.engine.agents.agents import Agents
from botpool.engine.service import Service
from botpool.store.bot_data import add_screenshot, lock_bot_data, record_artifacts

_KEPT_SCREENSHOTS = 3
_MAX_SCREENSHOTS = 100
"""How many screenshots a bot may send in all; only the last ones are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentData(Service):
    """Stores what agents send about their bots."""

    agents: Agents

    async def record_artifacts(
        self, assignment_id: AssignmentId, bot_id: BotId, artifacts: Sequence[NewArtifact]
    ) -> int:
        """List files of the agent's bot; returns how many were recorded."""
        if await self.agents.called(assignment_id, bot_id) is None:
            return 0
        record = record_artifacts.statement(
            assignment_id=assignment_id,
            kinds=[each.kind for each in artifacts],
            locations=[each.location for each in artifacts],
            sizes=[each.size_bytes for each in artifacts],
            content_types=[each.content_type for each in artifacts],
        )
        await self.database.commit([lock_bot_data.statement(bot_id=bot_id), record])
        return len(record.result)

    async def add_screenshot(
        self, assignment_id: AssignmentId, bot_id: BotId, content: bytes, note: str
    ) -> Screenshot | None:
        """Keep a screenshot; None after the assignment, or if the bot has sent too many."""
        if await self.agents.called(assignment_id, bot_id) is None:
            return None
        if (content_type := picture_type(content)) is None:
            raise NotAPicture
        add = add_screenshot.statement(
            assignment_id=assignment_id,
            content=content,
            content_type=content_type,
            note=note,
            kept=_KEPT_SCREENSHOTS,
            max_screenshots=_MAX_SCREENSHOTS,
        )
        await self.database.commit([lock_bot_data.statement(bot_id=bot_id), add])
        return add.result
