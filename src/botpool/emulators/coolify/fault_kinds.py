"""Every fault there is, with what can be said about it. See `faults` for how they are set."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from botpool.emulators.coolify.endpoints import Ability

Value = str | float | bool

AIMED = frozenset({"probability", "times", "application"})
"""Of faults that happen to one thing at a time."""
AT_CALL = AIMED | {"endpoint"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    name: str
    help: str
    aims: frozenset[str] = frozenset()
    """Empty: a state that lasts until it is cleared."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """What else it takes, with the defaults. Where the default is of an enum, its members only."""


def _kind(name: str, help_text: str, aims: frozenset[str] = frozenset(), **values: Value) -> Kind:
    return Kind(name=name, help=help_text, aims=aims, values=values)


_ALL = (
    # The wire.
    _kind("refuseConnection", "nobody listens, for some seconds", seconds=10.0),
    _kind("resetConnection", "the connection breaks before the answer", AT_CALL, worked=True),
    _kind("halfAnswer", "the connection breaks in the middle of the answer", AT_CALL),
    _kind("slowAnswer", "done at once, answered late", AT_CALL, seconds=30.0),
    _kind("badGateway", "a proxy's 502 with HTML", AT_CALL, worked=False),
    _kind("serverError", "a 500 of Coolify's own", AT_CALL, worked=False),
    # Limits and rights.
    _kind(
        "rateLimited",
        "429, whatever the budget; retryAfter is emulated seconds",
        AT_CALL,
        retryAfter=60.0,
    ),
    _kind("failedCallLimit", "429 after so many failed calls a minute", limit=30.0),
    _kind("apiDisabled", "403: the API is switched off"),
    _kind("addressNotAllowed", "403: not from this address"),
    _kind("tokenExpired", "401 for the right token"),
    _kind("missingAbility", "403: the token lacks an ability", ability=Ability.DEPLOY),
    _kind("hideSensitive", "a token without read:sensitive: values of variables are left out"),
    # Starts.
    _kind("startWithoutUuid", "nothing is started, as if one were queued already", AIMED),
    _kind("phantomUuid", "nothing is started, and the uuid does not exist", AIMED),
    _kind("hangQueued", "the deployment stays queued", AIMED),
    _kind("hangInProgress", "the deployment stays in progress", AIMED),
    _kind("pullFails", "the deployment fails at the pull", AIMED, image=""),
    _kind("pullSlow", "a first pull takes so long", AIMED, image="", seconds=1200.0),
    _kind("registryDown", "every pull fails, of cached images too"),
    _kind("crashLoop", "the container dies soon, again and again", AIMED, seconds=5.0, restarts=10),
    # Stops, cancels, deletes.
    _kind("stopDoesNothing", "200, and the container runs on", AIMED),
    _kind("stopLies", "reported as exited, and the container runs on", AIMED),
    _kind("stopSlow", "the stop takes so long", AIMED, seconds=120.0),
    _kind("cancelLeavesRunning", "cancelled, and the container comes all the same", AIMED),
    _kind("cancelAnswers500", "500, though it worked", AIMED),
    _kind("deleteNeverFinishes", "200, and the application stays", AIMED),
    # What is reported.
    _kind("statusLag", "statuses follow the truth after", minSeconds=0.0, maxSeconds=60.0),
    _kind("reportStatus", "this status, whatever the truth", AIMED, status="degraded:unhealthy"),
    _kind("healthCheckFails", "a health check that never succeeds", AIMED),
    _kind("deploymentsAsObject", "GET /deployments as an object with numeric keys"),
    # The installation.
    _kind("serverUnreachable", "all exited and server_status false; containers run on"),
    _kind("restartCoolify", "open deployments fail, nobody listens for a while", seconds=15.0),
    _kind("versionBefore42", "starts are also accepted as GET"),
)
KINDS = {kind.name: kind for kind in _ALL}
