"""The definitions of all metrics: name, help text and labels.

Labels name pools, states, backends, calls and reasons, which are bounded sets. No id is a label.
`scripts/metrics-reference` writes `docs/reference/metrics.md` from here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from botpool import __version__

# From a warm process to the 25 minutes after which a start fails.
_START_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 120, 240, 420, 600, 900, 1500)
# A release ends with the confirmed stop, which a backend may show at once or with a lag.
_RELEASE_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 90, 120, 300, 600)
_JOIN_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
_CALL_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDescription:
    """The description of a metric, for the docs."""

    name: str
    kind: str
    labels: Sequence[str]
    text: str


class MetricDefinitions:
    """All metrics, in one registry per replica, so that replicas in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.described: list[MetricDescription] = []
        self._declare_pools()
        self._declare_bots()
        self._declare_rollouts()
        self._declare_slots()
        self._declare_backends()
        self._declare_replica()
        self._declare_listener()

    def _declare_pools(self) -> None:
        """Define the metrics of pools, which come from the database."""
        gauge = self._gauge
        self.slots = gauge("slots", "Slots of a pool, by status.", "pool", "status")
        self.slots_assignable = gauge(
            "slots_assignable", "Slots that can be assigned now: idle and not cordoned.", "pool"
        )
        self.unconfirmed_stops = gauge(
            "unconfirmed_stops",
            "Releasing slots whose stop cannot be confirmed, for example because the node of the "
            "container is unreachable. No bot gets such a slot.",
            "pool",
        )
        self.pool_max_slots = gauge(
            "pool_max_slots", "The maximum number of slots of the pool.", "pool"
        )
        self.queue_depth = gauge("queue_depth", "Bots in the queue.", "pool")
        self.queue_oldest_wait = gauge(
            "queue_oldest_wait_seconds",
            "How long the oldest bot in the queue has waited; 0 if the queue is empty.",
            "pool",
        )
        self.bots_stalled = gauge(
            "bots_stalled",
            "Bots in the call that are alive but record nothing for `stalled_after_s`.",
            "pool",
        )
        self.mass_silence = gauge(
            "mass_silence",
            "1 while most bots of the pool send no heartbeats, which Botpool itself may cause.",
            "pool",
        )
        self.warm_target = gauge(
            "warm_slots_target",
            "Slots that a pool should have ready now, by floor: `hot` or `idle`. Only pools that "
            "keep slots ready have this metric.",
            "pool",
            "floor",
        )
        self.warm_ready = gauge(
            "warm_slots_ready",
            "Slots that a pool has ready, by floor: `hot` (the container waits for a bot) or "
            "`idle` (container and image are present; hot slots included). A floor is missed "
            "while this is below `warm_slots_target`.",
            "pool",
            "floor",
        )
        self.egress_paused = gauge(
            "egress_paused",
            "1 while the circuit breaker of the egress is open or half open, because bots were "
            "blocked: no bot starts, or one.",
            "egress",
        )
        self.egress_pace = gauge(
            "egress_starts_per_minute",
            "Starts per minute that the egress allows now; lower than configured after blocks.",
            "egress",
        )
        self.webhook_oldest_pending = gauge(
            "webhook_oldest_pending_seconds",
            "Age of the oldest event that an enabled webhook has not received yet; 0 if none is "
            "pending.",
        )
        self.database_reachable = gauge(
            "database_reachable",
            "1 if the database answered the last read of the pool metrics; otherwise 0, and the "
            "pool metrics are absent.",
        )

    def _declare_bots(self) -> None:
        counter = self._counter
        self.admissions = counter(
            "admissions_total",
            "Requests for a bot: `warm`, `cold`, `queued`, `refused` (no free slot and "
            "no queueing, pool drained, shutting down), `replayed` (by idempotency key), "
            "`reserved` or `scheduled` (for a join time, with and without a reservation).",
            "pool",
            "outcome",
        )
        self.limit_refusals = counter(
            "limit_refusals_total",
            "Requests that were refused because of a limit, by the setting of the limit.",
            "limit",
        )
        self.assignments = counter(
            "assignments_total",
            "Bots assigned to a slot: `warm` if the slot had a container, else `cold`.",
            "pool",
            "start",
        )
        self.bots_ended = counter(
            "bots_ended_total",
            "Bots that reached a final status; `code` is the failure code or `none`.",
            "pool",
            "status",
            "code",
        )
        self.bot_retries = counter(
            "bot_retries_total",
            "Bots that were queued again: after a failed `deployment`, or after an "
            "`infrastructure` fault such as an eviction, which is no attempt of the bot.",
            "pool",
            "cause",
        )
        self.heartbeats = counter(
            "heartbeats_total",
            "Heartbeats of agents, by the instruction in the response: `go_on`, `leave`, `exit`.",
            "instruction",
        )

        self.scheduled_joins = counter(
            "scheduled_joins_total",
            "Scheduled bots that joined: `on_time` (at most 5 s after the join time) or `late`.",
            "pool",
            "outcome",
        )
        self.join_delay = self._histogram(
            "join_delay_seconds",
            "Time from the join time of a scheduled bot until it joined.",
            _JOIN_S,
            "pool",
        )
        self.predicted_on_time = counter(
            "predicted_on_time_total",
            "Sum of the predicted probabilities of scheduled bots that joined: compare it with "
            "`scheduled_joins_total` of the outcome `on_time`.",
            "pool",
        )
        self.prediction_error = counter(
            "prediction_squared_error_total",
            "Sum of the squared differences between prediction and outcome; divided by "
            "`scheduled_joins_total` it is the Brier score, 0 at best.",
            "pool",
        )
        self.at_risk = counter(
            "bots_at_risk_total", "Scheduled bots that would probably be late.", "pool"
        )

    def _declare_rollouts(self) -> None:
        self.rollout_bots = self._gauge(
            "rollout_assignments",
            "Assignments of the canary of a pool's rollout, by revision: `old` or `new`.",
            "pool",
            "revision",
        )
        self.rollout_sureness = self._gauge(
            "rollout_sureness",
            "How sure the last comparison of a rollout is that the new revision is not worse, "
            "from 0 to 1. Botpool promotes at 0.95.",
            "pool",
        )
        self.rollouts_ended = self._counter(
            "rollouts_ended_total",
            "Rollouts that this replica ended: `promoted` or `rolled_back`.",
            "pool",
            "outcome",
        )

    def _declare_slots(self) -> None:
        histogram = self._histogram
        self.time_to_running = histogram(
            "time_to_running_seconds",
            "Time from the assignment until the container was known to run.",
            _START_S,
            "pool",
            "start",
        )
        self.deploy_phase = histogram(
            "deploy_phase_seconds",
            "Duration of each completed phase of a deployment: `creating`, `waiting_for_image`, "
            "`waiting_for_start`, `starting`.",
            _START_S,
            "pool",
            "phase",
        )
        self.release = histogram(
            "release_seconds",
            "Time from the end of a bot until its slot was free, after the confirmed stop.",
            _RELEASE_S,
            "pool",
        )
        self.hand_over = histogram(
            "hand_over_seconds",
            "Time from the end of a bot until its slot was assigned to the next queued bot.",
            _RELEASE_S,
            "pool",
        )
        self.hot_handovers = self._counter(
            "hot_handovers_total",
            "Bots that got a standby, by outcome: `accepted`, or `cold` if the standby did not "
            "accept the bot in time, so that the bot started in a new container.",
            "pool",
            "outcome",
        )
        self.hot_handover_time = histogram(
            "hot_handover_seconds",
            "Time from the assignment of a bot until its standby accepted it.",
            _CALL_S,
            "pool",
        )
        self.recoveries = self._counter(
            "recoveries_total", "Actions of recovery on slots, by action.", "reason"
        )

    def _declare_backends(self) -> None:
        self.backend_calls = self._counter(
            "backend_calls_total",
            "Calls to a backend: `ok`, `gone`, `refused`, `superseded`, `budget` (exhausted), "
            "`still_running`, `unavailable` (also after a timeout) or `error`.",
            "backend",
            "call",
            "outcome",
        )
        self.backend_call_seconds = self._histogram(
            "backend_call_seconds", "Duration of calls to a backend.", _CALL_S, "backend", "call"
        )
        self.unknown_statuses = self._counter(
            "backend_unknown_statuses_total",
            "Observations that showed a status that Botpool does not know.",
            "backend",
        )
        self.backend_healthy = self._gauge(
            "backend_healthy", "1 if the last health check of the backend succeeded.", "backend"
        )

    def _declare_replica(self) -> None:
        self.steps_under_way = self._gauge(
            "steps_under_way", "Slots that this replica has leased and works on."
        )
        self.listening = self._gauge(
            "listening", "1 while this replica receives wake-ups; 0 while it only polls."
        )
        self.database_epoch = self._gauge(
            "database_epoch",
            "The database's epoch: 1, and one more after each restore, promotion or copy.",
        )
        self.webhook_attempts = self._counter(
            "webhook_attempts_total",
            "Requests to webhooks: `delivered`, `retried` (another attempt follows) or `failed`.",
            "outcome",
        )
        self.trace_spans = self._counter(
            "trace_spans_total",
            "Spans of bots: `sent`, `failed` (not taken by the collector, and sent again) or "
            "`dropped` (too old).",
            "outcome",
        )
        self.webhooks_disabled = self._counter(
            "webhooks_disabled_total",
            "Webhooks that this replica disabled: they answered 410, or failed for five days.",
        )
        self.clock_jumps = self._counter(
            "clock_jumps_total",
            "Jumps of the database's clock that this replica noticed: `forward` or `back`.",
            "direction",
        )
        self.authentication_failures = self._counter(
            "authentication_failures_total",
            "Requests that were refused with 401, by what they sent: a wrong `key`, `session` or "
            "agent's `token`, or nothing (`missing`).",
            "kind",
        )
        self.fenced_writes = self._counter(
            "fenced_writes_total",
            "Fenced writes that changed nothing, by intended change.",
            "wanted",
        )
        self.lost_rounds = self._counter(
            "database_unavailable_rounds_total",
            "Rounds of background loops that failed because the database did not answer.",
            "loop",
        )
        self.open_transactions = self._gauge(
            "database_open_transaction_seconds",
            "Age of each transaction, in any database of the server, that holds back the stream of "
            "changes and has been open for five seconds; NaN if this user may not see the age.",
            "kind",
            "pid",
            "database",
            "application",
        )
        self.last_round = self._gauge(
            "loop_last_round_timestamp_seconds",
            "When each background loop last finished a round.",
            "loop",
        )
        self.heartbeats_written = self._gauge(
            "heartbeats_last_written_timestamp_seconds",
            "When this replica last wrote heartbeats; 0 before the first.",
        )
        build_info = self._gauge(
            "build_info", "Always 1; the label is the version of this replica.", "version"
        )
        build_info.labels(__version__).set(1)

    def _declare_listener(self) -> None:
        self.connections = self._gauge("connections", "Open connections of the HTTP server.")
        self.connections_closed = self._counter(
            "connections_closed_total",
            "Connections that a deadline (`first_byte`, `head`, `body`, `response`) or a limit "
            "closed: `address` (too many from one address), `room` (made room for another), `full` "
            "(refused, because all others had requests in progress).",
            "reason",
        )
        self.requests_refused = self._counter(
            "requests_refused_total",
            "Requests refused because too many were in progress: on this replica (`connections`), "
            "from one address (`address`) or of one agent (`agent`).",
            "limit",
        )
        self.listener_answers = self._gauge(
            "listener_answers",
            "1 if the HTTP server accepted and answered the replica's last check of itself. Time "
            "in which it is 0 does not count as silence of bots.",
        )
        self.listener_answers.set(1)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        name = self._describe(name, "counter", text, labels)
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        name = self._describe(name, "gauge", text, labels)
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        name = self._describe(name, "histogram", text, labels)
        return Histogram(name, text, labels, registry=self.registry, buckets=buckets)

    def _describe(self, name: str, kind: str, text: str, labels: Sequence[str]) -> str:
        name = f"botpool_{name}"
        self.described.append(MetricDescription(name=name, kind=kind, labels=labels, text=text))
        return name
