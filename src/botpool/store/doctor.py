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
class UnconfirmedSlot:
    """A slot whose stop cannot be confirmed."""

    slot_name: str
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentPool:
    """A pool in which most bots are silent, and since when."""

    pool_name: PoolName
    silence_alarm_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotedImage:
    """A pool with an image that a rollout promoted, while the settings name another one."""

    pool_name: PoolName
    image: str
    configured_image: str
    rollout_id: int | None
    """The rollout that promoted the image; None after its retention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A session, a prepared transaction or a replication slot that has been open for long."""

    kind: str
    name: str | None
    pid: int | None
    database_name: str | None
    application: str | None
    holds_stream: bool
    """Whether it holds back the stream of changes; else only the removal of dead rows."""
    age_s: float | None
    """None if the server does not show it to this user."""

    def __str__(self) -> str:
        parts = [self.kind if self.name is None else f"{self.kind} {self.name}"]
        parts += [f"pid {self.pid}"] if self.pid is not None else []
        parts += [f"database {self.database_name}"] if self.database_name else []
        parts += [f"application {self.application}"] if self.application else []
        parts.append("open for long" if self.age_s is None else f"open for {self.age_s:.0f} s")
        return ", ".join(parts)


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
def list_unconfirmed_slots() -> list[UnconfirmedSlot]:
    """List the slots whose stop cannot be confirmed."""


@query
def list_promoted_images() -> list[PromotedImage]:
    """List the pools whose promoted image overrides the settings."""


@query
def list_silent_pools() -> list[SilentPool]:
    """List the pools whose silence alarm is raised."""


@query
def list_open_transactions(*, longer_than_s: float) -> list[OpenTransaction]:
    """List what has held transactions open for longer than some seconds, in any database."""


@query
def list_paused_backends() -> list[PausedBackend]:
    """List the paused backends."""


@query
def notify_doctor(*, payload: str) -> None:
    """Notify the doctor's other connection."""


@query
def listen_for_doctor() -> None:
    """Receive the notification of notify_doctor."""
