"""Every metric of a replica: its name, what it tells, and its labels, stated once.

Labels name pools, states, backends, calls and reasons: sets that the settings and the code bound.
No id is ever a label. `docs/reference/metrics.md` is written from here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from botpool import __version__

# From a warm process to the 25 minutes after which a start has failed.
_START_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 120, 240, 420, 600, 900, 1500)
# A release is a stop and its confirmation: at once, or when a lagging backend shows it.
_RELEASE_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 90, 120, 300, 600)
_CALL_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """An instrument as its reader knows it."""

    name: str
    kind: str
    labels: Sequence[str]
    text: str


class MetricDefinitions:
    """A registry of its own: two replicas in one process do not count for each other."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.described: list[Described] = []
        self._declare_pools()
        self._declare_bots()
        self._declare_slots()
        self._declare_backends()
        self._declare_replica()

    def _declare_pools(self) -> None:
        """The state of all replicas together, as the database has it."""
        gauge = self._gauge
        self.slots = gauge("slots", "Slots of a pool, by status.", "pool", "status")
        self.slots_assignable = gauge(
            "slots_assignable", "Slots that a bot could have now: idle and not cordoned.", "pool"
        )
        self.pool_max_slots = gauge("pool_max_slots", "How many slots the pool may have.", "pool")
        self.queue_depth = gauge("queue_depth", "Bots that wait for a slot.", "pool")
        self.queue_oldest_wait = gauge(
            "queue_oldest_wait_seconds",
            "How long the bot has waited that waits longest; 0 while nobody does.",
            "pool",
        )
        self.database_reachable = gauge(
            "database_reachable",
            "1 if the database answered when the figures of the pools were read; "
            "else there are none.",
        )

    def _declare_bots(self) -> None:
        counter = self._counter
        self.admissions = counter(
            "admissions_total",
            "Requests for a bot: `warm`, `cold`, `queued`, `refused` (no slot and no wish to "
            "queue, pool drained, shutting down) or `replayed` (by their idempotency key).",
            "pool",
            "outcome",
        )
        self.assignments = counter(
            "assignments_total",
            "Bots given to a slot: `warm` if it had its container already, else `cold`.",
            "pool",
            "start",
        )
        self.bots_ended = counter(
            "bots_ended_total",
            "Bots that came to their final status; `code` is why they failed, or `none`.",
            "pool",
            "status",
            "code",
        )
        self.heartbeats = counter(
            "heartbeats_total",
            "Heartbeats of agents, by what they were told: `go_on`, `leave`, `exit`.",
            "told",
        )

    def _declare_slots(self) -> None:
        histogram = self._histogram
        self.time_to_running = histogram(
            "time_to_running_seconds",
            "From the assignment until the container was known to run.",
            _START_S,
            "pool",
            "start",
        )
        self.deploy_phase = histogram(
            "deploy_phase_seconds",
            "How long a phase of deploying took that was passed: `creating`, `waiting_for_image`, "
            "`waiting_for_start`, `starting`.",
            _START_S,
            "pool",
            "phase",
        )
        self.release = histogram(
            "release_seconds",
            "From the end of a bot until its slot was free: the stop was confirmed.",
            _RELEASE_S,
            "pool",
        )
        self.hand_over = histogram(
            "hand_over_seconds",
            "From the end of a bot until its slot had the next one from the queue.",
            _RELEASE_S,
            "pool",
        )
        self.recoveries = self._counter(
            "recoveries_total", "What recovery did to slots, by reason.", "reason"
        )

    def _declare_backends(self) -> None:
        self.backend_calls = self._counter(
            "backend_calls_total",
            "Calls to a backend: `ok`, `gone`, `refused`, `superseded`, `budget` (spent), "
            "`still_running`, `unavailable` (also when broken off at its timeout) or `error`.",
            "backend",
            "call",
            "outcome",
        )
        self.backend_call_seconds = self._histogram(
            "backend_call_seconds", "How long a call to a backend took.", _CALL_S, "backend", "call"
        )
        self.backend_healthy = self._gauge(
            "backend_healthy", "1 if the backend's last check found it well.", "backend"
        )

    def _declare_replica(self) -> None:
        self.steps_under_way = self._gauge(
            "steps_under_way", "Slots under lease here, whose step is being made."
        )
        self.listening = self._gauge(
            "listening", "1 while the other replicas' wake-ups are heard; 0: work is polled for."
        )
        self.fenced_writes = self._counter(
            "fenced_writes_total",
            "Writes that came too late and changed nothing, by what was wanted.",
            "wanted",
        )
        self.lost_rounds = self._counter(
            "database_unavailable_rounds_total",
            "Rounds of background work that ended because the database did not answer.",
            "loop",
        )
        build_info = self._gauge("build_info", "1; the version that runs here.", "version")
        build_info.labels(__version__).set(1)

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
        self.described.append(Described(name=name, kind=kind, labels=labels, text=text))
        return name
