"""The list of all settings, read from the model: for the reference page and `botpool settings`."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from inspect import getdoc

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from botpool.settings.model import Settings
from botpool.settings.sections import PoolSettings

PREFIX = "BOTPOOL_"
ANY_POOL = "<platform>"
_UNITS = {"s": "s", "ms": "ms", "days": "days", "mb": "MiB"}
"""The unit of a setting by the last part of its name."""

SettingPath = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedSetting:
    path: SettingPath
    section_description: str
    description: str
    unit: str | None
    default: object
    example: object

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + "__".join(self.path).upper().replace("-", "_")


def describe_settings(pool_names: Iterable[str] = (ANY_POOL,)) -> Iterator[DescribedSetting]:
    """Describe every setting, section by section, with one section for each pool."""
    return _settings(Settings, (), tuple(pool_names))


def to_toml(value: object) -> str:
    """Write a value of a setting as TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {to_toml(each)}' for name, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(to_toml(each) for each in value)}]"
    return json.dumps(value)


def names_in(path: SettingPath) -> list[str]:
    """List the names of the sections and settings directly below a section, sorted."""
    pool_names = path[1:2] if path[:1] == ("pools",) else ()
    depth = len(path)
    settings = describe_settings(pool_names or (ANY_POOL,))
    return sorted({each.path[depth] for each in settings if each.path[:depth] == path})


def _settings(
    section: type[BaseModel], path: SettingPath, pool_names: tuple[str, ...]
) -> Iterator[DescribedSetting]:
    subsections: list[tuple[type[BaseModel], SettingPath]] = []
    for name, field in section.model_fields.items():
        if name == "pools":
            subsections += [(PoolSettings, (*path, name, pool)) for pool in pool_names]
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            subsections.append((field.annotation, (*path, name)))
        else:
            yield _setting(section, field, (*path, name))
    for subsection, its_path in subsections:
        yield from _settings(subsection, its_path, pool_names)


def _setting(section: type[BaseModel], field: FieldInfo, path: SettingPath) -> DescribedSetting:
    assert isinstance(field.json_schema_extra, dict)
    assert field.examples
    unit = field.json_schema_extra["unit"] or _UNITS.get(path[-1].rpartition("_")[2])
    return DescribedSetting(
        path=path,
        section_description=getdoc(section) or "",
        # Without the line breaks of the docstring.
        description=" ".join((field.description or "").split()),
        unit=unit if isinstance(unit, str) else None,
        default=field.default,
        example=field.examples[0],
    )
