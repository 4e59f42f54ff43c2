"""Queries: each SQL file is declared once, as a function of its name.

    @query
    def find_slot(*, slot_id: SlotId) -> FencedSlot | None: ...

The keyword parameters are those of `sql/queries/find_slot.sql`. The return type says what the rows
become: `list[Record]`, `Record | None` (the first row), `Record` (the only row) or `None`. A record
is a dataclass whose fields are named as the columns, or the value of the only column.

`await find_slot(database, slot_id=1)` runs and commits the query. `find_slot.statement(slot_id=1)`
prepares it for `Database.commit`, which runs several in one transaction and one round trip.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cache, cached_property
from types import NoneType
from typing import (
    Any,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

P = ParamSpec("P")
R = TypeVar("R")

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = list[dict[str, Any]]


class Query(Generic[P, R]):
    """An SQL file, its parameters and what its rows become, as a function declares them."""

    def __init__(self, declaration: Any) -> None:
        self.declaration = declaration
        self.name: str = declaration.__name__
        self._defaults: dict[str, Any] = declaration.__kwdefaults__ or {}
        self.__doc__ = declaration.__doc__

    def __call__(
        self, database: "Runner", *args: P.args, **parameters: P.kwargs
    ) -> Coroutine[Any, Any, R]:
        """Run and commit the query."""
        return database.query(self.statement(*args, **parameters))

    def statement(self, *_: P.args, **parameters: P.kwargs) -> "Statement[R]":
        """Prepare the query for a transaction of several statements."""
        return Statement(self.name, self._defaults | parameters, self._result_of)

    @cached_property
    def _result_of(self) -> Callable[[Rows], R]:
        """Return a converter of the rows to the declared result."""
        return _result_reader(self.declaration.__annotations__["return"])


def query(declaration: Callable[P, R]) -> Query[P, R]:
    """Declare the query of the SQL file with the function's name."""
    return Query(declaration)


@dataclass(slots=True)
class Statement(Generic[R]):
    """A query with its parameters and, once it has run, its result."""

    name: str
    parameters: Mapping[str, Any]
    result_of: Callable[[Rows], R]
    result: R = field(init=False)

    def read(self, rows: Rows) -> None:
        """Convert the rows that the database returned to the result."""
        self.result = self.result_of(rows)


class Runner(Protocol):
    """Runs single statements: the `Database`, or the doctor's `ReadonlyConnection`."""

    async def query(self, statement: Statement[R]) -> R: ...


def _result_reader(declared: Any) -> Callable[[Rows], Any]:
    """Return a converter of rows to the result that a query declares."""
    if declared is None:
        return lambda _: None
    record = record_of(_kind_in(declared))
    if get_origin(declared) is list:
        return lambda rows: [record(row) for row in rows]
    if NoneType in get_args(declared):
        return lambda rows: record(rows[0]) if rows else None
    return lambda rows: record(rows[0])


@cache
def record_of(kind: Any) -> Callable[[Row], Any]:
    """Return a converter of rows to a dataclass, or to the value of the only column.

    Text becomes the `StrEnum` that the field declares; null stays None. A field with a default may
    lack a column. A field that is itself a record takes its columns from the same row; an optional
    one is None if its first column is null, as after a left join.
    """
    if is_dataclass(kind):
        return _record_reader(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return lambda row: kind(next(iter(row.values())))
    return lambda row: next(iter(row.values()))


def _record_reader(record: Any) -> Callable[[Row], Any]:
    """Return a converter that sets the slots of the dataclass directly.

    The generated `__init__` of a frozen dataclass takes several times as long, on every row of the
    hot path.
    """
    assert not hasattr(record, "__post_init__"), "the converter does not call __init__"
    hints = get_type_hints(record)
    required: list[tuple[str, Callable[[Any, Any], None]]] = []
    optional: list[tuple[str, Callable[[Any, Any], None], Any]] = []
    enums: list[tuple[str, Callable[[Any, Any], None], Mapping[Any, Any]]] = []
    nested: list[tuple[Callable[[Any, Any], None], Callable[[Row], Any]]] = []
    for each in fields(record):
        set_field = getattr(record, each.name).__set__
        kind = _kind_in(hints[each.name])
        if is_dataclass(kind):
            nested.append((set_field, _nested_reader(hints[each.name])))
        elif isinstance(kind, type) and issubclass(kind, StrEnum):
            members: dict[Any, Any] = {None: None}
            members |= {member.value: member for member in kind}
            enums.append((each.name, set_field, members))
        elif each.default is MISSING:
            required.append((each.name, set_field))
        else:
            optional.append((each.name, set_field, each.default))

    def convert(row: Row) -> Any:
        created = object.__new__(record)
        for name, set_field in required:
            set_field(created, row[name])
        for name, set_field, default in optional:
            set_field(created, row.get(name, default))
        for name, set_field, members in enums:
            set_field(created, members[row[name]])
        for set_field, read in nested:
            set_field(created, read(row))
        return created

    return convert


def _nested_reader(hint: Any) -> Callable[[Row], Any]:
    record = _kind_in(hint)
    read = record_of(record)
    if NoneType not in get_args(hint):
        return read
    first = fields(record)[0].name
    return lambda row: None if row[first] is None else read(row)


def _kind_in(hint: Any) -> Any:
    """Return `T` of `T`, `T | None` or `list[T]`."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 else hint
