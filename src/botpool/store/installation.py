"""What a replica needs besides its settings."""

from dataclasses import dataclass, field

from botpool.store.data_dir import DataDir


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Where a replica's database is, and who it is."""

    database_url: str = field(repr=False)
    installation_id: str
    secret: str = field(repr=False)
    data_dir: DataDir
