"""The SQL files by name. Each file holds one statement; Python holds no SQL.

A line `-- include <name>.sql` stands for a file of `sql/parts`, which several statements share.
"""

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

_QUERIES = files("botpool.store") / "sql" / "queries"
_PARTS = files("botpool.store") / "sql" / "parts"
_INCLUDE = re.compile(r"^-- include (\w+\.sql)\n", re.MULTILINE)
_PARAMETER = re.compile(r"%\((\w+)\)s")


@cache
def statement_text(name: str) -> str:
    """Return the text of `sql/queries/<name>.sql` with the parts that it includes."""
    text = (_QUERIES / f"{name}.sql").read_text()
    return _INCLUDE.sub(lambda found: (_PARTS / found[1]).read_text(), text)


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
