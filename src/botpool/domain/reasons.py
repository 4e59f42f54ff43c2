"""The reasons of transitions: the texts that history, log and API give for a change.

Code imports a reason from here, and SQL receives it as a parameter, so that history and log agree.
Reasons that depend on values are functions.
"""

from botpool.domain.states import SlotPhase

# Admission and matching.
ACCEPTED = "accepted"
IDLE_SLOT = "an idle slot was free"
NO_FREE_SLOT = "no slot was free"
TENANT_AT_QUOTA = "its tenant is at its quota of live bots"
PACED = "the pace of the pool allows no further start now"
SLOT_BECAME_FREE = "a slot became free"
NEW_SLOT = "the pool grew by a slot"
ASSIGNED = "assigned"
POOL_GREW = "the pool grew"
QUEUE_TIMEOUT = "queue timeout"
QUEUE_TIMEOUT_FAILURE = "The bot got no slot before the queue timeout."

# Scheduled joins.
SCHEDULED = "scheduled"
BOT_DUE = "it is due"
HOLD = "held for bookings"
MOVED = "its join time was changed"
JOIN_TIME_REACHED = "its join time came; its bot sends no reports"
LATE_START = "it has not started, and a usual start takes longer than the time that is left"
POOL_IS_DRAINED = "its pool is drained"
OVERBOOKED = "more bookings overlap than the pool has slots"

# Slots that a pool no longer keeps.
DELETION_REQUESTED = "an operator requested the deletion"
POOL_CHANGED_BACKEND = "the pool has another backend now"
ABOVE_MAXIMUM = "above the pool's maximum"
UNUSED = "without a bot for longer than the pool keeps idle slots"

# Deployment.
CONTAINER_EXISTS = "the container exists"
CONTAINER_CREATED = "the container was created"
CONTAINER_RECREATED = "the container was gone and was created again"
LEADS_PULL = "leads the pull of its image"
IMAGE_PRESENT = "the image is present"
START_ALLOWED = "the start is allowed"
OBSERVED_RUNNING = "observed running"
OBSERVED_EXITED = "observed after its program had ended"
AGENT_CALLED = "its agent called"
STANDBY_WANTED = "the pool keeps slots ready"
PREPARED = "the container exists, and the pool keeps idle slots ready"
STANDBY_NOT_WANTED = "the pool does not keep this standby"
STANDBY_ENDED = "the standby was stopped"
STANDBY_EXITED = "the standby ended"
STANDBY_SILENT = "the agent of the standby does not poll"
ACCEPTED_BY_STANDBY = "the standby accepted the bot"
NOT_ACCEPTED = "the standby did not accept the bot in time"
COLD_AFTER_HANDOVER = "starts cold after the standby did not accept the bot"
DEPLOYMENT_FAILED = "the deployment failed"

# Image rollouts.
ROLLOUT_STARTED = "an operator started a rollout"
FREE_SLOT_FOR_PULL = "a free slot, in which the image is pulled"
BOTS_BEFORE_PULL = "a free slot, in which the image is pulled: bots wait for slots and come first"
STANDBY_BEFORE_PULL = "the stop of a hot slot, in which the image is pulled: no other slot is free"
FREES_SLOT_FOR_PULL = "its slot pulls the image of a rollout"
PULLS_IMAGE = "pulls the image of a rollout"
IMAGE_IS_PULLED = "the pull of the image"
ROLLOUT_IMAGE_PRESENT = "the image is present"
FIRST_BOTS = "the first bots of the new revision"
ROLLOUT_ENDED = "its rollout ended"
SETTINGS_CHANGED_REVISION = "The settings gave the pool another image or other limits."

# Pacing of an egress.
BOT_BLOCKED = "a bot was blocked"
BOTS_BLOCKED = "bots were blocked"
BREAKER_PROBES = "one bot may start, to see whether it is blocked"
PROBE_ADMITTED = "a bot was admitted"

