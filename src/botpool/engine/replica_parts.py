"""Builds the parts of the engine that one replica consists of."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from botpool.backends.protocol import Backend
from botpool.domain.container_template import ContainerTemplate
from botpool.domain.policy import Policy
from botpool.engine.admission.admission import Admission
from botpool.engine.admission.bookings import Bookings
from botpool.engine.admission.due_bots import DueBots
from botpool.engine.admission.estimates import Estimates
from botpool.engine.admission.matcher import Matcher
from botpool.engine.admission.quotas import Quotas
from botpool.engine.admission.schedule_queries import ScheduleQueries
from botpool.engine.agents.accepts import Accepts
from botpool.engine.agents.agent_data import AgentData
from botpool.engine.agents.agents import Agents
from botpool.engine.agents.bot_commands import BotCommands
from botpool.engine.agents.event_refusals import EventRefusals
from botpool.engine.agents.heartbeats import Heartbeats
from botpool.engine.agents.standby_polls import StandbyPolls
from botpool.engine.api_keys import ApiKeys
from botpool.engine.bot_data_queries import BotDataQueries
from botpool.engine.dashboard_sessions import DashboardSessions
from botpool.engine.lifecycle.bot_endings import BotEndings
from botpool.engine.lifecycle.change_watcher import ChangeWatcher
from botpool.engine.lifecycle.container_environment import ContainerEnvironment
from botpool.engine.lifecycle.deployment import Deployer
from botpool.engine.lifecycle.deployment_outcome import DeploymentOutcome
from botpool.engine.lifecycle.descriptions import Describer
from botpool.engine.lifecycle.exited_runs import ExitedRuns
from botpool.engine.lifecycle.image_digests import ImageDigests
from botpool.engine.lifecycle.image_gate import ImageGate
from botpool.engine.lifecycle.image_pulls import ImagePulls
from botpool.engine.lifecycle.last_output import LastOutput
from botpool.engine.lifecycle.observer import Observer
from botpool.engine.lifecycle.output_keeper import OutputKeeper
from botpool.engine.lifecycle.pacing import PacingControl
from botpool.engine.lifecycle.queue_poller import QueuePoller
from botpool.engine.lifecycle.reconciler import Reconciler
from botpool.engine.lifecycle.release import Releaser, StopGrace
from botpool.engine.lifecycle.reset import Resetter
from botpool.engine.lifecycle.revision_choice import RevisionChoice
from botpool.engine.lifecycle.running_bots import RunningBots
from botpool.engine.lifecycle.shutdown import Shutdown
from botpool.engine.lifecycle.slot_deletion import SlotDeletion
from botpool.engine.lifecycle.slot_handover import SlotHandover
from botpool.engine.lifecycle.slot_preparation import SlotPreparer
from botpool.engine.lifecycle.slot_steps import SlotSteps
from botpool.engine.lifecycle.standby_keeper import StandbyKeeper
from botpool.engine.lifecycle.stop_bot import BotStopper
from botpool.engine.lifecycle.unconfirmed_stops import UnconfirmedStops
from botpool.engine.maintenance.cleanup import Cleanup
from botpool.engine.maintenance.error_resets import ErrorResets
from botpool.engine.maintenance.liveness import Liveness
from botpool.engine.maintenance.recovery import Recovery
from botpool.engine.maintenance.recovery_actions import RecoveryActions
from botpool.engine.maintenance.rescheduling import Rescheduling
from botpool.engine.maintenance.silence_alarms import SilenceAlarms
from botpool.engine.maintenance.vacuum import Vacuum
from botpool.engine.observability.failed_authentication import FailedAuthentication
from botpool.engine.observability.instrumented_backend import InstrumentedBackend
from botpool.engine.observability.metrics import Metrics
from botpool.engine.observability.metrics_export import MetricsExport
from botpool.engine.observability.pool_samples import PoolSamples
from botpool.engine.observability.readiness import Readiness
from botpool.engine.operations.forced_release import ForcedRelease
from botpool.engine.operations.pool_commands import PoolCommands
from botpool.engine.operations.slot_commands import SlotCommands
from botpool.engine.plans import Plans
from botpool.engine.queries import Queries
from botpool.engine.rollouts.commands import RolloutCommands
from botpool.engine.rollouts.controller import RolloutController
from botpool.engine.rollouts.rollout_ending import RolloutEnding
from botpool.engine.runtime.clock_watch import ClockWatch
from botpool.engine.runtime.epoch_watch import EpochWatch
from botpool.engine.runtime.token_buckets import TokenBuckets
from botpool.engine.runtime.wakeups import Wakeups
from botpool.engine.service import Shared
from botpool.engine.stream.changes import ChangeStream
from botpool.engine.tenants import Tenants
from botpool.engine.webhooks.commands import WebhookCommands
from botpool.engine.webhooks.dispatcher import Dispatcher
from botpool.engine.webhooks.outbox import Outbox
from botpool.engine.webhooks.sender import Sender
from botpool.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The name of this replica, the address that its containers call, and its agents' keys."""

    owner: str
    public_url: str
    agent_keys: tuple[bytes, ...] = field(repr=False)
    """Keys of agents' tokens: the first signs new tokens, and all are accepted."""
    webhook_keys: tuple[bytes, ...] = field(default=(), repr=False)
    """Keys that encrypt the secrets of webhooks: the first encrypts, and all decrypt."""
    standby_keys: tuple[bytes, ...] = field(default=(b"",), repr=False)
    """Keys of standbys' tokens, likewise."""


