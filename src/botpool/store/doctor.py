"""Statements of the doctor, which reads a live system without changing it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from botpool.domain.ids import ContainerId, PoolName
from botpool.domain.states import SlotStatus
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The version, role, clock and relevant settings of a PostgreSQL server."""

    version: str
    version_number: int
    is_standby: bool
    is_read_only: bool
    fsync: bool
    full_page_writes: bool
    synchronous_commit: bool
    autovacuum: bool
    max_connections: int
    reserved_connections: int
    used_connections: int
    idle_session_timeout_ms: int | None
    transaction_timeout_ms: int | None
    clock: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSizes:
    """The size of the database and the dead rows of its busiest tables, as text."""

    size: str
    dead_rows: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedReplicas:
    """The hosts that replicas are connected from, and the replicas that hold leases."""

    connected: Sequence[str]
    lease_owners: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotContainer:
    """A slot and its container."""

    slot_name: str
    backend: str
    container_id: ContainerId | None
    status: SlotStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentPool:
    """A pool in which most bots are silent, and since when."""

    pool_name: PoolName
    silence_alarm_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedBackend:
    """A backend that asked for a pause, and the seconds that remain."""

    backend: str
    seconds: float


@query
def read_server_facts() -> ServerFacts:
    """Read the facts about the server."""


@query
def measure_tables() -> TableSizes:
    """Measure the database."""


@query
def list_replicas() -> ConnectedReplicas:
    """List the connected replicas."""


@query
def list_slot_containers() -> list[SlotContainer]:
    """List every slot with its container."""


@query
def list_silent_pools() -> list[SilentPool]:
    """List the pools whose silence alarm is raised."""


@query
def list_paused_backends() -> list[PausedBackend]:
    """List the paused backends."""


@query
def notify_doctor(*, payload: str) -> None:
    """Notify the doctor's other connection."""


@query
def listen_for_doctor() -> None:
    """Receive the notification of notify_doctor."""
