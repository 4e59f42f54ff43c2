"""The containers that exist at the daemon for one slot, and their meaning.

A slot is identified by a container name. Each of its containers carries labels: the installation,
the slot, the spec that the slot wants to run, and an assignment. There are three kinds:

- `bot`: the container of an assignment, created from the pool's image. It is kept after its end for
  its output, until the next bot's container replaces it.
- `pending`: a start of the assignment was requested, and its image is being pulled.
- `placeholder`: neither this assignment nor an earlier one may run. It is created from an empty
  image, before the first bot and when a bot is stopped before it ran.

The labels are the fence. A replacement never has a smaller assignment id, and it exists before the
old container is removed. So a slot has several containers for a moment, or for longer after a
crash; they are found by label. Only a container that is alone and has the slot's own name is
started, so two containers of a slot can never run.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendUnavailable, CallSuperseded, StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId

INSTALLATION_LABEL = "botpool.installation"
SLOT_LABEL = "botpool.slot"
_KIND_LABEL = "botpool.kind"
_ASSIGNMENT_LABEL = "botpool.assignment"
POOL_LABEL = "botpool.pool"
_IMAGE_LABEL = "botpool.image"
_CPUS_LABEL = "botpool.cpus"
_MEMORY_LABEL = "botpool.memory_mb"

_SLOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_RUNNING_STATES = frozenset({"running", "paused", "restarting"})
REMOVING = "removing"
CREATED = "created"
LISTED_FIELDS = ("Id", "Names", "Labels", "State")
"""The fields that `parse_container` reads from Docker's list."""


class ContainerKind(StrEnum):
    PLACEHOLDER = "placeholder"
    PENDING = "pending"
    BOT = "bot"


_ORDER = {ContainerKind.PENDING: 0, ContainerKind.BOT: 1, ContainerKind.PLACEHOLDER: 2}
"""The order in which containers of one assignment may replace each other."""