class ReplicaParts:
    """The services of one control plane, without its background loops."""

    def __init__(
        self,
        database: Database,
        backends: Mapping[str, Backend],
        policy: Policy,
        identity: Identity,
        templates: Mapping[str, ContainerTemplate] | None = None,
    ) -> None:
        self.policy = policy
        self.identity = identity
        self._templates = templates or {}
        self.database = database
        self.metrics = Metrics()
        self._backends: Mapping[str, Backend] = {
            name: InstrumentedBackend(backend, self.metrics) for name, backend in backends.items()
        }
        self.wakeups = Wakeups(database, owner=identity.owner)
        self._wake_recovery = asyncio.Event()
        self.epoch_watch = EpochWatch(database, on_new_epoch=self._wake_recovery.set)
        self.clock_watch = ClockWatch(database, on_jump=self._clock_jumped)
        self._shared = Shared(
            database=database,
            policy=policy,
            wakeups=self.wakeups,
            metrics=self.metrics,
            backends=self._backends,
        )
        self._build_observability()
        self._build_liveness()
        self._build_admission()
        self._build_lifecycle()
        self._build_reconciler()
        self._build_maintenance()
        self._build_operations()

    def _build_observability(self) -> None:
        self.metrics_export = MetricsExport(
            self.database, self.metrics, floors=lambda: self.standby_keeper.floors()
        )
        self.readiness = Readiness(self.database, self._backends, self.wakeups)
        self.pool_samples = PoolSamples(database=self.database)
        self.failed_authentication = FailedAuthentication(self.database, self.metrics)

    def _build_liveness(self) -> None:
        self.heartbeats = Heartbeats(self.database, on_written=self.metrics.heartbeats_written)
        self.liveness = Liveness(
            self.database,
            replica=self.identity.owner,
            public_url=self.identity.public_url,
            freshness_s=self.policy.recovery.heartbeat_freshness_s,
            heartbeats_work=lambda: self.heartbeats.works,
            check_heartbeats=self.heartbeats.check,
        )

    def _build_admission(self) -> None:
        self.matcher = Matcher(self.database, self.wakeups, self.metrics)
        self.quotas = Quotas(self.database)
        self.estimates = Estimates(self.database)
        self.admission = Admission(
            self.database, self.wakeups, self.matcher, self.estimates, self.policy, self.metrics
        )
        self.due_bots = DueBots(**self._shared, matcher=self.matcher)
        self.bookings = Bookings(
            **self._shared, admission=self.admission, matcher=self.matcher, due_bots=self.due_bots
        )

    def _build_lifecycle(self) -> None:
        """Build the parts that several packages use, and what ends bots."""
        shared = self._shared
        self.image_gate = ImageGate(**shared)
        self.outcome = DeploymentOutcome(**shared, image_gate=self.image_gate)
        self.slot_deletion = SlotDeletion(**shared)
        self.pacing = PacingControl(**shared)
        self.bot_endings = BotEndings(self.database, self.wakeups, self.metrics, self.pacing)
        self.bot_stopper = BotStopper(
            **shared, admission=self.admission, bot_endings=self.bot_endings
        )
        self._stop_grace = StopGrace()
        self.standby_keeper = StandbyKeeper(**shared)
        self.shutdown = Shutdown(
            **shared,
            admission=self.admission,
            bot_endings=self.bot_endings,
            stop_grace=self._stop_grace,
            standby_keeper=self.standby_keeper,
        )
        self.queue_poller = QueuePoller(
            **shared, matcher=self.matcher, quotas=self.quotas, image_gate=self.image_gate
        )
        self.describer = Describer(**shared)

    def _build_reconciler(self) -> None:
        """Build the reconciler and the observer, with the steps that both run."""
        shared, identity = self._shared, self.identity
        steps = SlotSteps(**shared, owner=identity.owner)
        environment = ContainerEnvironment(
            public_url=identity.public_url,
            agent_key=identity.agent_keys[0],
            standby_key=identity.standby_keys[0],
            templates=self._templates,
            self_fence_s=self.policy.self_fence_s,
            traces=self.policy.traces,
        )
        self._environment = environment
        self.handover = SlotHandover(
            self.database,
            self.matcher,
            self.wakeups,
            self.metrics,
            max_attempts=self.policy.deploy_attempts,
            max_infrastructure_retries=self.policy.infrastructure_retries,
        )
        self.releaser = Releaser(
            **shared,
            steps=steps,
            handover=self.handover,
            image_gate=self.image_gate,
            output_keeper=OutputKeeper(**shared, mask=environment.mask_output),
            unconfirmed_stops=UnconfirmedStops(**shared),
            stop_grace=self._stop_grace,
        )
        self.exited_runs = ExitedRuns(**shared, bot_endings=self.bot_endings)
        self.observer = Observer(
            **shared,
            exited_runs=self.exited_runs,
            outcome=self.outcome,
            releaser=self.releaser,
            epoch_watch=self.epoch_watch,
            last_output=LastOutput(**shared, environment=environment),
            image_pulls=ImagePulls(**shared, image_gate=self.image_gate),
        )
        self.change_watcher = ChangeWatcher(self.observer, retry_s=self.policy.queue_poll_s)
        image_digests = ImageDigests(**shared)
        deployer = Deployer(
            **shared,
            steps=steps,
            outcome=self.outcome,
            observer=self.observer,
            image_gate=self.image_gate,
            image_digests=image_digests,
            revision_choice=RevisionChoice(**shared),
            environment=environment,
            on_refusal=self.readiness.expire_health,
        )
        resetter = Resetter(
            **shared, steps=steps, deletion=self.slot_deletion, matcher=self.matcher
        )
        self.reconciler = Reconciler(
            **shared,
            steps=steps,
            deployer=deployer,
            releaser=self.releaser,
            resetter=resetter,
            preparer=SlotPreparer(**shared, steps=steps, image_digests=image_digests),
            running_bots=RunningBots(
                **shared,
                steps=steps,
                bot_endings=self.bot_endings,
                last_gap_end=self.liveness.record,
            ),
        )
        self.metrics.watch(
            steps_under_way=lambda: len(self.reconciler.under_way),
            listening=lambda: self.wakeups.listening,
            database_epoch=lambda: self.epoch_watch.number,
        )

    def _build_maintenance(self) -> None:
        shared = self._shared
        actions = RecoveryActions(
            **shared,
            bot_endings=self.bot_endings,
            exited_runs=self.exited_runs,
            outcome=self.outcome,
            deletion=self.slot_deletion,
        )
        silence_alarms = SilenceAlarms(**shared)
        resets = ErrorResets(**shared, reconciler=self.reconciler)
        self.recovery = Recovery(
            **shared,
            actions=actions,
            silence_alarms=silence_alarms,
            error_resets=resets,
            liveness=self.liveness,
            rescheduling=Rescheduling(**shared),
            quotas=self.quotas,
        )
        self.cleanup = Cleanup(**shared, queue_poller=self.queue_poller, recovery=self.recovery)
        self.vacuum = Vacuum(self.database)

    def _build_operations(self) -> None:
        """Build what the HTTP API calls, besides admission."""
        database, shared = self.database, self._shared
        self.bot_commands = BotCommands(**shared)
        self.agents = Agents(
            **shared,
            commands=self.bot_commands,
            bot_endings=self.bot_endings,
            outcome=self.outcome,
            accepts=Accepts(
                database, self.metrics, self.outcome, max_duration_s=self.policy.max_duration_s
            ),
            heartbeats=self.heartbeats,
            epoch_watch=self.epoch_watch,
            pacing=self.pacing,
            event_refusals=EventRefusals(),
        )
        self.standby_polls = StandbyPolls(
            **shared,
            owner=self.identity.owner,
            environment=self._environment,
            bot_endings=self.bot_endings,
            image_gate=self.image_gate,
        )
        self.wakeups.handover_push.on_own = self.standby_polls.pushed
        self.wakeups.handover_push.on_own_bots = self.standby_polls.answer
        self.pools = PoolCommands(
            **shared, matcher=self.matcher, deletion=self.slot_deletion, pacing=self.pacing
        )
        self.agent_data = AgentData(**shared, agents=self.agents)
        self.slot_commands = SlotCommands(
            **shared, pools=self.pools, bot_endings=self.bot_endings, outcome=self.outcome
        )
        self.forced_release = ForcedRelease(**shared, handover=self.handover)
        self.api_keys = ApiKeys(database)
        self.tenants = Tenants(database)
        self.token_buckets = TokenBuckets(database)
        self.sessions = DashboardSessions(database)
        self.queries = Queries(
            database=database,
            backends=self._backends,
            estimates=self.estimates,
            matcher=self.matcher,
        )
        self.bot_data = BotDataQueries(database=database)
        self.schedules = ScheduleQueries(database=database)
        self.plans = Plans(database)
        self.changes = ChangeStream(database)
        self._build_rollouts()
        self._build_webhooks()

    def _build_rollouts(self) -> None:
        ending = RolloutEnding(**self._shared)
        self.rollout_controller = RolloutController(**self._shared, ending=ending)
        self.rollouts = RolloutCommands(
            **self._shared, ending=ending, controller=self.rollout_controller
        )

    def _build_webhooks(self) -> None:
        keys, allow_private = self.identity.webhook_keys, self.policy.allow_private_webhooks
        sender = Sender(keys, allow_private=allow_private)
        outbox = Outbox(database=self.database)
        self.webhook_dispatcher = Dispatcher(self.database, self.metrics, outbox, sender)
        self.webhooks = WebhookCommands(
            database=self.database,
            sender=sender,
            dispatcher=self.webhook_dispatcher,
            keys=keys,
            allow_private=allow_private,
        )

    def _clock_jumped(self, seconds: float) -> None:
        """Count a jump and let the recovery pass reschedule work that lies far ahead."""
        self.metrics.clock_jumped(forward=seconds > 0)
        self._wake_recovery.set()
