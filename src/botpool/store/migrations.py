"""The migrations of this version, and whether it can serve the schema of a database.

A migration expands the schema first and a later release contracts it, so that replicas of versions
N and N+1 run side by side during an upgrade. A migration says so in a line of its own:

    -- compatible with: 0001_initial

Versions that know this migration serve on the new schema too. Without the line, only versions that
know the new migration serve. `migrator.py` applies the files.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from botpool.domain.errors import SchemaMismatch
from botpool.store.maintenance import AppliedMigration

MIGRATIONS: Traversable = files("botpool.store") / "sql" / "migrations"

_COMPATIBLE = re.compile(r"^-- compatible with: (\w+)$", re.MULTILINE)
_NO_TRANSACTION = re.compile(r"^-- no transaction$", re.MULTILINE)
_NEXT_STATEMENT = "\n-- next statement\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A file with one change of the schema."""

    name: str
    text: str

    @property
    def compatible_with(self) -> str | None:
        """The oldest migration whose versions can serve the new schema; None for no old version."""
        found = _COMPATIBLE.search(self.text)
        return found[1] if found else None

    @property
    def in_transaction(self) -> bool:
        """False for changes such as CREATE INDEX CONCURRENTLY, whose statements may repeat."""
        return _NO_TRANSACTION.search(self.text) is None

    @property
    def statements(self) -> Sequence[str]:
        """The statements of a migration that runs outside a transaction."""
        return self.text.split(_NEXT_STATEMENT)


def known_migrations(folder: Traversable | None = None) -> list[Migration]:
    """Return the migrations in the folder, in the order in which they apply."""
    found = [entry for entry in (folder or MIGRATIONS).iterdir() if entry.name.endswith(".sql")]
    return [
        Migration(name=entry.name.removesuffix(".sql"), text=entry.read_text())
        for entry in sorted(found, key=lambda entry: entry.name)
    ]


def known_names(folder: Traversable | None = None) -> list[str]:
    """Return the names of the migrations in the folder, in order, without reading the files."""
    names = (entry.name for entry in (folder or MIGRATIONS).iterdir())
    return sorted(name.removesuffix(".sql") for name in names if name.endswith(".sql"))


def check_schema(applied: Sequence[AppliedMigration] | None) -> None:
    """Raise `SchemaMismatch` unless this version can serve the schema; None means no schema."""
    known = known_names()
    names = {migration.name for migration in applied or ()}
    missing = [name for name in known if name not in names]
    refused = [
        migration.name
        for migration in applied or ()
        if migration.name not in known and migration.compatible_with not in known
    ]
    if refused:
        raise SchemaMismatch(
            f"The database has a newer schema ({refused[-1]}) that this Botpool does not know and "
            "that does not declare itself compatible with it. Install the version that applied "
            "this migration, or a later one."
        )
    if missing:
        raise SchemaMismatch(
            f"The database lacks the migration {missing[0]}. Run 'botpool migrate' first."
        )
