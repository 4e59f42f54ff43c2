"""What stands at the daemon for a slot, and what it means.

A place is the name of a container. What stands for it carries labels: whose it is, of which slot,
what the slot wants to run, and an assignment. Of three kinds:

- `bot`: the container of that assignment. Made from the pool's image; kept when it has ended, for
  its output, until the next one comes.
- `pending`: that assignment's start is wanted, and its image is still being pulled.
- `vacant`: nothing may run here for that assignment or an earlier one. Made from an empty image,
  which every daemon takes: before the first bot, and where one was stopped before it ran.

The labels are the fence, and it never falls: what replaces another carries a number that is not
smaller, and stands beside it before the other is removed. So for a moment, and after a crash for
longer, several may stand for one place. They are found by label, and tell the same story together.
Only who is alone and has the place's name is started: two can never run.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendUnavailable, StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId

INSTALLATION = "botpool.installation"
SLOT = "botpool.slot"
_KIND = "botpool.kind"
_ASSIGNMENT = "botpool.assignment"
_POOL_NAME = "botpool.platform"
_IMAGE = "botpool.image"
_CPUS = "botpool.cpus"
_MEMORY = "botpool.memory_mb"

_SLOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_UP = frozenset({"running", "paused", "restarting"})
BEING_REMOVED = "removing"
CREATED = "created"
LISTED = ("Id", "Names", "Labels", "State")
"""What is read of each container in Docker's list."""


class Kind(StrEnum):
    VACANT = "vacant"
    PENDING = "pending"
    BOT = "bot"


_RANK = {Kind.PENDING: 0, Kind.BOT: 1, Kind.VACANT: 2}
"""Of those with the same assignment: what may follow what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What is to stand for a place."""

    kind: Kind
    assignment_id: AssignmentId
    spec: ContainerSpec

    def labels(self, installation_id: str) -> Mapping[str, str]:
        return {
            INSTALLATION: installation_id,
            SLOT: self.spec.name,
            _KIND: self.kind,
            _ASSIGNMENT: str(self.assignment_id),
            _POOL_NAME: self.spec.pool_name,
            _IMAGE: self.spec.image,
            _CPUS: str(self.spec.cpus),
            _MEMORY: str(self.spec.memory_mb),
        }

    def name_beside(self, container_id: ContainerId) -> str:
        """Its name until it has the place's own. The same draft is never made twice."""
        if self.kind is Kind.BOT:
            return f"{container_id}.{self.assignment_id}"
        wanted = hashlib.sha256(repr(self.spec).encode()).hexdigest()[:8]
        return f"{container_id}.{self.assignment_id}.{self.kind}.{wanted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One of Docker's containers that carries our labels."""

    docker_id: str
    name: str
    kind: Kind
    assignment_id: AssignmentId
    spec: ContainerSpec
    state: str

    @property
    def is_up(self) -> bool:
        return self.state in _UP

    @property
    def may_come_up(self) -> bool:
        """Its start is under way, or can still be sent."""
        return self.kind is Kind.PENDING or (self.kind is Kind.BOT and self.state == CREATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    id: ContainerId
    containers: Sequence[Container]
    """The one that decides comes last: of the greatest assignment, else the one that came later."""

    @property
    def newest(self) -> Container:
        return self.containers[-1]

    @property
    def coming(self) -> Sequence[Container]:
        """What may still come to run. A bot's twin never does: see `bot`."""
        return [
            each
            for each in self.containers
            if each.may_come_up
            and (each.kind is Kind.PENDING or each is self.bot(each.assignment_id))
        ]

    def bot(self, assignment_id: AssignmentId) -> Container | None:
        """Of two, which replicas that start it at once may make, the one with the place's name."""
        return next(
            (
                each
                for each in self.containers
                if each.kind is Kind.BOT and each.assignment_id == assignment_id
            ),
            None,
        )

    def is_closed_to(self, assignment_id: AssignmentId) -> bool:
        """Whether no start of that assignment can be let through here any more."""
        own = self.bot(assignment_id)
        return (own is not None and own.state != CREATED) or any(
            each.assignment_id > assignment_id
            or (each.kind is Kind.VACANT and each.assignment_id == assignment_id)
            for each in self.containers
        )

    def require_open(self, assignment_id: AssignmentId) -> None:
        """StartSuperseded if it was stopped, a later one came, or an earlier one still runs."""
        for each in self.containers:
            if each.assignment_id > assignment_id:
                detail = f"it serves assignment {each.assignment_id} now"
            elif each.kind is Kind.VACANT and each.assignment_id == assignment_id:
                detail = f"assignment {assignment_id} was stopped"
            elif each.is_up and each.assignment_id < assignment_id:
                detail = f"assignment {each.assignment_id} runs in it"
            else:
                continue
            raise StartSuperseded(self.id, detail)


def is_slot_name(name: str) -> bool:
    """A dot would make two places of different installations one."""
    return _SLOT_NAME.fullmatch(name) is not None


def place_id(installation_id: str, slot: str) -> ContainerId:
    """Docker's name for it: slots of two installations may have the same name."""
    return ContainerId(f"{installation_id}.{slot}")


def slot_of(installation_id: str, container_id: str) -> str | None:
    """The slot whose place that is; None for what cannot be one of ours."""
    installation, _, slot = container_id.rpartition(".")
    return slot if installation == installation_id and is_slot_name(slot) else None


def place_of(container_id: ContainerId, containers: Sequence[Container]) -> Place:
    def order(each: Container) -> tuple[int, int, bool]:
        came_later = each.name != container_id
        return each.assignment_id, _RANK[each.kind], came_later

    return Place(id=container_id, containers=sorted(containers, key=order))


def read(listed: Mapping[str, Any]) -> Container | None:
    """A container of Docker's list; None for one that is on its way out."""
    if listed["State"] == BEING_REMOVED:
        return None
    try:
        labels = listed["Labels"]
        return Container(
            docker_id=listed["Id"],
            # A link would show as a second name, with its owner's before a slash.
            name=min((name.lstrip("/") for name in listed["Names"]), key=len),
            kind=Kind(labels[_KIND]),
            assignment_id=AssignmentId(int(labels[_ASSIGNMENT])),
            spec=ContainerSpec(
                name=labels[SLOT],
                pool_name=labels[_POOL_NAME],
                image=labels[_IMAGE],
                cpus=float(labels[_CPUS]),
                memory_mb=int(labels[_MEMORY]),
            ),
            state=listed["State"],
        )
    except (KeyError, ValueError, TypeError) as error:
        problem = f"the container {listed['Id'][:12]} has our label and not our others ({error!r})"
        raise BackendUnavailable(f"{problem}. Remove it if it is not Botpool's") from error
