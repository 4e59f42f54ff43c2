"""A record of the statements that a test sends to the database."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from botpool.store.database import Database
from botpool.store.query import Statement


@dataclass
class StatementLog:
    """The committed pipelines, in order, by their statements."""

    pipelines: list[Sequence[Statement[Any]]] = field(default_factory=list)

    @property
    def single(self) -> list[str]:
        """The names of the statements that were committed on their own."""
        return [pipeline[0].name for pipeline in self.pipelines if len(pipeline) == 1]

    @property
    def transactions(self) -> list[list[str]]:
        """The names of the statements of each longer pipeline."""
        return [[each.name for each in pipe] for pipe in self.pipelines if len(pipe) > 1]

    def batch_sizes(self, name: str) -> list[int]:
        """Return the number of items that each single statement of this name carried."""
        return [
            max(len(value) for value in pipeline[0].parameters.values() if isinstance(value, list))
            for pipeline in self.pipelines
            if len(pipeline) == 1 and pipeline[0].name == name
        ]

    def clear(self) -> None:
        self.pipelines.clear()


def record_statements(monkeypatch: pytest.MonkeyPatch) -> StatementLog:
    """Record all pipelines that are committed from now on."""
    log = StatementLog()
    commit = Database.commit

    async def recorded(database: Database, statements: Sequence[Statement[Any]]) -> None:
        log.pipelines.append(statements)
        await commit(database, statements)

    monkeypatch.setattr(Database, "commit", recorded)
    return log
