"""The sections of `botpool.toml`, except the backends: names, defaults, limits, descriptions."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator

from botpool.domain.communication import LeaveBy, Outcome, Protocol
from botpool.domain.installation_secret import EXAMPLE_NEWER_SECRET, EXAMPLE_SECRET
from botpool.settings.backends import BACKENDS
from botpool.settings.declaration import Section, setting
from botpool.settings.pool_programs import Arguments, Secrets, Variables
from botpool.settings.value_types import (
    EMBEDDED,
    Capabilities,
    Count,
    CountOrZero,
    DatabaseUrl,
    Days,
    HostPatterns,
    InstallationId,
    InstallationSecret,
    InstallationSecrets,
    Milliseconds,
    MillisecondsOrZero,
    Proxies,
    Seconds,
    SecondsOrZero,
    WebAddress,
)
from botpool.settings.warm import WarmSettings

DEMO_IMAGE = "botpool-demo"


class DatabaseSettings(Section):
    """The PostgreSQL database that all replicas of an installation share."""

    url: DatabaseUrl = setting(
        SecretStr(EMBEDDED), example="postgresql://botpool:password@db.internal/botpool"
    )
    """`embedded` starts a PostgreSQL in the data directory; else the URL of a PostgreSQL 14 or
    later. `DATABASE_URL` sets it too."""
    statement_timeout_s: Annotated[float, Field(ge=1, le=3600)] = setting(30, unit="s", example=20)
    """The longest time that a statement may take. The server ends it then, and a little later a
    replica gives up on a connection without an answer."""

    @property
    def embedded(self) -> bool:
        return self.url.get_secret_value() == EMBEDDED


class ServerSettings(Section):
    """The HTTP server: API, dashboard and metrics."""

    host: Annotated[str, Field(min_length=1)] = setting("127.0.0.1", example="10.0.0.5")
    """The address that the server listens on; `0.0.0.0` means all."""
    port: Annotated[int, Field(ge=0, le=65_535)] = setting(8700, example=8800)
    """The TCP port that the server listens on; 0 takes a free port."""
    public_url: WebAddress | None = setting(None, example="https://botpool.example.org")
    """The address at which containers reach this server. Required for every backend except
    `process`."""
    trusted_proxies: Proxies = setting((), example=["127.0.0.1", "10.0.0.0/8"])
    """Reverse proxies whose `X-Forwarded-*` headers the server believes: IP addresses, networks, or
    `*` for all."""
    drain_s: Annotated[float, Field(ge=0, le=600)] = setting(0, unit="s", example=10)
    """How long a replica still answers requests after SIGTERM, while `/readyz` returns 503 and each
    response closes its connection. Set it to the time that your load balancer needs to notice."""
    metrics: Literal["open", "key", "off"] = setting("key", example="open")
    """Access to `/metrics`: `open` to all, with an operator's `key`, or `off`."""
    docs: Literal["open", "off"] = setting("open", example="off")
    """Access to `/docs` and `/openapi.json`: `open` to all, or `off`."""


class InstallationSettings(Section):
    """The identity of this installation. Embedded mode generates it and keeps it in `data_dir`."""

    id: InstallationId | None = setting(None, example="production")
    """Marks the containers that this installation owns. Two installations must never share an id.
    Required with a database by URL."""
    secret: InstallationSecret | None = setting(None, example=EXAMPLE_SECRET)
    """Signs the tokens of agents. At least 32 random characters (`openssl rand -hex 32`), the same
    for all replicas. A database by URL requires this setting or `installation.secrets`."""
    secrets: InstallationSecrets = setting((), example=[EXAMPLE_NEWER_SECRET, EXAMPLE_SECRET])
    """Several secrets for a rotation, newest first: the first signs new tokens, and Botpool accepts
    the tokens of all. `installation.secret` counts as the last of them."""

    @property
    def all_secrets(self) -> tuple[str, ...]:
        """All secrets once, newest first."""
        given = (*self.secrets, *([self.secret] if self.secret else []))
        return tuple(dict.fromkeys(each.get_secret_value() for each in given))


