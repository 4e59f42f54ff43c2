"""The fence of an application, stored in its environment variables.

- `BOTPOOL_ASSIGNMENT`: the assignment for which the environment was last written.
- `BOTPOOL_START_MARK`: this assignment and the newest deployment before its start. A deployment
  newer than the mark belongs to the assignment.
- `BOTPOOL_STOPPED_THROUGH`: all assignments up to this one were stopped.
- `BOTPOOL_VARIABLES`: the variables that Botpool has written. It leaves all others alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from botpool.backends.coolify.responses import Deployment, Variable
from botpool.backends.protocol import StartRequest
from botpool.domain.errors import StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId

ASSIGNMENT = "BOTPOOL_ASSIGNMENT"
MARK = "BOTPOOL_START_MARK"
STOPPED_THROUGH = "BOTPOOL_STOPPED_THROUGH"
VARIABLES = "BOTPOOL_VARIABLES"
WAIT_FOR_STOP = "BOTPOOL_WAIT_FOR_STOP_S"
_WAIT_FOR_STOP_S = "600"
"""Coolify restarts every container that ends, so agents wait for their stop; not for ever."""
MAX_BOT_DATA_BYTES = 64 * 1024
"""A deployment fails if all variables together exceed about 98 kB."""
_NO_DEPLOYMENT = "none"
_ESCAPES = {"'": "\\u0027", "$": "\\u0024", "#": "\\u0023", "{{": "{\\u007b"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    assignment: int | None
    mark: str
    stopped_through: int
    variable_names: frozenset[str]
    """The variables of earlier assignments, which the next one must not get."""

    def serves_after(self, assignment_id: AssignmentId) -> bool:
        """Whether a later assignment was started in the application."""
        return self.assignment is not None and self.assignment > assignment_id

    def require_startable(self, container_id: ContainerId, assignment_id: AssignmentId) -> None:
        """Raise StartSuperseded if the assignment was stopped or a later one was started."""
        if self.stopped_through >= assignment_id:
            raise StartSuperseded(container_id, f"assignment {assignment_id} was stopped")
        if self.serves_after(assignment_id):
            raise StartSuperseded(
                container_id, f"the application now serves assignment {self.assignment}"
            )

    def mark_of(self, container_id: ContainerId, assignment_id: AssignmentId) -> str:
        """Return the newest deployment before the start of this assignment.

        A mark of another assignment was left by a later start that was interrupted while writing.
        """
        owner, _, deployment = self.mark.partition(":")
        if owner != str(assignment_id):
            raise StartSuperseded(container_id, f"assignment {owner} is being started")
        return deployment


def parse_fence(variables: Sequence[Variable]) -> Fence:
    """Parse the variables. Copies for preview deployments do not count.

    Of duplicates the first counts, because Coolify updates it.
    """
    values: dict[str, str] = {}
    for variable in variables:
        if not variable.is_preview:
            values.setdefault(variable.key, (variable.value or "").strip())
    return Fence(
        assignment=_parse_number(values.get(ASSIGNMENT, "")),
        mark=values.get(MARK, ""),
        stopped_through=_parse_number(values.get(STOPPED_THROUGH, "")) or 0,
        variable_names=frozenset(values.get(VARIABLES, "").split()),
    )


def start_variables(request: StartRequest, *, previous: Fence, mark: str) -> Mapping[str, str]:
    """Return the variables to write for a start, in the order of writing.

    Coolify writes them one by one. The assignment comes last and proves that all were written.
    Variables of earlier assignments that this one does not set are emptied.
    """
    values = escaped_environment(request.environment) | {WAIT_FOR_STOP: _WAIT_FOR_STOP_S}
    names = previous.variable_names | set(values)
    emptied = dict.fromkeys(sorted(names - set(values)), "")
    marks = {MARK: f"{request.assignment_id}:{mark}", ASSIGNMENT: str(request.assignment_id)}
    # The names come first, so that a later start can empty the variables after them.
    return {VARIABLES: " ".join(sorted(names))} | emptied | values | marks


def mark_before(deployments: Sequence[Deployment]) -> str:
    """Return the mark for a start after these deployments, which are sorted newest first."""
    return deployments[0].uuid if deployments else _NO_DEPLOYMENT


def first_after(mark: str, deployments: Sequence[Deployment]) -> Deployment | None:
    """Return the oldest deployment after the mark."""
    newer: Deployment | None = None
    for deployment in deployments:
        if deployment.uuid == mark:
            break
        newer = deployment
    return newer


def escaped_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Escape BOT_DATA, which contains text of users; leave it out if it is too large.

    Coolify writes JSON without quotes to the file that Docker Compose reads. Compose cuts a value
    at ` #` and expands `$`; an apostrophe ends a quoted value; and Coolify replaces `{{team.X}}` by
    a shared variable, which may be a secret. All of them occur only inside JSON's strings, where an
    escape means the same character. The agent fetches data that is left out.
    """
    values = dict(environment)
    if "BOT_DATA" in values:
        for text, escape in _ESCAPES.items():
            values["BOT_DATA"] = values["BOT_DATA"].replace(text, escape)
        if len(values["BOT_DATA"].encode()) > MAX_BOT_DATA_BYTES:
            del values["BOT_DATA"]
    return values


def duplicates(variables: Sequence[Variable]) -> list[Variable]:
    """Return the variables that share their key with an earlier one: Coolify updates the first."""
    keys: set[tuple[str, bool]] = set()
    found = []
    for variable in variables:
        key = variable.key, variable.is_preview
        if key in keys:
            found.append(variable)
        keys.add(key)
    return found


def _parse_number(value: str) -> int | None:
    return int(value) if value.isdecimal() else None
