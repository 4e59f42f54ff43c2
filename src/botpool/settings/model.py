"""All settings together, and the rules between them."""

from pathlib import Path
from typing import Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from botpool.domain.errors import SettingError
from botpool.settings import sections
from botpool.settings.backends import BackendsSettings
from botpool.settings.declaration import Section, setting
from botpool.settings.pool_programs import check_program
from botpool.settings.tracing import TracingSettings
from botpool.settings.value_types import PoolName
from botpool.settings.warm import check_warm

DEFAULT_POOLS = ("google-meet", "teams", "zoom")


class Settings(Section):
    """One valid set of settings. `load_settings` reads them from file, environment and options."""

    model_config = ConfigDict(validate_default=True)

    data_dir: Path = setting(Path(".botpool"), example="/var/lib/botpool")
    """The directory for local data: the embedded database, its key and process containers."""
    database: sections.DatabaseSettings = sections.DatabaseSettings()
    server: sections.ServerSettings = sections.ServerSettings()
    installation: sections.InstallationSettings = sections.InstallationSettings()
    pools: dict[PoolName, sections.PoolSettings] = Field(
        default_factory=lambda: {name: sections.PoolSettings() for name in DEFAULT_POOLS}
    )
    backends: BackendsSettings = BackendsSettings()
    queue: sections.QueueSettings = sections.QueueSettings()
    deploy: sections.DeploySettings = sections.DeploySettings()
    recovery: sections.RecoverySettings = sections.RecoverySettings()
    agent: sections.AgentSettings = sections.AgentSettings()
    bots: sections.BotsSettings = sections.BotsSettings()
    limits: sections.LimitsSettings = sections.LimitsSettings()
    retention: sections.RetentionSettings = sections.RetentionSettings()
    webhooks: sections.WebhookSettings = sections.WebhookSettings()
    tracing: TracingSettings = TracingSettings()

    @field_validator("data_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        """Resolve the directory now: a later change of the working directory has no effect."""
        return value.expanduser().absolute()

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if not self.pools:
            raise SettingError("pools", "is empty: define a pool, such as [pools.google-meet]")
        if not self.database.embedded:
            self._require_identity()
        self._check_pacing()
        for pool_name, pool in self.pools.items():
            check_program(pool_name, pool)
            check_warm(pool_name, pool)
            if pool.backend != "process":
                self._require_backend_settings(pool_name, pool)
        if self.queue.max_timeout_ms < self.queue.default_timeout_ms:
            problem = f"is less than queue.default_timeout_ms ({self.queue.default_timeout_ms})"
            raise SettingError("queue.max_timeout_ms", problem)
        if self.recovery.heartbeat_freshness_s * 1_000 <= self.agent.heartbeat_interval_ms:
            problem = "is not above agent.heartbeat_interval_ms: live bots would fail"
            raise SettingError("recovery.heartbeat_freshness_s", problem)
        if 0 < self.agent.self_fence_s * 1_000 < 3 * self.agent.heartbeat_interval_ms:
            problem = "is less than three times agent.heartbeat_interval_ms: live bots would leave"
            raise SettingError("agent.self_fence_s", problem)
        if self.limits.reserved_for_agents >= self.limits.connections:
            problem = f"is not below limits.connections ({self.limits.connections})"
            raise SettingError("limits.connections_for_agents", problem)
        return self

    def _check_pacing(self) -> None:
        by_egress: dict[str, tuple[str, sections.PacingSettings]] = {}
        for pool_name, pool in self.pools.items():
            pacing, name = pool.pacing, f"pools.{pool_name}.pacing"
            if not pacing.per_minute:
                if pacing.egress is not None:
                    problem = f"is required with {name}.egress: the most starts per minute"
                    raise SettingError(f"{name}.per_minute", problem)
                continue
            if pacing.burst * 60 < pacing.per_minute:
                problem = f"is too small for {name}.per_minute: use at least a sixtieth of it"
                raise SettingError(f"{name}.burst", problem)
            egress = pacing.egress or pool_name
            other, others = by_egress.setdefault(egress, (pool_name, pacing))
            if pacing.model_copy(update={"egress": others.egress}) != others:
                problem = (
                    f"differs from pools.{other}.pacing: both share the egress {egress}, so their "
                    "settings must be the same"
                )
                raise SettingError(name, problem)

    def _require_identity(self) -> None:
        own = self.installation
        for name, value in (("id", own.id), ("secret", own.all_secrets)):
            if not value:
                variable = f"BOTPOOL_INSTALLATION__{name.upper()}"
                problem = f"is required when database.url names a server (or set {variable})"
                raise SettingError(f"installation.{name}", problem)

    def _require_backend_settings(self, pool_name: str, pool: sections.PoolSettings) -> None:
        required = {"server.public_url": self.server.public_url}
        if pool.backend == "coolify":
            coolify = self.backends.coolify
            for name in ("url", "token", "project_uuid", "server_uuid"):
                required[f"backends.coolify.{name}"] = getattr(coolify, name)
        for name, value in required.items():
            if not value:
                problem = f"is required for the backend of pools.{pool_name} ({pool.backend})"
                raise SettingError(name, problem)
        if pool.image == sections.DEMO_IMAGE:
            problem = "is required: the image to pull, such as ghcr.io/acme/bot:1.4"
            raise SettingError(f"pools.{pool_name}.image", problem)