@dataclass(frozen=True, slots=True)
class ContainerDraft:
    """A container to create for a slot."""

    kind: ContainerKind
    assignment_id: AssignmentId
    spec: ContainerSpec

    def labels(self, installation_id: str) -> Mapping[str, str]:
        return {
            INSTALLATION_LABEL: installation_id,
            SLOT_LABEL: self.spec.name,
            _KIND_LABEL: self.kind,
            _ASSIGNMENT_LABEL: str(self.assignment_id),
            POOL_LABEL: self.spec.pool_name,
            _IMAGE_LABEL: self.spec.image,
            _CPUS_LABEL: str(self.spec.cpus),
            _MEMORY_LABEL: str(self.spec.memory_mb),
        }

    def temporary_name(self, container_id: ContainerId) -> str:
        """Return the name before promotion. Equal drafts have equal names, so one is created."""
        if self.kind is ContainerKind.BOT:
            return f"{container_id}.{self.assignment_id}"
        spec_hash = hashlib.sha256(repr(self.spec).encode()).hexdigest()[:8]
        return f"{container_id}.{self.assignment_id}.{self.kind}.{spec_hash}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A Docker container with Botpool's labels."""

    docker_id: str
    name: str
    kind: ContainerKind
    assignment_id: AssignmentId
    spec: ContainerSpec
    state: str

    @property
    def is_running(self) -> bool:
        return self.state in _RUNNING_STATES

    @property
    def may_start(self) -> bool:
        """Whether its start is in progress or can still arrive."""
        return self.kind is ContainerKind.PENDING or (
            self.kind is ContainerKind.BOT and self.state == CREATED
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotContainers:
    """All containers of a slot, ordered by assignment and age."""

    id: ContainerId
    containers: Sequence[Container]

    @property
    def newest(self) -> Container:
        """The container that decides about the slot."""
        return self.containers[-1]

    @property
    def starting(self) -> Sequence[Container]:
        """The containers that may still start. A duplicate of a bot's container never does."""
        return [
            c
            for c in self.containers
            if c.may_start
            and (c.kind is ContainerKind.PENDING or c is self.bot_container(c.assignment_id))
        ]

    @property
    def active(self) -> Sequence[Container]:
        """The containers that run or may still start."""
        return [c for c in self.containers if c.is_running] + list(self.starting)

    def require_active_through(self, through: AssignmentId) -> None:
        """Raise CallSuperseded if a later assignment runs or may still start."""
        self._require_through(through, self.active)

    def require_all_through(self, through: AssignmentId) -> None:
        """Raise CallSuperseded if a later assignment has or had the slot."""
        self._require_through(through, self.containers)

    def _require_through(self, through: AssignmentId, containers: Sequence[Container]) -> None:
        later = [c.assignment_id for c in containers if c.assignment_id > through]
        if later:
            raise CallSuperseded(self.id, f"assignment {max(later)} came after {through}")

    def bot_container(self, assignment_id: AssignmentId) -> Container | None:
        """Return the bot's container. Of duplicates, the one with the slot's name comes first."""
        for container in self.containers:
            if container.kind is ContainerKind.BOT and container.assignment_id == assignment_id:
                return container
        return None

    def is_fenced(self, assignment_id: AssignmentId) -> bool:
        """Whether no start of the assignment can succeed any more."""
        own = self.bot_container(assignment_id)
        return (own is not None and own.state != CREATED) or any(
            c.assignment_id > assignment_id
            or (c.kind is ContainerKind.PLACEHOLDER and c.assignment_id == assignment_id)
            for c in self.containers
        )

    def require_startable(self, assignment_id: AssignmentId) -> None:
        """Raise StartSuperseded if the assignment was stopped or another one has the slot."""
        for container in self.containers:
            other = container.assignment_id
            if other > assignment_id:
                detail = f"the container now serves assignment {other}"
            elif container.kind is ContainerKind.PLACEHOLDER and other == assignment_id:
                detail = f"assignment {assignment_id} was stopped"
            elif container.is_running and other < assignment_id:
                detail = f"assignment {other} still runs in the container"
            else:
                continue
            raise StartSuperseded(self.id, detail)


def is_slot_name(name: str) -> bool:
    """Reject dots, with which slots of two installations could get the same container name."""
    return _SLOT_NAME.fullmatch(name) is not None


def container_id_of(installation_id: str, slot: str) -> ContainerId:
    """Return the slot's container name, which is unique across installations."""
    return ContainerId(f"{installation_id}.{slot}")


def slot_of(installation_id: str, container_id: str) -> str | None:
    """Return the slot's name, or None for an id that this installation cannot have created."""
    installation, _, slot = container_id.rpartition(".")
    return slot if installation == installation_id and is_slot_name(slot) else None


def ordered(container_id: ContainerId, containers: Sequence[Container]) -> SlotContainers:
    def order(container: Container) -> tuple[int, int, bool]:
        has_temporary_name = container.name != container_id
        return container.assignment_id, _ORDER[container.kind], has_temporary_name

    return SlotContainers(id=container_id, containers=sorted(containers, key=order))


def parse_container(listed: Mapping[str, Any]) -> Container | None:
    """Parse an entry of Docker's list. Return None for a container that is being removed."""
    if listed["State"] == REMOVING:
        return None
    try:
        labels = listed["Labels"]
        return Container(
            docker_id=listed["Id"],
            # A link adds a longer name with the owner's name before a slash.
            name=min((name.lstrip("/") for name in listed["Names"]), key=len),
            kind=ContainerKind(labels[_KIND_LABEL]),
            assignment_id=AssignmentId(int(labels[_ASSIGNMENT_LABEL])),
            spec=ContainerSpec(
                name=labels[SLOT_LABEL],
                pool_name=labels[POOL_LABEL],
                image=labels[_IMAGE_LABEL],
                cpus=float(labels[_CPUS_LABEL]),
                memory_mb=int(labels[_MEMORY_LABEL]),
            ),
            state=listed["State"],
        )
    except (KeyError, ValueError, TypeError) as error:
        raise BackendUnavailable(
            f"container {listed['Id'][:12]} has the label {INSTALLATION_LABEL}, but its other "
            f"Botpool labels are missing or invalid ({error!r}). Remove it if Botpool did not "
            "create it."
        ) from error