class PacingSettings(Section):
    """The pace of a pool's starts, and of all starts that leave with the same address."""

    per_minute: Annotated[float, Field(ge=0, le=100_000)] = setting(
        0, example=20, unit="starts per minute"
    )
    """How many bots start per minute at most; 0 means no limit. Botpool lowers this pace while bots
    report that they were blocked, and raises it slowly again."""
    burst: Annotated[int, Field(ge=1, le=100_000)] = setting(5, example=10, unit="starts")
    """How many bots may start at once after a quiet time. At least a sixtieth of `per_minute`."""
    egress: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")] | None = setting(
        None, example="office-nat"
    )
    """A name for the address with which the pool's bots leave. Pools with the same egress share its
    pace and its circuit breaker, and need the same `pacing` settings. By default the pool's name,
    so that the pool has an egress of its own."""
    pause_after_blocks: Count = setting(5, example=10, unit="bots")
    """After so many blocked bots in a row, the circuit breaker opens: the egress starts no bot."""
    pause_s: Seconds = setting(300, example=900)
    """How long the circuit breaker stays open before one bot may start as a probe. Each blocked
    probe doubles the time, up to an hour."""
    recover_s: Seconds = setting(1_800, example=3_600)
    """How long the pace takes to rise from zero to `per_minute`."""


class ScheduleSettings(Section):
    """Scheduled joins: how much of a pool bookings may reserve, and how early slots are held."""

    reservable: Annotated[float, Field(ge=0, le=1)] = setting(0.8, example=0.5)
    """The largest fraction (0 to 1) of `max_size` that bookings may reserve at any time. The rest
    stays for bots without a reservation."""
    hold_s: SecondsOrZero | None = setting(None, example=1_800)
    """How long before its start Botpool holds the slot of a booking: it gives unreserved bots no
    slot that a booking needs in this time. By default the p90 duration of the pool's recent
    assignments, or an hour without a record. Shorter uses the pool better and makes more bots
    late."""


class PoolSettings(Section):
    """One pool of slots. Its name, such as `google-meet`, is part of the section's name."""

    backend: str = setting("process", example="docker")
    """The backend that runs the pool's containers: `process`, `docker`, `coolify` or
    `kubernetes`."""
    image: Annotated[str, Field(min_length=1, max_length=500)] = setting(
        DEMO_IMAGE, example="ghcr.io/acme/meet-bot:1.4"
    )
    """The container image of the pool's bots. Required for every backend except `process`."""
    max_size: Annotated[int, Field(ge=0, le=100_000)] = setting(100, example=20, unit="slots")
    """The most slots in the pool; 0 means no slots."""
    heartbeats: Literal["required", "none"] = setting("required", example="none")
    """`required` fails a running bot whose heartbeats stop; `none` is for bots that send no
    heartbeats."""
    cpus: Annotated[float, Field(gt=0, le=1_000)] = setting(1, example=1.5, unit="CPU")
    """CPU limit of each container."""
    memory_mb: Annotated[int, Field(ge=16, le=10_000_000)] = setting(2_048, example=4_096)
    """Memory limit of each container."""
    schedule: ScheduleSettings = ScheduleSettings()
    stalled_after_s: SecondsOrZero = setting(0, example=300)
    """After how long in the call without media a bot counts as stalled, if its heartbeats say when
    it last recorded media (`lastMediaAt`); 0 means never."""
    allowed_hosts: HostPatterns = setting(("*",), example=["meet.example.org", "*.zoom.us"])
    """Hosts of meeting links that the pool accepts: names, `*.` and a domain, IP addresses or
    networks. `*` is every public host: it leaves out private, loopback, link-local and metadata
    addresses and local names."""
    capabilities: Capabilities = setting((), example=["SYS_ADMIN"])
    """Linux capabilities that the pool's containers keep on Docker and Kubernetes; they lose all
    others."""
    read_only: bool = setting(False, example=True)
    """Whether the root file system of the pool's containers is read-only on Docker and Kubernetes.
    They can then write only to `/tmp` (in memory on Docker), `/dev/shm` and volumes of the
    image."""
    pacing: PacingSettings = PacingSettings()
    warm: WarmSettings = WarmSettings()
    protocol: Protocol = setting(Protocol.BOTPOOL, example="none")
    """The protocol that the container speaks: `botpool` (our agent or wrapper), `meeboter`, `vexa`,
    or `none`. With `none` and `vexa`, the pool needs no heartbeats."""
    outcome: Outcome = setting(Outcome.REPORT, example="exit-code")
    """What decides the outcome of a bot: the agent's `report`, or the container's `exit-code` (0 is
    DONE, others are FAILED with the last output lines). `exit-code` is not possible on Coolify."""
    leave: LeaveBy = setting(LeaveBy.HEARTBEAT, example="signal")
    """How a bot gets a request to leave: with the response to its `heartbeat`, or as a `signal`
    (SIGTERM)."""
    env: Variables = setting({}, example={"BOT_LANGUAGE": "{botData.language}"})
    """Environment variables of the pool's containers. The values may contain placeholders; see
    [Run an existing bot](../howto/run-an-existing-bot.md)."""
    secrets: Secrets = setting({}, example={"S3_SECRET_KEY": "BOT_S3_SECRET"})
    """Environment variables whose values are secret. Each names an environment variable of the
    replica, or the absolute path of a file there, from which a replica reads the value at its
    start."""
    command: Arguments = setting((), example=["--meeting", "{bot.meetingUrl}"])
    """The arguments of the container's program, with placeholders; empty means the image's own. On
    `process` this is the program itself, after `entrypoint`."""
    entrypoint: Arguments = setting((), example=["/usr/local/bin/bot"])
    """The container's program, with placeholders; empty means the image's own."""
    finish_timeout_s: Seconds = setting(900, example=1_800)
    """How long a bot may take to save its recording after its call. A change of the progress that
    its heartbeats report restarts this time, up to `bots.max_duration_s`."""
    stop_grace_s: Annotated[float, Field(ge=0, le=900)] = setting(30, example=120)
    """How long a container may take to end after the stop signal before Botpool kills it."""

    @field_validator("backend")
    @classmethod
    def _known_backend(cls, value: str) -> str:
        if value not in BACKENDS:
            raise ValueError(f"is not a backend; choose one of {', '.join(BACKENDS)}")
        return value


