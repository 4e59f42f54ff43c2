"""Stores environment variables and computes the environment of a container.

Coolify writes the variables of an application to an `.env` file, which Docker Compose reads:

- A value that is valid JSON stands there without quotes, even if it is literal. Compose cuts it at
  ` #` and expands `$NAME` in it.
- Any other literal or multiline value stands in apostrophes, and nothing escapes an apostrophe.
- `{{team.NAME}}`, `{{project.NAME}}` and `{{environment.NAME}}` become the values of shared
  variables, in every value.
- Keys are not unique: a bulk write looks for the variable and then creates it, without a lock. It
  updates the first variable with the key, and Compose takes the last.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from botpool.emulators.coolify.records import Application, Variable
from botpool.emulators.coolify.simulation import Simulation

MAX_FILE_BYTES = 98_000
"""A deployment with a larger `.env` file fails: one argument of a command is limited to 128 KiB."""
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_SHARED = re.compile(r"\{\{\s*((?:team|project|environment)\.\w+)\s*\}\}")


class EnvironmentTooLarge(Exception):
    """The `.env` file exceeds the maximum size of a command's argument."""


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
            faults = self._simulation.faults
            if faults.trigger("duplicateVariable", application=application.uuid):
                self._create(application, sent)
            return variable
        for name, value in sent.items():
            setattr(variable, name, value)
        variable.updated_at = self._simulation.now
        return variable

    def delete(self, application: Application, uuid: str) -> bool:
        """Delete a variable. Return False if the application has no such variable."""
        kept = [variable for variable in application.variables if variable.uuid != uuid]
        found = len(kept) < len(application.variables)
        application.variables[:] = kept
        return found

    def container_environment(self, application: Application) -> dict[str, str]:
        """Return the environment that the application's container receives.

        Raises EnvironmentTooLarge.
        """
        shared = self._simulation.config.shared_variables
        environment: dict[str, str] = {}
        size = 0
        for variable in application.variables:
            if variable.is_preview:
                continue
            value = _SHARED.sub(lambda found: shared.get(found[1], found[0]), variable.value or "")
            size += len(f"{variable.key}={value}\n".encode(errors="replace"))
            environment[variable.key] = _delivered_value(variable, value, environment)
        if size > MAX_FILE_BYTES:
            raise EnvironmentTooLarge
        environment["COOLIFY_RESOURCE_UUID"] = application.uuid
        return environment

    def _create(self, application: Application, sent: Mapping[str, Any]) -> Variable:
        now, uuid = self._simulation.now, self._simulation.randomness.uuid()
        variable = Variable(uuid=uuid, created_at=now, updated_at=now, **sent)
        application.variables.append(variable)
        return variable


def _find(application: Application, key: str, *, is_preview: bool) -> Variable | None:
    for variable in application.variables:
        if variable.key == key and variable.is_preview == is_preview:
            return variable
    return None


def _delivered_value(variable: Variable, value: str, known: Mapping[str, str]) -> str:
    """Return the value as Docker Compose reads it from the `.env` file."""
    is_quoted = variable.is_literal or variable.is_multiline
    if is_quoted and not _is_json(value):
        return value.partition("'")[0]
    first_line = value.partition("\n")[0].partition(" #")[0]
    return _REFERENCE.sub(lambda match: known.get(match[1] or match[2], ""), first_line)


def _is_json(value: str) -> bool:
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True
