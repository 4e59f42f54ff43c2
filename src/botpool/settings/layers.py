"""Where settings come from: options over environment over file, each told apart for messages."""

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_settings import EnvSettingsSource

from botpool.domain.errors import SettingError
from botpool.settings.model import DEFAULT_POOLS, Settings

PREFIX = "BOTPOOL_"
CONFIG_VARIABLE = "BOTPOOL_CONFIG"
CONFIG_FILE = Path("botpool.toml")

ALIASES = {
    "DATABASE_URL": ("database", "url"),
    "COOLIFY_API_URL": ("backends", "coolify", "url"),
    "COOLIFY_API_TOKEN": ("backends", "coolify", "token"),
}

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Values of one source, and how that source calls the setting at a path."""

    values: Tree
    origin: Callable[[tuple[str, ...]], str]

    def has(self, path: tuple[str, ...]) -> bool:
        place: Any = self.values
        for name in path:
            if not isinstance(place, dict) or name not in place:
                return False
            place = place[name]
        return True


def file_layer(config: Path | None) -> Layer:
    """The file, with the three usual pools if it defines none; its own pools are the whole set."""
    named = os.environ.get(CONFIG_VARIABLE)
    path = config or (Path(named) if named else CONFIG_FILE)
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
    values.setdefault("pools", {platform: {} for platform in DEFAULT_POOLS})
    return Layer(values=values, origin=lambda _: str(path))


def alias_layer() -> Layer:
    """Names that other tools use too; ours win over them."""
    given = {name: value for name in ALIASES if (value := os.environ.get(name))}
    names = {path: name for name, path in ALIASES.items()}
    values = merged(_tree(ALIASES[name], value) for name, value in given.items())
    return Layer(values=values, origin=lambda path: names.get(path, "the environment"))


def environment_layer() -> Layer:
    """`BOTPOOL_SECTION__NAME`; in a platform's name `_` stands for `-`.

    Names without `__` are left alone: agents have theirs, and Kubernetes puts some there for every
    service. A section that does not exist is kept, so that it is refused like one in the file.
    """
    values: Tree = EnvSettingsSource(Settings)()
    if isinstance(values.get("pools"), dict):
        values["pools"] = {name.replace("_", "-"): pool for name, pool in values["pools"].items()}
    for name, value in os.environ.items():
        section, nested, _ = name.upper().removeprefix(PREFIX).lower().partition("__")
        if name.upper().startswith(PREFIX) and nested and section not in Settings.model_fields:
            values[section] = value
    return Layer(values=values, origin=_variable)


def option_layer(options: Mapping[str, object]) -> Layer:
    """What the caller was told explicitly; None means that an option was not given."""
    return Layer(values=_given(options), origin=lambda _: "an option")


def merged(trees: Iterable[Tree]) -> Tree:
    """Later trees over earlier ones, section by section."""
    result: Tree = {}
    for tree in trees:
        for name, value in tree.items():
            below = result.get(name)
            if isinstance(below, dict) and isinstance(value, dict):
                result[name] = merged((below, value))
            else:
                result[name] = value
    return result


def _tree(path: tuple[str, ...], value: object) -> Tree:
    return {path[0]: _tree(path[1:], value) if path[1:] else value}


def _given(options: Mapping[str, object]) -> Tree:
    """Without empty sections: one would hide a wrong value of that name in the file."""
    found = {
        name: _given(value) if isinstance(value, Mapping) else value
        for name, value in options.items()
        if value is not None
    }
    return {name: value for name, value in found.items() if value != {}}


def _variable(path: tuple[str, ...]) -> str:
    """The variable as it was written; for a whole section, one of its variables."""
    wanted = PREFIX + "__".join(path).upper().replace("-", "_")
    return next((name for name in os.environ if name.upper().startswith(wanted)), wanted)
