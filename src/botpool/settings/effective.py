"""The settings in effect: each value with its source, and with its secrets masked."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from botpool.settings.catalog import DescribedSetting, SettingPath, describe_settings
from botpool.settings.load import origin_of, validate
from botpool.settings.masking import MASK, mask_url
from botpool.settings.model import Settings
from botpool.settings.sources import read_sources

DEFAULT = "default"

Value = str | int | float | list[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """A setting, its value without secrets, and the file, variable or option that sets it."""

    setting: DescribedSetting
    value: Value
    origin: str

    @property
    def default(self) -> Value:
        return shown_value(self.setting.path, self.setting.default)


def effective_settings(
    config: Path | None, overrides: Mapping[str, object]
) -> list[EffectiveSetting]:
    """Load the settings as `load_settings` does, and list each value with its source."""
    given = read_sources(config, overrides)
    settings = validate(given)
    return [
        EffectiveSetting(
            setting=each,
            value=shown_value(each.path, _look_up(settings, each.path)),
            origin=origin_of(each.path, given) or DEFAULT,
        )
        for each in describe_settings(settings.pools)
    ]


def shown_value(path: SettingPath, value: Any) -> Value:
    """Convert a value of the model to plain data without secrets."""
    if path == ("database", "url"):
        value = value.get_secret_value()
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, str):
        return mask_url(value) if "://" in value else value
    if isinstance(value, BaseModel):
        value = value.model_dump(by_alias=True)
    if isinstance(value, dict):
        return [f"{name}={shown_value(path, each)}" for name, each in value.items()]
    if isinstance(value, tuple):
        return [str(shown_value(path, each)) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return str(value) if isinstance(value, Path) else value


def _look_up(settings: Settings, path: SettingPath) -> Any:
    node: Any = settings
    for name in path:
        node = node[name] if isinstance(node, dict) else getattr(node, name)
    return node
