"""The installation that a replica belongs to."""

from dataclasses import dataclass, field

from botpool.store.data_dir import DataDir


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The database, identity and data directory of an installation."""

    database_url: str = field(repr=False)
    installation_id: str
    secret: str = field(repr=False)
    data_dir: DataDir
