"""Temporary views that give Meeboter's columns one name each.

Versions of Meeboter name a column `coolify_service_uuid`, `coolifyServiceUuid` or
`application_uuid`. PostgreSQL can write through such a view, so each statement of the import exists
once. Times without a zone are in UTC, as Meeboter writes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import LiteralString

from psycopg import sql

from botpool.domain.errors import ImportRefused

_DETAILS = (
    "user_id",
    "recording_enabled",
    "automatic_leave",
    "callback_url",
    "image_url",
    "start_time",
    "end_time",
)
"""Columns of a bot that only the bot itself reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column as the database describes it."""

    name: str
    data_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    name: str
    table: str
    columns: Mapping[str, Sequence[str]]
    """The names under which a column may stand in the table, by its name in the view."""
    optional: frozenset[str] = frozenset()


VIEWS = (
    View(
        name="meeboter_slots",
        table="bot_pool_slots",
        columns={
            "id": ("id",),
            "container_id": ("coolify_service_uuid", "application_uuid"),
            "slot_name": ("slot_name",),
            "status": ("status",),
            "assigned_bot_id": ("assigned_bot_id",),
        },
    ),
    View(
        name="meeboter_bots",
        table="bots",
        columns={
            "id": ("id",),
            "status": ("status",),
            "display_name": ("display_name", "bot_display_name"),
            "meeting": ("meeting", "meeting_info"),
            **{name: (name,) for name in _DETAILS},
        },
        optional=frozenset(("display_name", *_DETAILS)),
    ),
    View(
        name="meeboter_queue",
        table="bot_pool_queue",
        columns={name: (name,) for name in ("bot_id", "priority", "queued_at", "timeout_at")},
    ),
)


def create_statement(view: View, found: Sequence[Column]) -> sql.Composed:
    """Return the statement that creates the view; `found` are the columns of its table."""
    if not found:
        raise ImportRefused(f"The database has no table {view.table}: is it Meeboter's?")
    by_name = {_normalised(column.name): column for column in found}
    expressions = []
    for name, candidates in view.columns.items():
        known = (by_name.get(_normalised(candidate)) for candidate in candidates)
        column = next((each for each in known if each is not None), None)
        if column is None and name not in view.optional:
            problem = f"Table {view.table} has no column {' or '.join(candidates)}"
            raise ImportRefused(f"{problem}: this version of Meeboter is not supported.")
        expressions.append(sql.SQL("{} AS {}").format(_value(column), sql.Identifier(name)))
    return sql.SQL(_template()).format(
        name=sql.Identifier(view.name),
        columns=sql.SQL(", ").join(expressions),
        table=sql.Identifier(view.table),
    )


@cache
def _template() -> LiteralString:
    """Return the text of a file of this package, which psycopg takes for part of the program."""
    return (files("botpool.store.meeboter") / "create_view.sql").read_text()


def _value(column: Column | None) -> sql.Composable:
    if column is None:
        return sql.SQL("NULL::text")
    if column.data_type == "timestamp without time zone":
        return sql.SQL("{} AT TIME ZONE 'UTC'").format(sql.Identifier(column.name))
    return sql.Identifier(column.name)


def _normalised(name: str) -> str:
    return name.replace("_", "").lower()
