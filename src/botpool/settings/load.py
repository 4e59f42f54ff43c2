"""Load the settings, or say in one line which one is wrong, why, and where it was set."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from botpool.domain.errors import SettingError
from botpool.settings.layers import (
    Layer,
    alias_layer,
    environment_layer,
    file_layer,
    merged,
    option_layer,
)
from botpool.settings.model import Settings
from botpool.settings.sections import PoolSettings


def load_settings(
    config: Path | None = None, overrides: Mapping[str, object] | None = None
) -> Settings:
    """File, then environment, then options. A wrong setting is a SettingError, never a traceback.

    `config` is the file that `--config` names; `overrides` are options as a tree, such as
    `{"server": {"port": 8800}}`, where None means "not given".
    """
    layers = [
        file_layer(config),
        alias_layer(),
        environment_layer(),
        option_layer(overrides or {}),
    ]
    try:
        return Settings(**merged(layer.values for layer in layers))
    except ValidationError as error:
        # Not chained: pydantic's own report could show what was set, secrets included.
        raise _first_problem(error, layers) from None


def _first_problem(error: ValidationError, layers: list[Layer]) -> SettingError:
    first = error.errors(include_url=False, include_input=False)[0]
    path = tuple(part for part in first["loc"] if isinstance(part, str) and part != "[key]")
    if first["loc"][-1] == "[key]":
        problem = "is not a name for a pool: lower-case letters, digits and hyphens, at most 40"
    elif first["type"] == "extra_forbidden":
        problem = _unknown(path)
    elif first["type"] in ("model_type", "dict_type"):
        problem = "is a section of settings, not a value"
    else:
        problem = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    origin = next((layer.origin(path) for layer in reversed(layers) if layer.has(path)), None)
    return SettingError(".".join(path), f"{problem} (from {origin})" if origin else problem)


def _unknown(path: tuple[str, ...]) -> str:
    names = _names_beside(path)
    close = get_close_matches(path[-1], names, n=1)
    hint = f"did you mean {'.'.join((*path[:-1], close[0]))}?" if close else None
    return f"is not a setting; {hint or 'there are: ' + ', '.join(names)}"


def _names_beside(path: tuple[str, ...]) -> list[str]:
    """The names that would have been understood where an unknown one stands."""
    model: type[BaseModel] = Settings
    for name in path[:-1]:
        kind: Any = model.model_fields[name].annotation if name in model.model_fields else None
        model = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else PoolSettings
    return sorted(model.model_fields)
