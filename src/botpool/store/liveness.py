"""Statements about the liveness of replicas."""

from dataclasses import dataclass
from datetime import datetime

from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReplica:
    """A replica that recently recorded that it is alive, and the address that it hands out."""

    replica: str
    public_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """What a replica has recorded about its HTTP server."""

    replica: str
    is_alive: bool
    file_limit: int | None
    files_needed: int | None
    unanswered_at: datetime | None
    """When the server last accepted no connection or gave no answer, in the last day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRole:
    """Whether the server is a standby, and whether transactions are read-only."""

    is_standby: bool
    is_read_only: bool


@query
def record_liveness(
    *,
    replica: str,
    public_url: str,
    heartbeats_work: bool,
    database_failed: bool,
    listener_answers: bool,
    file_limit: int | None,
    files_needed: int | None,
    gap_s: float,
    lost_s: float,
) -> datetime:
    """Record that a replica is alive; the result is when the last gap in heartbeats ended."""


@query
def end_liveness(*, replica: str, gap_s: float) -> None:
    """Record that a replica stops in order."""


@query
def list_live_replicas(*, within_s: float) -> list[LiveReplica]:
    """List the replicas that recorded their liveness within some seconds."""


@query
def list_listeners(*, within_s: float) -> list[Listener]:
    """List the HTTP servers of live replicas, and of those that did not answer in the last day."""


@query
def insert_write_probe() -> None:
    """Take a new page, to find out whether the disk has room."""


@query
def read_server_role() -> ServerRole:
    """Read whether the server accepts writes."""


@query
def find_replica_without_standbys(*, alive_s: float) -> str | None:
    """Find a live replica whose version does not know standbys."""
