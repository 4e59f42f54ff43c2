"""The table of faults that the emulator can produce. `faults` describes how to set them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from botpool.emulators.coolify.endpoints import Ability

Value = str | float | bool

TARGETED = frozenset({"probability", "times", "application"})
"""Selectors of a fault that affects single operations."""
TARGETED_AT_CALL = TARGETED | {"endpoint"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    name: str
    help: str
    selectors: frozenset[str] = frozenset()
    """Empty: the fault is a state that lasts until it is cleared."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """Parameters with their defaults. An enum member as default allows the members of its enum."""


def _fault_kind(
    name: str, help_text: str, selectors: frozenset[str] = frozenset(), **values: Value
) -> FaultKind:
    return FaultKind(name=name, help=help_text, selectors=selectors, values=values)


_ALL = (
    # Connections and responses.
    _fault_kind("refuseConnection", "the port refuses connections for `seconds`", seconds=10.0),
    _fault_kind(
        "resetConnection",
        "the connection breaks before the response",
        TARGETED_AT_CALL,
        worked=True,
    ),
    _fault_kind(
        "halfAnswer", "the connection breaks in the middle of the response", TARGETED_AT_CALL
    ),
    _fault_kind(
        "slowAnswer", "the call works at once, the response is late", TARGETED_AT_CALL, seconds=30.0
    ),
    _fault_kind("badGateway", "a proxy answers 502 with HTML", TARGETED_AT_CALL, worked=False),
    _fault_kind("serverError", "Coolify answers 500", TARGETED_AT_CALL, worked=False),
    # Limits and permissions.
    _fault_kind(
        "rateLimited",
        "429 regardless of the rate limit; `retryAfter` is in emulated seconds",
        TARGETED_AT_CALL,
        retryAfter=60.0,
    ),
    _fault_kind("failedCallLimit", "429 after `limit` failed calls in a minute", limit=30.0),
    _fault_kind("apiDisabled", "403: the API is disabled"),
    _fault_kind("addressNotAllowed", "403: the client's address is not allowed"),
    _fault_kind("notTeamAdmin", "403: the user of the token is not an admin of the team"),
    _fault_kind("tokenExpired", "401 for the right token"),
    _fault_kind("missingAbility", "403: the token lacks an ability", ability=Ability.DEPLOY),
    _fault_kind(
        "hideSensitive", "the token lacks `read:sensitive`: values of variables are left out"
    ),
    # Environment variables.
    _fault_kind("duplicateVariable", "a write creates a new variable twice", TARGETED),
    # Starts.
    _fault_kind(
        "startWithoutUuid", "the start does nothing, as if a deployment were queued", TARGETED
    ),
    _fault_kind(
        "phantomUuid", "the start does nothing and returns a uuid that does not exist", TARGETED
    ),
    _fault_kind("hangQueued", "the deployment stays queued", TARGETED),
    _fault_kind("hangInProgress", "the deployment stays in progress", TARGETED),
    _fault_kind(
        "exceedsBuildLimit", "the deployment begins beyond the concurrent builds", TARGETED
    ),
    _fault_kind("pullFails", "the deployment fails at the pull", TARGETED, image=""),
    _fault_kind("pullSlow", "the first pull takes `seconds`", TARGETED, image="", seconds=1200.0),
    _fault_kind("registryDown", "every pull fails, including those of cached images"),
    _fault_kind(
        "crashLoop", "the container crashes `seconds` after each start", TARGETED, seconds=5.0
    ),
    # Stops, cancels, deletes.
    _fault_kind("stopDoesNothing", "200, but the container keeps running", TARGETED),
    _fault_kind(
        "stopLies",
        "the status becomes exited for 2 minutes, but the container keeps running",
        TARGETED,
    ),
    _fault_kind("stopSlow", "the stop takes `seconds`", TARGETED, seconds=120.0),
    _fault_kind(
        "cancelLeavesRunning", "the cancelled deployment still starts its container", TARGETED
    ),
    _fault_kind("cancelAnswers500", "the cancel works, but Coolify answers 500", TARGETED),
    _fault_kind("deleteNeverFinishes", "200, but the application stays", TARGETED),
    # Reported statuses.
    _fault_kind("statusLag", "bounds of the status lag", minSeconds=0.0, maxSeconds=60.0),
    _fault_kind(
        "oldStatus",
        "a status arrives `seconds` late and replaces a newer one until the next refresh",
        TARGETED,
        seconds=90.0,
    ),
    _fault_kind("reportStatus", "the API reports `status`", TARGETED, status="degraded:unhealthy"),
    _fault_kind("healthCheckFails", "the health check never succeeds", TARGETED),
    _fault_kind("deploymentsAsObject", "GET /deployments returns an object with numeric keys"),
    # The installation.
    _fault_kind(
        "serverUnreachable",
        "all statuses are exited, `server_status` is false, containers keep running",
    ),
    _fault_kind(
        "restartCoolify",
        "open deployments fail, and the port refuses connections for `seconds`",
        seconds=15.0,
    ),
)
KINDS = {kind.name: kind for kind in _ALL}
