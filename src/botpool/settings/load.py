"""Load the settings, or report the first invalid one: its name, the problem and its source."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from botpool.domain.errors import SettingError
from botpool.settings.catalog import SettingPath, names_in
from botpool.settings.model import Settings
from botpool.settings.sources import GivenSettings, read_sources, tree_of


def load_settings(
    config: Path | None = None, overrides: Mapping[str, object] | None = None
) -> Settings:
    """Load file, then environment, then options; raise SettingError for an invalid setting.

    `config` is the file that `--config` names; `overrides` are options as a tree, such as
    `{"server": {"port": 8800}}`, where None means "not given".
    """
    return validate(read_sources(config, overrides or {}))


def validate(given: GivenSettings) -> Settings:
    try:
        return Settings(**tree_of(given))
    except ValidationError as error:
        # Not chained: pydantic's report could show the values, including secrets.
        raise _first_problem(error, given) from None


def origin_of(path: SettingPath, given: GivenSettings) -> str | None:
    """Name the file, variable or option that sets a setting or a section; None for a default."""
    origins = (each.origin for name, each in given.items() if name[: len(path)] == path)
    return next(origins, None)


def _unknown_setting(path: SettingPath) -> str:
    """Say that there is no such setting, with the closest name or all names beside it."""
    names = names_in(path[:-1])
    if close := get_close_matches(path[-1], names, n=1):
        return f"is not a setting; did you mean {'.'.join((*path[:-1], close[0]))}?"
    return f"is not a setting; the names here are {', '.join(names)}"


def _first_problem(error: ValidationError, given: GivenSettings) -> SettingError:
    first = error.errors(include_url=False, include_input=False)[0]
    path = tuple(part for part in first["loc"] if isinstance(part, str) and part != "[key]")
    if first["loc"][-1] == "[key]":
        problem = "is not a valid pool name: use at most 40 lower-case letters, digits and hyphens"
    elif first["type"] == "extra_forbidden":
        problem = _unknown_setting(path)
    elif first["type"] in ("model_type", "dict_type"):
        problem = "is a section of settings, not a value"
    elif first["type"] == "path_type":
        problem = "should be a path"
    else:
        problem = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    origin = origin_of(path, given)
    return SettingError(".".join(path), f"{problem} (from {origin})" if origin else problem)
