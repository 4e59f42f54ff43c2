"""Settings: their names, defaults and limits, and the one way to load them.

Importing this costs pydantic; the command line imports it inside the commands that need it.
"""

from botpool.settings.load import load_settings
from botpool.settings.model import Settings
from botpool.settings.sections import (
    BACKENDS,
    AgentSettings,
    BackendsSettings,
    BotsSettings,
    CoolifySettings,
    DatabaseSettings,
    DeploySettings,
    DockerSettings,
    InstallationSettings,
    PoolSettings,
    ProcessSettings,
    QueueSettings,
    RecoverySettings,
    RetentionSettings,
    ServerSettings,
)

__all__ = [
    "BACKENDS",
    "AgentSettings",
    "BackendsSettings",
    "BotsSettings",
    "CoolifySettings",
    "DatabaseSettings",
    "DeploySettings",
    "DockerSettings",
    "InstallationSettings",
    "PoolSettings",
    "ProcessSettings",
    "QueueSettings",
    "RecoverySettings",
    "RetentionSettings",
    "ServerSettings",
    "Settings",
    "load_settings",
]
