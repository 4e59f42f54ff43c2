"""Statements of the doctor, which reads a live system without changing it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from botpool.domain.ids import ContainerId
from botpool.domain.states import SlotStatus
from botpool.store.statement import Statement, no_rows, record_of


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
class PausedBackend:
    """A backend that asked for a pause, and the seconds that remain."""

    backend: str
    seconds: float


def read_server_facts() -> Statement[ServerFacts]:
    """Read the facts about the server."""
    return Statement("read_server_facts", {}, record_of(ServerFacts))


def measure_tables() -> Statement[TableSizes]:
    """Measure the database."""
    return Statement("measure_tables", {}, record_of(TableSizes))


def list_replicas() -> Statement[ConnectedReplicas]:
    """List the connected replicas."""
    return Statement("list_replicas", {}, record_of(ConnectedReplicas))


def list_slot_containers() -> Statement[SlotContainer]:
    """List every slot with its container."""
    return Statement("list_slot_containers", {}, record_of(SlotContainer))


def list_paused_backends() -> Statement[PausedBackend]:
    """List the paused backends."""
    return Statement("list_paused_backends", {}, record_of(PausedBackend))


def notify_doctor(*, payload: str) -> Statement[None]:
    """Notify the doctor's other connection."""
    return Statement("notify_doctor", {"payload": payload}, no_rows)


def listen_for_doctor() -> Statement[None]:
    """Receive the notification of notify_doctor."""
    return Statement("listen_for_doctor", {}, no_rows)
