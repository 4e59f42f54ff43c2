"""The SQL files, by name. One statement a file; Python holds no SQL."""

from functools import cache
from importlib.resources import files

_QUERIES = files("botpool.store") / "sql" / "queries"


@cache
def statement(name: str) -> str:
    """The text of `sql/queries/<name>.sql`."""
    return (_QUERIES / f"{name}.sql").read_text()