# The end of a bot, and the release of its slot.
REPORTED_BY_AGENT = "reported by the agent"
STOPPED_BY_USER = "stopped by its user"
STOP_CONFIRMED = "the stop was confirmed"
STOP_CAN_BE_CONFIRMED = "its stop can be confirmed again"
BOT_ALREADY_ENDED = "its bot had ended already"
SECOND_BOOT = "its agent started a second time"
AGENT_REPORTED_FAILURE = "The agent reported a failure."
EXITED_AFTER_CALL = "the container exited after the call"
LEFT_WHEN_ASKED = "left when asked"
LEAVE_ACKNOWLEDGED = "its agent is finishing"
LEAVE_SIGNALLED = "its container got the signal to leave"
EXITED_WITH_SUCCESS = "the container exited with code 0"
DID_NOT_LEAVE = "stopped: it did not leave in time"

# Recovery, reset and deletion of slots.
RESET = "reset"
CONTAINER_GONE = "its container is gone"
HEARTBEATS_FRESH = "its heartbeats are fresh"
MASS_SILENCE = "many bots are silent"
SILENCE_ENDED = "most bots send heartbeats again"
NO_MEDIA = "it records nothing"
IDLE_BUT_RUNNING = "its container runs although the slot is idle"


def pull_failed(attempts: int, problem: str | None) -> str:
    """Return why a rollout whose image could not be pulled is rolled back."""
    return f"The new revision could not be pulled and started in {attempts} attempts: {problem}"


def pull_too_slow(limit_s: float) -> str:
    """Return why the start of a rollout's image is given up."""
    return f"the image was not pulled and started within {limit_s:g} s"


def promoted_by(name: str) -> str:
    return f"Promoted by {name}."


def rolled_back_by(name: str) -> str:
    return f"Rolled back by {name}."


def node_unreachable(node: str) -> str:
    """Return why the stop of a container on an unreachable node cannot be confirmed."""
    return f"node {node} is unreachable"


def stop_overdue(limit_s: float) -> str:
    """Return why a stop is unconfirmed that had more time than any stop needs."""
    return f"its container has not stopped for more than {limit_s:g} s"


def released_by_force(key_name: str, unconfirmed: str) -> str:
    """Return the reason for a slot that an operator released before its stop was confirmed."""
    return f"released by force by {key_name}, without a confirmed stop: {unconfirmed}"


def stopped_by_key(key_name: str) -> str:
    """Return the reason for a bot that another key than its creator's has stopped."""
    return f"stopped by key '{key_name}'"


def adopted_from(slot_name: str) -> str:
    """Return the reason for a slot whose container another system created."""
    return f"adopted from Meeboter's slot {slot_name}"


def waited_too_long(phase: SlotPhase, limit_s: float) -> str:
    """Return the reason for giving up a deployment that waited at the image gate."""
    return f"{phase.replace('_', ' ')} for more than {limit_s:g} s"


def container_exited(detail: str, output: str = "") -> str:
    """Return the failure reason of a bot whose container exited before the bot's end.

    `output` has the last lines of the container's output.
    """
    reason = f"The container exited unexpectedly: {detail}."
    return f"{reason} Last output:\n{output}" if output else reason


def not_finished(finish_timeout_s: float, last_progress: str | None) -> str:
    """Return the failure reason of a bot that did not finish after its call."""
    known = f"Last progress: {last_progress}." if last_progress else "It reported no progress."
    return f"The bot did not finish, and made no progress for {finish_timeout_s:g} s. {known}"


def max_duration_exceeded(max_duration_s: float) -> str:
    """Return the failure reason of a bot that ran longer than `bots.max_duration_s`."""
    return f"The bot ran longer than the maximum of {max_duration_s:g} s."


def unexpected_error(error: Exception) -> str:
    """Return the reason for giving up a deployment after an error that no code handles."""
    return f"an unexpected {type(error).__name__}: see the log"


def resets_failed(resets: int, problem: str | None) -> str:
    """Return the reason for deleting a slot that resets did not repair."""
    return f"{resets} resets did not help: {problem}"


def container_does_not_stop(problem: str) -> str:
    """Return the reason for deleting a slot whose container does not stop."""
    return f"its container does not stop: {problem}"


def taken_by_operator(command: str) -> str:
    """Return the failure reason of a bot whose slot an operator released, recovered or deleted."""
    return f"The slot was {command}."


def not_running_after_start(limit_s: float) -> str:
    """Return the reason for giving up a deployment that neither runs nor makes progress."""
    return f"not running {limit_s / 60:g} min after its start, and no deployment is active"


def no_heartbeat(limit_s: float) -> str:
    """Return the failure reason of a bot whose heartbeats stopped."""
    return f"No heartbeat for more than {limit_s:g} s."
