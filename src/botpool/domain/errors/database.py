"""Errors of the database and its schema."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from botpool.domain.errors.base import BotpoolError


class DatabaseProblem(StrEnum):
    """Why the database does not do its work; the value is part of the problem's type in HTTP."""

    NO_ANSWER = "database-unavailable"
    READ_ONLY = "database-read-only"
    DISK_FULL = "database-disk-full"
    TOO_MANY_CONNECTIONS = "database-too-many-connections"
    SHUTTING_DOWN = "database-shutting-down"
    LOCK_TIMEOUT = "database-lock-timeout"
    STATEMENT_TIMEOUT = "database-statement-timeout"
    CONFLICT = "database-conflict"
    NOT_PERMITTED = "database-not-permitted"
    OUT_OF_RESOURCES = "database-out-of-resources"
    SYSTEM_ERROR = "database-system-error"


_DATABASE_SENTENCES: Mapping[DatabaseProblem, str] = {
    DatabaseProblem.NO_ANSWER: "The database does not answer",
    DatabaseProblem.READ_ONLY: "The database accepts no writes: it is read-only or a standby. "
    "An operator must make it writable or point database.url to the primary",
    DatabaseProblem.DISK_FULL: "The database's disk is full. An operator must free space on it",
    DatabaseProblem.TOO_MANY_CONNECTIONS: "The database has no free connection. "
    "An operator must raise max_connections or close connections of other programs",
    DatabaseProblem.SHUTTING_DOWN: "The database server ended the session",
    DatabaseProblem.LOCK_TIMEOUT: "Another transaction holds a lock for too long",
    DatabaseProblem.STATEMENT_TIMEOUT: "The database took too long",
    DatabaseProblem.CONFLICT: "Concurrent transactions collided too often",
    DatabaseProblem.NOT_PERMITTED: "The database user lacks a permission. "
    "An operator must grant it",
    DatabaseProblem.OUT_OF_RESOURCES: "The database server has no resources left",
    DatabaseProblem.SYSTEM_ERROR: "The database server reports a failure of its own",
}
_RETRY_AFTER_S: Mapping[DatabaseProblem, int] = {
    DatabaseProblem.READ_ONLY: 10,
    DatabaseProblem.DISK_FULL: 30,
    DatabaseProblem.TOO_MANY_CONNECTIONS: 5,
    DatabaseProblem.NOT_PERMITTED: 30,
    DatabaseProblem.OUT_OF_RESOURCES: 10,
    DatabaseProblem.SYSTEM_ERROR: 10,
}
"""When a retry makes sense; after two seconds for the other problems."""


@dataclass(eq=False)
class DatabaseUnavailable(BotpoolError):
    """PostgreSQL does not do its work. The outcome of the last write may be unknown."""

    detail: str
    problem: DatabaseProblem = DatabaseProblem.NO_ANSWER

    @property
    def retry_after_s(self) -> int:
        return _RETRY_AFTER_S.get(self.problem, 2)

    def __str__(self) -> str:
        return f"{_DATABASE_SENTENCES[self.problem]}: {self.detail}"

    @classmethod
    def after(cls, error: Exception) -> Self:
        """Return this error with the first line of the driver's message."""
        lines = str(error).strip().splitlines()
        return cls(lines[0] if lines else type(error).__name__)


@dataclass(eq=False)
class SchemaMismatch(BotpoolError):
    template = "{detail}"
    detail: str


@dataclass(eq=False)
class MigrationFailed(BotpoolError):
    """A migration changed nothing; those before it are applied."""

    template = "The migration {name} failed and changed nothing: {problem}."
    name: str
    problem: str


@dataclass(eq=False)
class ForeignTables(BotpoolError):
    database: str
    tables: Sequence[str]

    def __str__(self) -> str:
        plural = "s" if len(self.tables) > 1 else ""
        return (
            f"The database {self.database} belongs to another system: it has the "
            f"table{plural} {', '.join(self.tables)}. Botpool changed nothing. Create a database "
            "for Botpool alone and name it in database.url."
        )
