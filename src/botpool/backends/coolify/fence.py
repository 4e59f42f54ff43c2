"""The fence of an application, kept in its own environment.

Four variables say which assignment it was last prepared for (`BOTPOOL_ASSIGNMENT`), which
deployment was its newest before that one's start (`BOTPOOL_START_MARK`, with the assignment in
front), through which assignment everything was stopped (`BOTPOOL_STOPPED_THROUGH`), and which
variables we have ever written (`BOTPOOL_VARIABLES`): others are people's own, and are left alone.
A deployment newer than the mark is the assignment's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from botpool.backends.coolify.answers import Deployment, Variable
from botpool.backends.protocol import StartRequest
from botpool.domain.errors import StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId

ASSIGNMENT = "BOTPOOL_ASSIGNMENT"
MARK = "BOTPOOL_START_MARK"
STOPPED_THROUGH = "BOTPOOL_STOPPED_THROUGH"
VARIABLES = "BOTPOOL_VARIABLES"
_NO_DEPLOYMENT = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    assignment: int | None
    mark: str
    stopped_through: int
    names: frozenset[str]
    """The variables of former assignments, which the next one must not see."""

    def require_open(self, container_id: ContainerId, assignment_id: AssignmentId) -> None:
        """StartSuperseded if the assignment was stopped, or a later one came."""
        if self.stopped_through >= assignment_id:
            raise StartSuperseded(container_id, f"assignment {assignment_id} was stopped")
        if self.assignment is not None and self.assignment > assignment_id:
            raise StartSuperseded(container_id, f"it serves assignment {self.assignment} now")

    def mark_of(self, container_id: ContainerId, assignment_id: AssignmentId) -> str:
        """The newest deployment before the start of the assignment that it is prepared for.

        A mark of another one was left by a later start that broke off in the middle of writing.
        """
        owner, _, deployment = self.mark.partition(":")
        if owner != str(assignment_id):
            raise StartSuperseded(container_id, f"assignment {owner} is being prepared in it")
        return deployment


def read(variables: Sequence[Variable]) -> Fence:
    """What stands in the application's environment. Twins for previews say nothing."""
    values = {each.key: each.value.strip() for each in variables if not each.is_preview}
    return Fence(
        assignment=_number(values.get(ASSIGNMENT, "")),
        mark=values.get(MARK, ""),
        stopped_through=_number(values.get(STOPPED_THROUGH, "")) or 0,
        names=frozenset(values.get(VARIABLES, "").split()),
    )


def environment(order: StartRequest, *, former: Fence, mark: str) -> Mapping[str, str]:
    """All that is written for a start, in the order of writing.

    Coolify writes one after the other: the assignment stands last, so that it proves the rest.
    What the former assignment had and this one lacks is emptied.
    """
    names = former.names | set(order.environment)
    emptied = dict.fromkeys(sorted(names - set(order.environment)), "")
    values = {key: _literal(key, value) for key, value in order.environment.items()}
    marks = {MARK: f"{order.assignment_id}:{mark}", ASSIGNMENT: str(order.assignment_id)}
    # The names stand first: what follows is written only when it will be emptied again.
    return {VARIABLES: " ".join(sorted(names))} | emptied | values | marks


def mark_before(deployments: Sequence[Deployment]) -> str:
    """The mark of a start that comes after these, which are ordered from the newest."""
    return deployments[0].uuid if deployments else _NO_DEPLOYMENT


def first_after(mark: str, deployments: Sequence[Deployment]) -> Deployment | None:
    """The oldest deployment that is newer than the mark."""
    newer: Deployment | None = None
    for deployment in deployments:
        if deployment.uuid == mark:
            break
        newer = deployment
    return newer


def _literal(key: str, value: str) -> str:
    """Coolify puts literal values between apostrophes; JSON can say both without."""
    if key == "BOT_DATA":
        return value.replace("'", "\\u0027").replace("$", "\\u0024")
    return value


def _number(value: str) -> int | None:
    return int(value) if value.isdecimal() else None
