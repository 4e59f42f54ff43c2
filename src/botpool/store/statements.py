"""The SQL files by name. Each file holds one statement; Python holds no SQL."""

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

_QUERIES = files("botpool.store") / "sql" / "queries"
_PARAMETER = re.compile(r"%\((\w+)\)s")


@cache
def statement_text(name: str) -> str:
    """Return the text of `sql/queries/<name>.sql`."""
    return (_QUERIES / f"{name}.sql").read_text()


@cache
def sent_text(name: str) -> str:
    """Return a statement without comments and indentation, as it is sent."""
    lines = (line.strip() for line in statement_text(name).splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("--"))


@cache
def positional(text: str) -> tuple[bytes, Sequence[str]]:
    """Return a statement with `$1`, `$2`, ... for `%(name)s`, and the names in that order."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    text = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    return text.replace("%%", "%").encode(), names
