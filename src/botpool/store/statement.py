"""Typed statements: an SQL file, its parameters and the record that each of its rows becomes.

The modules by subject (`bots.py`, `slots.py`, `queue.py`, ...) hold one function per SQL file. Each
returns a `Statement`; `Database.query` runs one, and `Database.commit` runs a `Pipeline` of them in
one transaction and one round trip.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, Generic, TypeVar, get_args, get_type_hints

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """`sql/queries/<name>.sql` with its parameters; `record` converts a row."""

    name: str
    parameters: Mapping[str, Any]
    record: Callable[[Mapping[str, Any]], T]


class Result(Generic[T]):
    """The rows of one statement of a pipeline; available once the pipeline is committed."""

    def __init__(self, statement: Statement[T]) -> None:
        self._statement = statement
        self._rows: list[T] | None = None

    def fill(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store the rows that the database returned."""
        self._rows = [self._statement.record(row) for row in rows]

    @property
    def rows(self) -> list[T]:
        assert self._rows is not None, "the pipeline has not been committed"
        return self._rows

    @property
    def first(self) -> T | None:
        return self.rows[0] if self.rows else None


class Pipeline:
    """Statements that run in order, in one transaction and one round trip."""

    def __init__(self) -> None:
        self._entries: list[tuple[Statement[Any], Result[Any]]] = []

    def add(self, statement: Statement[T]) -> Result[T]:
        """Append a statement; its result is filled when the pipeline is committed."""
        result = Result(statement)
        self._entries.append((statement, result))
        return result

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        return [statement for statement, _ in self._entries]

    @property
    def results(self) -> Sequence[Result[Any]]:
        return [result for _, result in self._entries]

    def fill(self, results: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        """Store the rows of all statements, in their order."""
        for (_, result), rows in zip(self._entries, results, strict=True):
            result.fill(rows)


def no_rows(_: Mapping[str, Any]) -> None:
    """The record of a statement whose rows carry nothing; the number of rows may matter."""


def column(name: str, kind: Callable[[Any], T]) -> Callable[[Mapping[str, Any]], T]:
    """Return a converter of rows to the value of one column."""
    return lambda row: kind(row[name])


@cache
def record_of(record: type[T]) -> Callable[[Mapping[str, Any]], T]:
    """Return a converter of rows to a dataclass whose fields are named as the columns.

    Text becomes the `StrEnum` that the field declares; null stays None. A field with a default may
    lack a column. The converter sets the slots of the dataclass directly: the generated `__init__`
    of a frozen dataclass takes several times as long, on every row of the hot path.
    """
    assert is_dataclass(record)
    assert not hasattr(record, "__post_init__"), "the converter does not call __init__"
    hints = get_type_hints(record)
    required: list[tuple[str, Callable[[T, Any], None]]] = []
    optional: list[tuple[str, Callable[[T, Any], None], Any]] = []
    enums: list[tuple[str, Callable[[T, Any], None], Mapping[Any, Any]]] = []
    for field in fields(record):
        set_field = getattr(record, field.name).__set__
        if (kind := _enum_in(hints[field.name])) is not None:
            enums.append(
                (field.name, set_field, {None: None, **{each.value: each for each in kind}})
            )
        elif field.default is MISSING:
            required.append((field.name, set_field))
        else:
            optional.append((field.name, set_field, field.default))

    def convert(row: Mapping[str, Any]) -> T:
        created = object.__new__(record)
        for name, set_field in required:
            set_field(created, row[name])
        for name, set_field, default in optional:
            set_field(created, row.get(name, default))
        for name, set_field, members in enums:
            set_field(created, members[row[name]])
        return created

    return convert


def _enum_in(hint: Any) -> type[StrEnum] | None:
    """Return the `StrEnum` of a field's type, also of an optional one."""
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    if len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], StrEnum):
        return kinds[0]
    return None
