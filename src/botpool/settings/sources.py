"""The sources of settings: the file, environment variables and command-line options."""

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
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
class Source:
    """The values of one source. `origin` names the file, variable or option of a setting."""

    values: Tree
    origin: Callable[[SettingPath], str]

    def sets(self, path: SettingPath) -> bool:
        node: Any = self.values
        for name in path:
            if not isinstance(node, dict) or name not in node:
                return False
            node = node[name]
        return True


def read_sources(config: Path | None, options: Mapping[str, object]) -> list[Source]:
    """Read all sources. A later source overrides the earlier ones."""
    variables = [_shared_variables(), _own_variables()]
    return [_file(config), *(_environment(each) for each in variables), _options(options)]


def merge(trees: Iterable[Tree]) -> Tree:
    """Merge trees section by section; a later tree overrides the earlier ones."""
    result: Tree = {}
    for tree in trees:
        for name, value in tree.items():
            earlier = result.get(name)
            if isinstance(earlier, dict) and isinstance(value, dict):
                value = merge((earlier, value))
            result[name] = value
    return result


def _file(config: Path | None) -> Source:
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
    return Source(values=values, origin=lambda _: str(path))


def _shared_variables() -> dict[str, SettingPath]:
    """Find the variables that other tools use too."""
    return {name: path for name, path in SHARED_VARIABLES.items() if name in os.environ}


def _own_variables() -> dict[str, SettingPath]:
    """Find `BOTPOOL_SECTION__NAME` variables; in a pool name `_` stands for `-`.

    A name without `__` counts only if it names a setting: agents have variables of their own
    (BOTPOOL_TOKEN), and Kubernetes sets some for every service (BOTPOOL_SERVER_PORT).
    """
    found = {}
    for name in os.environ:
        section, *rest = name.lower().removeprefix(PREFIX.lower()).split("__")
        if name.upper().startswith(PREFIX) and (rest or section in Settings.model_fields):
            if section == "pools" and rest:
                rest[0] = rest[0].replace("_", "-")
            found[name] = (section, *rest)
    return found


def _environment(variables: Mapping[str, SettingPath]) -> Source:
    """Read the variables; an empty one counts as absent, and a value overrides its section."""
    given = [(name, path) for name, path in variables.items() if os.environ[name]]
    given.sort(key=lambda each: len(each[1]), reverse=True)

    def origin(path: SettingPath) -> str:
        return next(name for name, set_path in given if set_path[: len(path)] == path)

    return Source(
        values=merge(_tree(path, os.environ[name]) for name, path in given), origin=origin
    )


def _tree(path: SettingPath, value: object) -> Tree:
    return {path[0]: _tree(path[1:], value) if path[1:] else value}


def _options(options: Mapping[str, object]) -> Source:
    """Take the options of a command, such as `--data-dir`; None means that it is not given."""
    return Source(values=_given(options), origin=lambda path: "--" + path[-1].replace("_", "-"))


def _given(options: Mapping[str, object]) -> Tree:
    """Drop absent options and empty sections: an empty one would hide a wrong value in the file."""
    found = {
        name: _given(value) if isinstance(value, Mapping) else value
        for name, value in options.items()
        if value is not None
    }
    return {name: value for name, value in found.items() if value != {}}
