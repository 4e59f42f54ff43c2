"""Stores environment variables and computes the environment of a container."""

import re
from collections.abc import Mapping
from typing import Any

from botpool.emulators.coolify.records import Application, Variable
from botpool.emulators.coolify.simulation import Simulation

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class VariableStore:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def write(self, application: Application, sent: Mapping[str, Any]) -> Variable:
        """Create or update a variable; `sent` contains its key, value and flags.

        A new variable also gets a copy for preview deployments.
        """
        variable = _find(application, sent["key"], is_preview=sent["is_preview"])
        if variable is None:
            variable = self._create(application, sent)
            if not sent["is_preview"] and not _find(application, sent["key"], is_preview=True):
                self._create(application, {**sent, "is_preview": True})
            return variable
        for name, value in sent.items():
            setattr(variable, name, value)
        variable.updated_at = self._simulation.now
        return variable

    def _create(self, application: Application, sent: Mapping[str, Any]) -> Variable:
        now, uuid = self._simulation.now, self._simulation.randomness.uuid()
        variable = Variable(uuid=uuid, created_at=now, updated_at=now, **sent)
        application.variables.append(variable)
        return variable


def container_environment(application: Application) -> dict[str, str]:
    """Return the environment that the application's container receives."""
    environment: dict[str, str] = {}
    for variable in application.variables:
        if not variable.is_preview:
            environment[variable.key] = _delivered_value(variable, environment)
    environment["COOLIFY_RESOURCE_UUID"] = application.uuid
    return environment


def _find(application: Application, key: str, *, is_preview: bool) -> Variable | None:
    for variable in application.variables:
        if variable.key == key and variable.is_preview == is_preview:
            return variable
    return None


def _delivered_value(variable: Variable, known: Mapping[str, str]) -> str:
    """Return the value as Coolify's .env file delivers it: nothing escapes a quote in a literal."""
    value = variable.value or ""
    if variable.is_literal or variable.is_multiline:
        return value.partition("'")[0]
    first_line = value.partition("\n")[0]
    return _REFERENCE.sub(lambda match: known.get(match[1] or match[2], ""), first_line)
