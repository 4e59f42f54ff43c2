"""The SQL files, by name. One statement a file; Python holds no SQL."""

from functools import cache
from importlib.resources import files

_QUERIES = files("botpool.store") / "sql" / "queries"


@cache
def statement(name: str) -> str:
    """The text of `sql/queries/<name>.sql`."""
    return (_QUERIES / f"{name}.sql").read_text()


@cache
def sent_text(name: str) -> str:
    """A statement as it is sent: without comments and indentation."""
    lines = (line.strip() for line in statement(name).splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("--"))
