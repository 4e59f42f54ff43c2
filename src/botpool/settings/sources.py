"""The sources of settings: the file, environment variables and command-line options."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botpool.domain.errors import SettingError
from botpool.settings.catalog import PREFIX, SettingPath
from botpool.settings.model import DEFAULT_POOLS, Settings

CONFIG_VARIABLE = "BOTPOOL_CONFIG"
CONFIG_FILE = Path("botpool.toml")

SHARED_VARIABLES: Mapping[str, SettingPath] = {
    "DATABASE_URL": ("database", "url"),
    "COOLIFY_API_URL": ("backends", "coolify", "url"),
    "COOLIFY_API_TOKEN": ("backends", "coolify", "token"),
}

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A value, and the file, variable or option that gives it."""

    value: object
    origin: str


GivenSettings = dict[SettingPath, Given]


def read_sources(config: Path | None, options: Mapping[str, object]) -> GivenSettings:
    """Read all sources. A later source overrides the earlier ones."""
    return {
        **_read_file(config),
        **_variables(SHARED_VARIABLES),
        **_variables(_own_variables()),
        **_from_options(options),
    }


def tree_of(given: GivenSettings) -> Tree:
    """Build the sections. A value in place of a section stays, so that validation reports it."""
    tree: Tree = {}
    for path in sorted(given, key=len):
        node: Any = tree
        for name in path[:-1]:
            node = node.setdefault(name, {}) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node[path[-1]] = given[path].value
    return tree


def _flatten(tree: Mapping[str, Any], parents: SettingPath = ()) -> dict[SettingPath, object]:
    """The values of a tree by their paths. An empty section is a value of its own."""
    found: dict[SettingPath, object] = {}
    for name, value in tree.items():
        path = (*parents, name)
        found |= _flatten(value, path) if isinstance(value, dict) and value else {path: value}
    return found


def _read_file(config: Path | None) -> GivenSettings:
    """Read the file. A file without pools gets the default pools."""
    named = os.environ.get(CONFIG_VARIABLE)
    path = config or Path(named or CONFIG_FILE)
    values: Tree = {}
    try:
        values = tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        if config or named:
            raise SettingError("config", f"there is no file {path}") from None
    except OSError as error:
        raise SettingError("config", f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingError("config", f"{path} is not valid TOML: {error}") from None
    values.setdefault("pools", {pool_name: {} for pool_name in DEFAULT_POOLS})
    return {each: Given(value=value, origin=str(path)) for each, value in _flatten(values).items()}


def _variables(paths: Mapping[str, SettingPath]) -> GivenSettings:
    """Read the variables with these names; an empty one counts as absent."""
    return {
        path: Given(value=os.environ[name], origin=name)
        for name, path in paths.items()
        if os.environ.get(name)
    }


def _own_variables() -> dict[str, SettingPath]:
    """Find `BOTPOOL_SECTION__NAME` variables; in a pool name `_` stands for `-`.

    A name without `__` counts only if it names a setting: agents have variables of their own
    (BOTPOOL_TOKEN), and Kubernetes sets some for every service (BOTPOOL_SERVER_PORT).
    """
    found = {}
    for name in os.environ:
        section, *rest = name.lower().removeprefix(PREFIX.lower()).split("__")
        if section == "pools" and rest[2:] and rest[1] in ("env", "secrets"):
            rest[2:] = ["__".join(name.split("__")[3:])]  # the name of the bot's own variable
        if name.upper().startswith(PREFIX) and (rest or section in Settings.model_fields):
            if section == "pools" and rest:
                rest[0] = rest[0].replace("_", "-")
            found[name] = (section, *rest)
    return found


def _from_options(options: Mapping[str, object]) -> GivenSettings:
    """Take the options of a command, such as `--data-dir`; None means that it is not given."""
    return {
        path: Given(value=value, origin="--" + path[-1].replace("_", "-"))
        for path, value in _flatten(options).items()
        if value is not None
    }
