"""Checks of the backends: their health, and their containers against the slots.

The checks create, start and delete nothing. They send few requests, which the shared request budget
does not count.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from botpool.backends.protocol import Backend, OwnedContainer, RequestPurpose, run_keeper
from botpool.domain.errors import BotpoolError
from botpool.domain.states import SlotStatus
from botpool.engine.maintenance.doctor.findings import Check, Finding
from botpool.engine.runtime.leases import timed, timed_pages
from botpool.store import doctor
from botpool.store.doctor import SlotContainer
from botpool.store.readonly_connection import ReadonlyConnection

_TIMEOUT_S = 15.0
_SHOWN = 5

HEALTHY = Check(
    name="backend",
    meaning="each backend with pools or slots answers and accepts its settings",
    remedy="Correct the setting that is named, or bring the backend back. Local processes can be "
    "checked only on their own machine, with the data_dir of 'serve'.",
)
SEPARATE_USERS = Check(
    name="bot_users",
    meaning="local bots run as users of their own, not as Botpool's user",
    remedy="These bots can read Botpool's keys, its secrets and the files of other bots. Run "
    "Botpool as root, with its program and data_dir where other users can read them, or use "
    "another backend.",
)
NODES_READABLE = Check(
    name="nodes_readable",
    meaning="Botpool may read the nodes of Kubernetes, to see that a node is lost",
    remedy="Give Botpool the ClusterRole of the chart (get and list nodes). Without it, a slot on "
    "a lost node stays in `releasing` until the node is back or an operator releases it.",
)
LEFTOVER = Check(
    name="leftover_containers",
    meaning="every container with our ownership label has a slot",
    remedy="Wait: a replica deletes stray containers after ten minutes. It does not delete many at "
    "once: check that no installation uses them, then call "
    "POST /v1/maintenance/cleanup?force=true.",
)
MISSING = Check(
    name="missing_containers",
    meaning="every slot's container exists at its backend",
    remedy="Nothing: Botpool creates them again when their slots are used. Find out what deletes "
    "them.",
)

UNKNOWN_STATUS = Check(
    name="unknown_statuses",
    meaning="Botpool knows every status that a backend shows for its slots",
    remedy="Botpool ignores these statuses, so their slots wait for an agent or a timeout. Look at "
    "the containers in the backend's own user interface, and report the status to Botpool's "
    "authors.",
)

CHECKS = (HEALTHY, SEPARATE_USERS, NODES_READABLE, LEFTOVER, MISSING, UNKNOWN_STATUS)
_WEAKNESSES: Mapping[str, Check] = {"process": SEPARATE_USERS, "kubernetes": NODES_READABLE}


class UnlimitedBudget:
    """A request budget without limits and without writes, for the doctor."""

    async def take(self, purpose: RequestPurpose, requests: int) -> None:
        """Grant every request; the doctor skips paused backends before it calls them."""

    async def pause(self, seconds: float) -> None:
        """Ignore the pause: the replicas get their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The differences between a backend's containers and its slots."""

    leftover: Sequence[OwnedContainer]
    missing: Sequence[str]
    """Names of slots."""


def compare(
    *,
    before: Sequence[SlotContainer],
    listed: Sequence[OwnedContainer],
    after: Sequence[SlotContainer],
) -> Comparison:
    """Compare a list of containers with the slots before and after it; changes between are normal.

    A container whose slot has no container id yet is being created. A slot in deletion may already
    be without its container.
    """
    known_ids = {slot.container_id for slot in after}
    in_creation = {slot.slot_name for slot in after if slot.container_id is None}
    listed_ids = {container.container_id for container in listed}
    unchanged = {(slot.slot_name, slot.container_id) for slot in before}
    return Comparison(
        leftover=[
            container
            for container in listed
            if container.container_id not in known_ids and container.name not in in_creation
        ],
        missing=[
            slot.slot_name
            for slot in after
            if slot.container_id is not None
            and slot.container_id not in listed_ids
            and (slot.slot_name, slot.container_id) in unchanged
            and slot.status is not SlotStatus.DELETING
        ],
    )


async def check_health(name: str, backend: Backend) -> AsyncIterator[Finding]:
    """Ask a backend for its health."""
    try:
        health = await timed(lambda timeout_s: backend.check(timeout_s=timeout_s), _TIMEOUT_S)
    except BotpoolError as error:
        yield HEALTHY.wrong(f"{name}: {error}")
        return
    found = f"{name}: {health.detail}" if health.detail else name
    yield HEALTHY.ok(found) if health.ok else HEALTHY.wrong(found)
    weakness = _WEAKNESSES.get(name)
    if weakness is not None and health.ok:
        yield (
            weakness.warning(f"{name}: {health.weakness}") if health.weakness else weakness.ok(name)
        )


async def check_containers(
    connection: ReadonlyConnection, name: str, backend: Backend
) -> AsyncIterator[Finding]:
    """Compare a backend's containers with its slots."""
    try:
        before = await _slots_of(connection, name)
        listed = await timed_pages(
            lambda timeout_s: backend.list_owned(timeout_s=timeout_s), _TIMEOUT_S
        )
        compared = compare(before=before, listed=listed, after=await _slots_of(connection, name))
    except BotpoolError as error:
        yield LEFTOVER.not_checked(f"{name}: {error}")
        return
    leftover = [f"{each.name} ({each.container_id})" for each in compared.leftover]
    yield (
        LEFTOVER.wrong(f"{name}: {_shortened(leftover)}")
        if leftover
        else LEFTOVER.ok(f"{name}: {len(listed)} containers")
    )
    # A backend that keeps runs has no container of an idle slot.
    missing = compared.missing if run_keeper(backend) is None else []
    yield MISSING.warning(f"{name}: {_shortened(missing)}") if missing else MISSING.ok(name)
    yield await _check_statuses(before, name, backend)


async def _check_statuses(slots: Sequence[SlotContainer], name: str, backend: Backend) -> Finding:
    """Look for containers whose status Botpool does not know."""
    names = {slot.container_id: slot.slot_name for slot in slots if slot.container_id is not None}
    try:
        observations = await timed_pages(
            lambda timeout_s: backend.observe(list(names), timeout_s=timeout_s), _TIMEOUT_S
        )
    except BotpoolError as error:
        return UNKNOWN_STATUS.not_checked(f"{name}: {error}")
    unknown = [
        f"{names[container_id]} ({container_id}) shows “{observation.unknown_status}”"
        for container_id, observation in observations.items()
        if observation.unknown_status is not None
    ]
    return (
        UNKNOWN_STATUS.warning(f"{name}: {_shortened(unknown)}")
        if unknown
        else (UNKNOWN_STATUS.ok(name))
    )


async def paused_backends(connection: ReadonlyConnection) -> Mapping[str, float]:
    """Return the backends that asked for a pause, with the remaining seconds."""
    paused = await doctor.list_paused_backends(connection)
    return {each.backend: each.seconds for each in paused}


async def used_backends(connection: ReadonlyConnection) -> frozenset[str]:
    """Return the backends that have slots."""
    slots = await doctor.list_slot_containers(connection)
    return frozenset(slot.backend for slot in slots)


async def _slots_of(connection: ReadonlyConnection, backend: str) -> list[SlotContainer]:
    slots = await doctor.list_slot_containers(connection)
    return [slot for slot in slots if slot.backend == backend]


def _shortened(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{len(names)} in all: {shown}, …"
