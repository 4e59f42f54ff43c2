"""Settings: their names, defaults, limits and descriptions, and the functions that load them.

The command line imports this package inside the commands that need it: pydantic imports slowly.
"""

from botpool.settings.backends import (
    CoolifySettings,
    DockerSettings,
    KubernetesSettings,
    ProcessSettings,
)
from botpool.settings.catalog import describe_settings
from botpool.settings.effective import EffectiveSetting, effective_settings
from botpool.settings.load import load_settings
from botpool.settings.model import Settings

__all__ = [
    "CoolifySettings",
    "DockerSettings",
    "EffectiveSetting",
    "KubernetesSettings",
    "ProcessSettings",
    "Settings",
    "describe_settings",
    "effective_settings",
    "load_settings",
]
