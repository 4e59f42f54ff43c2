"""Counters and timings of engine events.

Each method adds to Prometheus metrics in memory after a commit and never queries the database;
`metrics_export` reads the figures that come from the database when `/metrics` is scraped.
"""

from collections.abc import Callable, Iterable

from botpool.backends.protocol import Health
from botpool.domain.bookings import ON_TIME_S
from botpool.domain.bots import Bot
from botpool.domain.states import BotStatus, FailureCode, SlotPhase
from botpool.engine.observability.metric_definitions import MetricDefinitions


class Metrics:
    """Counts and times events of one replica."""

    def __init__(self) -> None:
        self.instruments = MetricDefinitions()

    def watch(
        self,
        *,
        steps_under_way: Callable[[], float],
        listening: Callable[[], float],
        database_epoch: Callable[[], float],
    ) -> None:
        """Register functions that `/metrics` calls for the current values."""
        self.instruments.steps_under_way.set_function(steps_under_way)
        self.instruments.listening.set_function(listening)
        self.instruments.database_epoch.set_function(database_epoch)

    def watch_listener(
        self, *, connections: Callable[[], float], answers: Callable[[], float]
    ) -> None:
        """Register functions of the HTTP server that `/metrics` calls for the current values."""
        self.instruments.connections.set_function(connections)
        self.instruments.listener_answers.set_function(answers)

    def connection_closed(self, reason: str) -> None:
        """Count a connection that a limit or deadline ended."""
        self.instruments.connections_closed.labels(reason).inc()

    def request_refused(self, limit: str) -> None:
        """Count a request that got no answer because too many were in progress."""
        self.instruments.requests_refused.labels(limit).inc()

    def claimed(self, pool: str, *, warm: int, cold: int) -> None:
        """Count bots that one statement admitted to idle slots."""
        for start, count in (("warm", warm), ("cold", cold)):
            if count:
                self.instruments.admissions.labels(pool, start).inc(count)
                self.instruments.assignments.labels(pool, start).inc(count)

    def admitted(self, bot: Bot) -> None:
        """Count a bot that was admitted through the queue; the match counts its assignment."""
        queued = bot.status is BotStatus.QUEUED
        outcome = "queued" if queued else _start_label(warm=bot.container_id is not None)
        self.instruments.admissions.labels(bot.pool_name, outcome).inc()

    def replayed(self, pool: str) -> None:
        self.instruments.admissions.labels(pool, "replayed").inc()

    def refused(self, pool: str) -> None:
        self.instruments.admissions.labels(pool, "refused").inc()

    def scheduled(self, pool: str, *, reserved: bool) -> None:
        """Count a scheduled bot."""
        self.instruments.admissions.labels(pool, "reserved" if reserved else "scheduled").inc()

    def at_risk(self, pool: str) -> None:
        """Count a scheduled bot that will probably be late."""
        self.instruments.at_risk.labels(pool).inc()

    def joined(self, pool: str, *, late_s: float, probability: float | None) -> None:
        """Count a scheduled bot that joined, and the score of its prediction."""
        on_time = late_s <= ON_TIME_S
        self.instruments.scheduled_joins.labels(pool, "on_time" if on_time else "late").inc()
        self.instruments.join_delay.labels(pool).observe(max(late_s, 0.0))
        if probability is not None:
            self.instruments.predicted_on_time.labels(pool).inc(probability)
            self.instruments.prediction_error.labels(pool).inc((probability - on_time) ** 2)

    def limit_exceeded(self, limit: str) -> None:
        """Count a refusal; `limit` is the name of a setting."""
        self.instruments.limit_refusals.labels(limit).inc()

    def authentication_failed(self, kind: str) -> None:
        """Count a request without valid credentials."""
        self.instruments.authentication_failures.labels(kind).inc()

    def assigned(self, pool: str, *, warm: bool) -> None:
        self.instruments.assignments.labels(pool, _start_label(warm=warm)).inc()

    def running(self, pool: str, *, warm: bool, after_s: float) -> None:
        self.instruments.time_to_running.labels(pool, _start_label(warm=warm)).observe(after_s)

    def phase_passed(self, pool: str, phase: SlotPhase, *, after_s: float) -> None:
        self.instruments.deploy_phase.labels(pool, phase).observe(after_s)

    def bots_ended(
        self, pool: str, status: BotStatus, code: FailureCode | None = None, *, bots: int = 1
    ) -> None:
        self.instruments.bots_ended.labels(pool, status, code or "none").inc(bots)

    def bot_retried(self, pool: str, cause: str) -> None:
        """Count a bot that is queued again; `cause` is `deployment` or `infrastructure`."""
        self.instruments.bot_retries.labels(pool, cause).inc()

    def released(self, pool: str, *, after_s: Iterable[float]) -> None:
        release = self.instruments.release.labels(pool)
        for seconds in after_s:
            release.observe(seconds)

    def handed_over(self, pool: str, *, after_s: Iterable[float]) -> None:
        hand_over = self.instruments.hand_over.labels(pool)
        for seconds in after_s:
            hand_over.observe(seconds)

    def hot_handover(self, pool: str, *, accepted: bool, after_s: float | None = None) -> None:
        """Count a bot that a standby accepted, or that starts cold because it did not."""
        outcome = "accepted" if accepted else "cold"
        self.instruments.hot_handovers.labels(pool, outcome).inc()
        if after_s is not None:
            self.instruments.hot_handover_time.labels(pool).observe(after_s)

    def rollout_ended(self, pool: str, outcome: str) -> None:
        """Count a rollout that was promoted or rolled back."""
        self.instruments.rollouts_ended.labels(pool, outcome).inc()

    def heartbeat(self, *, should_leave: bool, should_exit: bool) -> None:
        instruction = "exit" if should_exit else "leave" if should_leave else "go_on"
        self.instruments.heartbeats.labels(instruction).inc()

    def recovered(self, reason: str) -> None:
        """Count a recovery; `reason` is one of a fixed set, because each value is a time series."""
        self.instruments.recoveries.labels(reason).inc()

    def fenced(self, wanted: str) -> None:
        self.instruments.fenced_writes.labels(wanted).inc()

    def webhook_attempted(self, outcome: str) -> None:
        self.instruments.webhook_attempts.labels(outcome).inc()

    def spans_ended(self, outcome: str, count: int) -> None:
        self.instruments.trace_spans.labels(outcome).inc(count)

    def webhook_disabled(self) -> None:
        self.instruments.webhooks_disabled.inc()

    def clock_jumped(self, *, forward: bool) -> None:
        self.instruments.clock_jumps.labels("forward" if forward else "back").inc()

    def round_lost(self, loop: str) -> None:
        self.instruments.lost_rounds.labels(loop).inc()

    def round_finished(self, loop: str) -> None:
        self.instruments.last_round.labels(loop).set_to_current_time()

    def heartbeats_written(self, at: float) -> None:
        self.instruments.heartbeats_written.set(at)

    def backend_called(self, backend: str, call: str, outcome: str, *, after_s: float) -> None:
        self.instruments.backend_calls.labels(backend, call, outcome).inc()
        self.instruments.backend_call_seconds.labels(backend, call).observe(after_s)

    def unknown_status(self, backend: str) -> None:
        self.instruments.unknown_statuses.labels(backend).inc()

    def backend_checked(self, backend: str, health: Health) -> None:
        self.instruments.backend_healthy.labels(backend).set(health.ok)


def _start_label(*, warm: bool) -> str:
    return "warm" if warm else "cold"
