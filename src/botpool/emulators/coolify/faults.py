"""Sets, clears and triggers faults.

All faults share one JSON format: the name of the fault with one of

- `true`: always from now on;
- an integer n: the next n times;
- an object: the selectors `probability` (0 to 1), `times`, `application` (uuid) and `endpoint`
  (`"POST /applications/{uuid}/start"`), and the fault's own values;
- a list of such objects, which are independent of each other;
- `false`, `null` or 0: clear this fault.

`{"clear": true}` clears all faults. A request with a wrong name or value changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from botpool.emulators.coolify.endpoints import NAMES
from botpool.emulators.coolify.fault_kinds import KINDS, FaultKind, Value

CLEAR = "clear"


class InvalidFault(Exception):
    """The requested fault is not valid; the message says why."""


@dataclass(slots=True, kw_only=True)
class Fault:
    kind: FaultKind
    probability: float = 1.0
    times: int | None = None
    """None: unlimited."""
    application: str | None = None
    endpoint: str | None = None
    values: dict[str, Value] = field(default_factory=dict)

    def number(self, name: str = "seconds") -> float:
        return float(self.values[name])

    def text(self, name: str) -> str:
        return str(self.values[name])

    def matches(
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
        selectors: dict[str, Any] = {
            "times": self.times,
            "application": self.application,
            "endpoint": self.endpoint,
            "probability": self.probability if self.probability < 1 else None,
        }
        return {name: s for name, s in selectors.items() if s is not None} | self.values


class Faults:
    """The faults that are set. `happens` draws whether an event with a probability happens."""

    def __init__(self, happens: Callable[[float], bool]) -> None:
        self._happens = happens
        self._set: dict[str, list[Fault]] = {}

    def change(self, wanted: object, on_change: Callable[[str], None] = lambda name: None) -> None:
        """Apply all changes or none. Calls `on_change` with the name of each changed fault."""
        changes = _parse(wanted)
        if CLEAR in changes:
            del changes[CLEAR]
            changes = {name: [] for name in self._set} | changes
        for name, faults in changes.items():
            before = self._set.pop(name, None)
            if faults:
                self._set[name] = faults
            if faults or before:
                on_change(name)

    def trigger(
        self,
        name: str,
        *,
        application: str | None = None,
        endpoint: str | None = None,
        image: str | None = None,
        worked: bool | None = None,
    ) -> Fault | None:
        """Return the fault if it happens now, and count it down."""
        for fault in self._set.get(name, ()):
            if not fault.matches(application, endpoint, image, worked):
                continue
            if self._happens(fault.probability):
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None

    def active(self, name: str) -> Fault | None:
        """Return a lasting fault if it is set."""
        return next(iter(self._set.get(name, ())), None)

    def as_json(self) -> dict[str, Any]:
        live = {name: [f for f in faults if f.times != 0] for name, faults in self._set.items()}
        return {
            name: [fault.as_json() for fault in faults] for name, faults in live.items() if faults
        }


def _parse(wanted: object) -> dict[str, list[Fault]]:
    if not isinstance(wanted, Mapping):
        raise InvalidFault("Send a JSON object with fault names as keys.")
    changes: dict[str, list[Fault]] = {}
    for name, value in wanted.items():
        if name == CLEAR:
            if value is not True:
                raise InvalidFault("clear: must be true")
            changes[CLEAR] = []
        elif name in KINDS:
            specs = value if isinstance(value, list) else [value]
            changes[name] = [
                f for spec in specs if (f := _parse_fault(KINDS[name], spec)) is not None
            ]
        else:
            raise InvalidFault(f"{name}: no such fault. Known faults: clear, {', '.join(KINDS)}")
    return changes


def _parse_fault(kind: FaultKind, spec: object) -> Fault | None:
    if spec is None or spec is False or spec == 0:
        return None
    fault = Fault(kind=kind, values=dict(kind.values))
    if spec is True:
        return fault
    if isinstance(spec, int) and "times" in kind.selectors:
        spec = {"times": spec}
    if not isinstance(spec, Mapping):
        raise InvalidFault(
            f"{kind.name}: must be true, false, a number of times, an object or a list"
        )
    for name, value in spec.items():
        if name in kind.values:
            fault.values[name] = _validated_value(kind, name, value)
        elif name in kind.selectors:
            _set_selector(fault, name, value)
        else:
            known = ", ".join(sorted([*kind.selectors, *kind.values])) or "only true"
            raise InvalidFault(f"{kind.name}.{name}: unknown. {kind.name} takes {known}")
    return fault


def _set_selector(fault: Fault, name: str, value: object) -> None:
    path = f"{fault.kind.name}.{name}"
    if name == "probability":
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise InvalidFault(f"{path}: must be a number from 0 to 1")
        fault.probability = float(value)
    elif name == "times":
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidFault(f"{path}: must be an integer, 0 or more")
        fault.times = value
    elif not isinstance(value, str):
        raise InvalidFault(f"{path}: must be a string")
    elif name == "application":
        fault.application = value
    elif value in NAMES:
        fault.endpoint = value
    else:
        raise InvalidFault(f"{path}: no such call. Known calls: {', '.join(sorted(NAMES))}")


def _validated_value(kind: FaultKind, name: str, value: object) -> Value:
    """Return the value if it has the type of its default."""
    default = kind.values[name]
    if isinstance(default, StrEnum):
        members = [*map(str, type(default))]
        if value in members:
            return str(value)
        raise InvalidFault(f"{kind.name}.{name}: must be one of {', '.join(members)}")
    if isinstance(default, bool | str):
        if isinstance(value, type(default)):
            return value
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value)
    expected = {bool: "true or false", str: "a string"}.get(type(default), "a number, 0 or more")
    raise InvalidFault(f"{kind.name}.{name}: must be {expected}")