class QueueSettings(Section):
    """The queue of bots that wait for a slot."""

    default_timeout_ms: MillisecondsOrZero = setting(300_000, example=120_000)
    """How long a bot waits for a slot if its request has no `queueTimeoutMs`; 0 means that it does
    not queue."""
    max_timeout_ms: MillisecondsOrZero = setting(600_000, example=900_000)
    """The longest `queueTimeoutMs` that a request may have."""
    poll_interval_ms: Milliseconds = setting(1_000, example=500)
    """How often a replica polls the queue for expired bots and missed wake-ups."""
    max_length: Annotated[int, Field(ge=100, le=1_000_000)] = setting(
        10_000, example=500, unit="bots"
    )
    """How many bots may wait in each pool, at least 100. A further request gets 503 with
    `Retry-After`."""


class DeploySettings(Section):
    """Deployments: starting a slot's container for a bot."""

    timeout_s: Seconds = setting(1_500, example=900)
    """The longest time from the start of a container until it runs. Fresh heartbeats suspend this
    timeout."""
    poll_interval_s: Seconds = setting(15, example=10)
    """How often Botpool observes the containers of a backend."""
    grace_s: SecondsOrZero = setting(180, example=60)
    """How long after a deployment Botpool ignores the states exited and stopped, which may be from
    before the start."""
    wait_timeout_s: Seconds = setting(1_800, example=3_600)
    """The longest time that a slot waits for its image or for the backend's budget."""
    attempts: Count = setting(2, example=3, unit="attempts")
    """How many times a bot is deployed before it fails with `deploy_failed`; 1 means no retry."""
    infrastructure_retries: CountOrZero = setting(5, example=10, unit="retries")
    """How many times a bot that is not in its call yet is deployed again after infrastructure
    faults, such as the eviction of its pod or the loss of its node. These are no `attempts`."""
    image_known_s: Seconds = setting(86_400, example=604_800)
    """How long after its last start an image counts as present on its image host."""


class RecoverySettings(Section):
    """The recovery pass, which finds slots that are stuck and resets them."""

    interval_s: Seconds = setting(60, example=30)
    """How often the recovery pass runs."""
    deploying_timeout_s: Seconds = setting(900, example=1_200)
    """How long a slot may be `deploying` before the recovery pass checks it."""
    heartbeat_freshness_s: Seconds = setting(300, example=120)
    """The age up to which a heartbeat counts as fresh. Must be above
    `agent.heartbeat_interval_ms`."""
    max_skipped: CountOrZero = setting(3, example=5, unit="passes")
    """How many recovery passes may skip a deploying slot with fresh heartbeats before the slot
    becomes busy."""
    max_attempts: Count = setting(3, example=5, unit="resets")
    """Failed resets before Botpool deletes the slot."""
    stray_share: Annotated[float, Field(ge=0, le=1)] = setting(0.2, example=0.5)
    """The largest fraction (0 to 1) of the installation's containers that cleanup deletes as strays
    without an operator's request."""


class AgentSettings(Section):
    """The agents inside the containers."""

    heartbeat_interval_ms: Milliseconds = setting(10_000, example=5_000)
    """How often an agent sends a heartbeat."""
    leave_grace_s: SecondsOrZero = setting(30, example=60)
    """How long a bot may take to leave its meeting before Botpool stops its container."""
    self_fence_s: SecondsOrZero = setting(0, example=1_800)
    """After how long without an answer of Botpool a bot leaves its meeting and exits; 0 means
    never. Must be longer than every outage that bots should survive. Applies to containers that
    start after the change."""


