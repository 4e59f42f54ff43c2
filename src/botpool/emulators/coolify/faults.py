"""Faults: what goes wrong on purpose, and to whom.

One shape for all, in JSON: a name with

- `true`: from now on, always;
- a whole number n: the next n times;
- an object: `probability` (0 to 1), `times`, the `application` (uuid) or `endpoint`
  (`"POST /applications/{uuid}/start"`) it is meant for, and the fault's own values;
- a list of such objects: each for itself;
- `false`, `null` or 0: no longer.

`{"clear": true}` ends all of them. Wrong names and values change nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from botpool.emulators.coolify.chance import Chance
from botpool.emulators.coolify.endpoints import NAMES
from botpool.emulators.coolify.fault_kinds import KINDS, Kind, Value

CLEAR = "clear"


class WrongFault(Exception):
    """What was asked for cannot be meant; the message says why."""


@dataclass(slots=True, kw_only=True)
class Fault:
    kind: Kind
    probability: float = 1.0
    times: int | None = None
    """None: no end."""
    application: str | None = None
    endpoint: str | None = None
    values: dict[str, Value] = field(default_factory=dict)

    def seconds(self, name: str = "seconds") -> float:
        return float(self.values[name])

    def text(self, name: str) -> str:
        return str(self.values[name])

    def fits(
        self,
        application: str | None,
        endpoint: str | None,
        image: str | None,
        worked: bool | None,
    ) -> bool:
        return (
            self.times != 0
            and self.application in (None, application)
            and self.endpoint in (None, endpoint)
            and self.values.get("image") in (None, "", image)
            and self.values.get("worked") in (None, worked)
        )

    def as_json(self) -> dict[str, Any]:
        aims = {"times": self.times, "application": self.application, "endpoint": self.endpoint}
        told: dict[str, Any] = {name: aim for name, aim in aims.items() if aim is not None}
        if self.probability < 1:
            told["probability"] = self.probability
        return told | self.values


class Faults:
    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._set: dict[str, list[Fault]] = {}

    def change(self, wanted: object, on_change: Callable[[str], None] = lambda name: None) -> None:
        """All of it or nothing; `on_change` is told the name of each that was set or cleared."""
        changes = _parsed(wanted)
        if CLEAR in changes:
            del changes[CLEAR]
            changes = {name: [] for name in self._set} | changes
        for name, faults in changes.items():
            before = self._set.pop(name, None)
            if faults:
                self._set[name] = faults
            if faults or before:
                on_change(name)

    def hit(
        self,
        name: str,
        *,
        application: str | None = None,
        endpoint: str | None = None,
        image: str | None = None,
        worked: bool | None = None,
    ) -> Fault | None:
        """Whether it happens this time. Counts, and draws from the seed, only where it is set."""
        for fault in self._set.get(name, ()):
            if not fault.fits(application, endpoint, image, worked):
                continue
            if self._chance.happens(fault.probability):
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None

    def lasting(self, name: str) -> Fault | None:
        """A state that was set, if it was."""
        return next(iter(self._set.get(name, ())), None)

    def as_json(self) -> dict[str, Any]:
        live = {name: [f for f in faults if f.times != 0] for name, faults in self._set.items()}
        return {
            name: [fault.as_json() for fault in faults] for name, faults in live.items() if faults
        }


def _parsed(wanted: object) -> dict[str, list[Fault]]:
    if not isinstance(wanted, Mapping):
        raise WrongFault("Faults are a JSON object: their names, each with its value.")
    changes: dict[str, list[Fault]] = {}
    for name, value in wanted.items():
        if name == CLEAR:
            if value is not True:
                raise WrongFault("clear: must be true")
            changes[CLEAR] = []
        elif name in KINDS:
            specs = value if isinstance(value, list) else [value]
            changes[name] = [f for spec in specs if (f := _fault(KINDS[name], spec)) is not None]
        else:
            raise WrongFault(f"{name}: no such fault. There are: clear, {', '.join(KINDS)}")
    return changes


def _fault(kind: Kind, spec: object) -> Fault | None:
    if spec is None or spec is False or spec == 0:
        return None
    fault = Fault(kind=kind, values=dict(kind.values))
    if spec is True:
        return fault
    if isinstance(spec, int) and "times" in kind.aims:
        spec = {"times": spec}
    if not isinstance(spec, Mapping):
        raise WrongFault(f"{kind.name}: must be true, false, an object, or a number of times")
    for name, value in spec.items():
        if name in kind.values:
            fault.values[name] = _like(kind, name, value)
        elif name in kind.aims:
            _aim(fault, name, value)
        else:
            known = ", ".join(sorted([*kind.aims, *kind.values])) or "nothing but true"
            raise WrongFault(f"{kind.name}.{name}: not known; it takes {known}")
    return fault


def _aim(fault: Fault, name: str, value: object) -> None:
    what = f"{fault.kind.name}.{name}"
    if name == "probability":
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise WrongFault(f"{what}: must be a number from 0 to 1")
        fault.probability = float(value)
    elif name == "times":
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise WrongFault(f"{what}: must be a whole number from 0")
        fault.times = value
    elif not isinstance(value, str):
        raise WrongFault(f"{what}: must be a text")
    elif name == "application":
        fault.application = value
    elif value in NAMES:
        fault.endpoint = value
    else:
        raise WrongFault(f"{what}: no such call. There are: {', '.join(sorted(NAMES))}")


def _like(kind: Kind, name: str, value: object) -> Value:
    """The value, if it is of the sort of its default."""
    default = kind.values[name]
    if isinstance(default, StrEnum):
        members = [*map(str, type(default))]
        if value in members:
            return str(value)
        raise WrongFault(f"{kind.name}.{name}: must be one of {', '.join(members)}")
    if isinstance(default, bool | str):
        if isinstance(value, type(default)):
            return value
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value)
    sort = {bool: "true or false", str: "a text"}.get(type(default), "a number from 0")
    raise WrongFault(f"{kind.name}.{name}: must be {sort}")
