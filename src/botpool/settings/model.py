"""All settings together, and what must hold between them."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from botpool.domain.errors import SettingError
from botpool.settings.sections import (
    DEMO_IMAGE,
    AgentSettings,
    BackendsSettings,
    BotsSettings,
    DatabaseSettings,
    DeploySettings,
    InstallationSettings,
    PoolSettings,
    QueueSettings,
    RecoverySettings,
    RetentionSettings,
    ServerSettings,
)

DEFAULT_POOLS = ("google-meet", "teams", "zoom")

PoolName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")]


class Settings(BaseSettings):
    """One consistent set. Reads nothing by itself: `load_settings` brings file and environment."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        env_prefix="BOTPOOL_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        enable_decoding=False,
    )

    data_dir: Path = Path(".botpool")
    database: DatabaseSettings = DatabaseSettings()
    server: ServerSettings = ServerSettings()
    installation: InstallationSettings = InstallationSettings()
    pools: dict[PoolName, PoolSettings] = {name: PoolSettings() for name in DEFAULT_POOLS}
    backends: BackendsSettings = BackendsSettings()
    queue: QueueSettings = QueueSettings()
    deploy: DeploySettings = DeploySettings()
    recovery: RecoverySettings = RecoverySettings()
    agent: AgentSettings = AgentSettings()
    bots: BotsSettings = BotsSettings()
    retention: RetentionSettings = RetentionSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)

    @field_validator("data_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        """Later changes of the working directory must not move the data."""
        return value.expanduser().absolute()

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if not self.pools:
            raise SettingError("pools", "is empty: define a pool, such as [pools.google-meet]")
        if not self.database.embedded:
            for name in ("id", "secret"):
                if getattr(self.installation, name) is None:
                    problem = "is required when database.url names a server"
                    variable = f"BOTPOOL_INSTALLATION__{name.upper()}"
                    raise SettingError(f"installation.{name}", f"{problem} (or set {variable})")
        for platform, pool in self.pools.items():
            if pool.backend != "process":
                self._fit_for_a_platform(platform, pool)
        if self.queue.max_timeout_ms < self.queue.default_timeout_ms:
            problem = f"is less than queue.default_timeout_ms ({self.queue.default_timeout_ms})"
            raise SettingError("queue.max_timeout_ms", problem)
        if self.recovery.heartbeat_freshness_s * 1_000 <= self.agent.heartbeat_interval_ms:
            problem = "is not above agent.heartbeat_interval_ms: live bots would be failed"
            raise SettingError("recovery.heartbeat_freshness_s", problem)
        return self

    def _fit_for_a_platform(self, platform: str, pool: PoolSettings) -> None:
        if self.server.public_url is None:
            problem = f"is required for the backend of pools.{platform} ({pool.backend})"
            raise SettingError("server.public_url", problem)
        if pool.backend == "coolify":
            self._fit_for_coolify(platform)
        if pool.image == DEMO_IMAGE:
            problem = "is required: the image to be pulled, such as ghcr.io/acme/bot:1.4"
            raise SettingError(f"pools.{platform}.image", problem)

    def _fit_for_coolify(self, platform: str) -> None:
        for name in ("url", "token", "project_uuid", "server_uuid"):
            if not getattr(self.backends.coolify, name):
                problem = f"is required for the backend of pools.{platform} (coolify)"
                raise SettingError(f"backends.coolify.{name}", problem)