class BotsSettings(Section):
    """Limits for every bot."""

    max_duration_s: SecondsOrZero = setting(21_600, example=14_400)
    """The longest run of a bot; then it fails with `max_duration`. 0 means no limit."""


class LimitsSettings(Section):
    """Limits for clients, so that none of them can use up a server. A request above them gets 429
    or 503 with `Retry-After` and the name of the limit."""

    connections: Annotated[int, Field(ge=32, le=500_000)] = setting(
        4_096, example=20_000, unit="connections"
    )
    """The most connections of a replica at once. A new connection takes the place of the one that
    has waited longest for a request, callers without a key first. A replica raises its limit of
    open files as far as necessary and possible, and lowers this number to fit."""
    connections_for_agents: CountOrZero | None = setting(None, example=15_000, unit="connections")
    """How many of `limits.connections` only agents can use: half, unless set. Other callers get 503
    when they have requests in progress on all others. Must be below `limits.connections`."""
    connections_per_address: Count = setting(512, example=2_000, unit="connections")
    """The most connections from one IPv4 address or IPv6 /64 network that wait for a first request
    without a key, and the most requests in progress from there. Agents' requests and the
    connections of `server.trusted_proxies` do not count."""
    requests_per_agent: Count = setting(32, example=8, unit="requests")
    """The most requests of one agent in progress at once on a replica; more get 429."""
    first_byte_timeout_s: Seconds = setting(10, example=5)
    """How long a new connection may stay without a byte."""
    head_timeout_s: Seconds = setting(10, example=5)
    """How long the head of a request may take, from its first to its last byte."""
    body_timeout_s: Seconds = setting(60, example=120)
    """How long the body of a request may take, from the end of the head to its last byte."""
    response_timeout_s: Seconds = setting(60, example=120)
    """How long a client may leave a response unread that waits to be sent."""
    keep_alive_timeout_s: Seconds = setting(75, example=120)
    """How long a connection may stay open between two requests. Must be above that of a reverse
    proxy, so that no proxy sends a request on a connection that closes."""
    requests_per_minute: CountOrZero = setting(12_000, example=6_000, unit="requests")
    """How many requests one API key may send each minute, at all replicas together; 0 means no
    limit."""
    requests_burst: Count = setting(2_000, example=500, unit="requests")
    """How many requests one API key may send at once."""
    posts_per_minute: CountOrZero = setting(600, example=60, unit="requests")
    """How many bots one API key may request each minute, at all replicas together; 0 means no
    limit."""
    posts_burst: Count = setting(1_000, example=100, unit="requests")
    """How many bots one API key may request at once."""
    events_per_assignment: Count = setting(5_000, example=1_000, unit="events")
    """How many events the agent of one assignment may send."""
    event_bytes_per_assignment: Annotated[int, Field(ge=8_192, le=2**40)] = setting(
        8 * 1024 * 1024, example=1024 * 1024, unit="bytes"
    )
    """How much data the events of one assignment may have."""
    events_per_minute: CountOrZero = setting(600, example=60, unit="events")
    """How many events the agent of one assignment may send each minute; 0 means no limit."""
    events_burst: Annotated[int, Field(ge=100, le=1_000_000)] = setting(
        1_000, example=200, unit="events"
    )
    """How many events the agent of one assignment may send at once. At least 100, which one request
    may have."""

    @property
    def reserved_for_agents(self) -> int:
        reserved = self.connections_for_agents
        return self.connections // 2 if reserved is None else reserved


class RetentionSettings(Section):
    """How long data is kept. Meeting links contain passwords, so nothing is kept forever."""

    bots_days: Days = setting(30, example=90)
    """How long Botpool keeps bots after their end."""
    history_days: Days = setting(30, example=90)
    """How long Botpool keeps the history of bots and slots."""
    idempotency_days: Days = setting(7, example=14)
    """How long Botpool recognizes a repeated `Idempotency-Key`."""
    audit_days: Days = setting(365, example=730)
    """How long Botpool keeps the audit log."""
    webhook_days: Days = setting(7, example=14)
    """How long Botpool keeps finished deliveries of webhooks; at most the newest 10,000 of each."""


class WebhookSettings(Section):
    """Webhooks: requests to other systems when something happens to a bot or a pool."""

    allow_private_addresses: bool = setting(False, example=True)
    """Whether webhooks may have private, loopback and link-local addresses. Every key can create a
    webhook, so this opens the network of the replicas to the holders of keys."""
