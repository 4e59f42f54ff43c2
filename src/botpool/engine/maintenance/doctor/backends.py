"""The backends: do they answer, and do they have the containers that the slots have?

Nothing is opened, made or removed there, and nothing is written about the calls: a few requests
that the shared budget does not count.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from botpool.backends.protocol import Backend, OwnedContainer, RequestPurpose
from botpool.domain.errors import BotpoolError
from botpool.domain.states import SlotStatus
from botpool.engine.maintenance.doctor.findings import Check, Finding
from botpool.engine.runtime.leases import timed
from botpool.store.database import Rows
from botpool.store.readonly_connection import ReadonlyConnection

_TIMEOUT_S = 15.0
_SHOWN = 5

REACH = Check(
    name="backend",
    meaning="each backend that is used answers, and accepts its settings",
    remedy="Correct the setting that is named, or bring the backend back. Local processes are "
    "seen only from their own machine, with the data_dir of 'serve'.",
)
LEFTOVER = Check(
    name="leftover_containers",
    meaning="every container with our mark has a slot",
    remedy="Wait: a replica deletes what it saw to be nobody's for ten minutes. Many at once wait "
    "for your word: see that they are nobody's, then POST /v1/maintenance/cleanup?force=true.",
)
MISSING = Check(
    name="missing_containers",
    meaning="every slot's container exists at its backend",
    remedy="Nothing: they are made again when their slot is used. Find out who deletes them.",
)

CHECKS = (REACH, LEFTOVER, MISSING)


class UnlimitedBudget:
    """A budget for one who only reads: it takes nothing, and remembers nothing."""

    async def take(self, purpose: RequestPurpose, requests: int) -> None:
        """Always granted. A pause that the backend asked for is respected before."""

    async def pause(self, seconds: float) -> None:
        """The replicas will be told themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    leftover: Sequence[OwnedContainer]
    missing: Sequence[str]
    """Names of slots."""


def compare(*, before: Rows, listed: Sequence[OwnedContainer], after: Rows) -> Comparison:
    """Slots were read before and after the list: what changed meanwhile is in order.

    A container whose slot does not know its id yet is being made. A slot that is being deleted may
    be without its container already.
    """
    known = {row["container_id"] for row in after}
    being_made = {row["slot_name"] for row in after if row["container_id"] is None}
    ids = {found.container_id for found in listed}
    settled = {(row["slot_name"], row["container_id"]) for row in before}
    return Comparison(
        leftover=[
            found
            for found in listed
            if found.container_id not in known and found.name not in being_made
        ],
        missing=[
            row["slot_name"]
            for row in after
            if row["container_id"] is not None
            and row["container_id"] not in ids
            and (row["slot_name"], row["container_id"]) in settled
            and row["status"] != SlotStatus.DELETING
        ],
    )


async def examine_reach(name: str, backend: Backend) -> Finding:
    try:
        health = await timed(lambda timeout_s: backend.check(timeout_s=timeout_s), _TIMEOUT_S)
    except BotpoolError as error:
        return REACH.wrong(f"{name}: {error}")
    found = f"{name}: {health.detail}" if health.detail else name
    return REACH.ok(found) if health.ok else REACH.wrong(found)


async def examine_containers(
    connection: ReadonlyConnection, name: str, backend: Backend
) -> AsyncIterator[Finding]:
    try:
        before = await _slots_of(connection, name)
        listed = await timed(lambda timeout_s: backend.list_owned(timeout_s=timeout_s), _TIMEOUT_S)
        compared = compare(before=before, listed=listed, after=await _slots_of(connection, name))
    except BotpoolError as error:
        yield LEFTOVER.not_examined(f"{name}: {error}")
        return
    leftover = [f"{each.name} ({each.container_id})" for each in compared.leftover]
    yield (
        LEFTOVER.wrong(f"{name}: {_few(leftover)}")
        if leftover
        else LEFTOVER.ok(f"{name}: {len(listed)} containers")
    )
    missing = compared.missing
    yield MISSING.warning(f"{name}: {_few(missing)}") if missing else MISSING.ok(name)


async def paused_backends(connection: ReadonlyConnection) -> Mapping[str, float]:
    """Backends whose pool_name asked to be left alone, with the seconds that remain."""
    rows = await connection.fetch("list_paused_backends", {})
    return {row["backend"]: row["seconds"] for row in rows}


async def used_backends(connection: ReadonlyConnection) -> frozenset[str]:
    return frozenset(row["backend"] for row in await connection.fetch("list_slot_containers", {}))


async def _slots_of(connection: ReadonlyConnection, backend: str) -> Rows:
    rows = await connection.fetch("list_slot_containers", {})
    return [row for row in rows if row["backend"] == backend]


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{len(names)} in all: {shown}, …"
