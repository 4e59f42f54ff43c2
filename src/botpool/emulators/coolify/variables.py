"""Environment variables: how they are kept, and what of them reaches a container."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from botpool.emulators.coolify.records import Application, Variable
from botpool.emulators.coolify.scene import Scene

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One variable as a client sends it."""

    key: str
    value: str | None
    is_preview: bool = False
    is_literal: bool = False
    is_multiline: bool = False
    is_shown_once: bool = False


class Variables:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._ids = itertools.count(1)

    def write(self, application: Application, written: Written) -> Variable:
        """Update or create; what is created for real use gets a twin for previews."""
        variable = _find(application, written.key, is_preview=written.is_preview)
        if variable is None:
            variable = self._create(application, written)
            if not written.is_preview and not _find(application, written.key, is_preview=True):
                self._create(application, replace(written, is_preview=True))
            return variable
        variable.value = written.value
        variable.is_literal = written.is_literal
        variable.is_multiline = written.is_multiline
        variable.is_shown_once = written.is_shown_once
        variable.updated_at = self._scene.now
        return variable

    def _create(self, application: Application, written: Written) -> Variable:
        variable = Variable(
            id=next(self._ids),
            uuid=self._scene.chance.uuid(),
            key=written.key,
            value=written.value,
            is_preview=written.is_preview,
            is_literal=written.is_literal,
            is_multiline=written.is_multiline,
            is_shown_once=written.is_shown_once,
            created_at=self._scene.now,
            updated_at=self._scene.now,
        )
        application.variables.append(variable)
        return variable


def delivered(application: Application) -> dict[str, str]:
    """The environment of the container, as it arrives there."""
    environment: dict[str, str] = {}
    for variable in application.variables:
        if not variable.is_preview:
            environment[variable.key] = _as_delivered(variable, environment)
    environment["COOLIFY_RESOURCE_UUID"] = application.uuid
    return environment


def _find(application: Application, key: str, *, is_preview: bool) -> Variable | None:
    for variable in application.variables:
        if variable.key == key and variable.is_preview == is_preview:
            return variable
    return None


def _as_delivered(variable: Variable, known: Mapping[str, str]) -> str:
    """Through a file in which a literal stands in single quotes, and nothing escapes a quote."""
    value = variable.value or ""
    if variable.is_literal or variable.is_multiline:
        return value.partition("'")[0]
    first_line = value.partition("\n")[0]
    return _REFERENCE.sub(lambda found: known.get(found[1] or found[2], ""), first_line)
