"""The installation that a replica belongs to."""

from dataclasses import dataclass, field

from botpool.store.data_dir import DataDir


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The database, identity and data directory of an installation."""

    database_url: str = field(repr=False)
    installation_id: str
    secrets: tuple[str, ...] = field(repr=False)
    """The newest first: it signs; the others are accepted until a rotation is complete."""
    data_dir: DataDir
