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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from botpool.emulators.coolify.endpoints import ENDPOINTS
from botpool.emulators.coolify.fault_kinds import KINDS, FaultKind, Value

CLEAR = "clear"
_TARGETS = ("application", "endpoint", "image", "worked")
"""The selectors and values that must equal those of an operation. An empty image is any image."""


class InvalidFault(Exception):
    """The requested fault is not valid; the message says why."""


@dataclass(slots=True)
class Fault:
    values: dict[str, Any]
    """The values of the fault, and the selectors that were given."""

    def number(self, name: str = "seconds") -> float:
        return float(self.values[name])

    def text(self, name: str) -> str:
        return str(self.values[name])

    @property
    def is_used_up(self) -> bool:
        return self.values.get("times") == 0

    def matches(self, target: Mapping[str, Value | None]) -> bool:
        wanted = {name: self.values[name] for name in _TARGETS if name in self.values}
        return all(value in ("", target.get(name)) for name, value in wanted.items())

    def count_down(self) -> None:
        if "times" in self.values:
            self.values["times"] -= 1


class Faults:
    """The faults that are set. `happens` draws whether an event with a probability happens."""

    def __init__(self, happens: Callable[[float], bool]) -> None:
        self._happens = happens
        self._set: dict[str, list[Fault]] = {}

    def change(self, wanted: object, on_change: Callable[[str], None]) -> None:
        """Apply all changes or none. Calls `on_change` with the name of each changed fault."""
        changes = _parse_faults(wanted)
        if CLEAR in changes:
            del changes[CLEAR]
            changes = {name: [] for name in self._set} | changes
        for name, faults in changes.items():
            before = self._set.pop(name, None)
            if faults:
                self._set[name] = faults
            if faults or before:
                on_change(name)

    def trigger(self, name: str, **target: Value | None) -> Fault | None:
        """Return the fault if it happens now to the described operation, and count it down."""
        for fault in self._set.get(name, ()):
            if fault.is_used_up or not fault.matches(target):
                continue
            if self._happens(fault.values.get("probability", 1)):
                fault.count_down()
                return fault
        return None

    def active(self, name: str) -> Fault | None:
        """Return a lasting fault if it is set."""
        return next(iter(self._set.get(name, ())), None)

    def as_json(self) -> dict[str, Any]:
        live = {
            name: [fault.values for fault in faults if not fault.is_used_up]
            for name, faults in self._set.items()
        }
        return {name: faults for name, faults in live.items() if faults}


def _parse_faults(wanted: object) -> dict[str, list[Fault]]:
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
            faults = [_parse_fault(KINDS[name], spec) for spec in specs]
            changes[name] = [fault for fault in faults if fault is not None]
        else:
            raise InvalidFault(f"{name}: no such fault. Known faults: clear, {', '.join(KINDS)}")
    return changes


def _parse_fault(kind: FaultKind, spec: object) -> Fault | None:
    if spec is None or spec is False or spec == 0:
        return None
    if spec is True:
        spec = {}
    elif isinstance(spec, int) and "times" in kind.selectors:
        spec = {"times": spec}
    if not isinstance(spec, Mapping):
        raise InvalidFault(
            f"{kind.name}: must be true, false, a number of times, an object or a list"
        )
    for name, value in spec.items():
        if name not in kind.values and name not in kind.selectors:
            known = ", ".join(sorted([*kind.selectors, *kind.values])) or "only true"
            raise InvalidFault(f"{kind.name}.{name}: unknown. {kind.name} takes {known}")
        _check_value(kind, name, value)
    return Fault({**kind.values, **spec})


def _check_value(kind: FaultKind, name: str, value: object) -> None:
    """Check a selector, or a value, which must have the type of its default."""
    default = kind.values.get(name)
    if name == "endpoint":
        is_valid, expected = _is_one_of([each.name for each in ENDPOINTS], value)
    elif isinstance(default, StrEnum):
        is_valid, expected = _is_one_of([*map(str, type(default))], value)
    elif name == "application" or isinstance(default, str):
        is_valid, expected = isinstance(value, str), "a string"
    elif isinstance(default, bool):
        is_valid, expected = isinstance(value, bool), "true or false"
    elif name == "times":
        is_valid, expected = type(value) is int and value >= 0, "an integer, 0 or more"
    elif name == "probability":
        is_valid, expected = _is_number(value, maximum=1), "a number from 0 to 1"
    else:
        is_valid, expected = _is_number(value), "a number, 0 or more"
    if not is_valid:
        raise InvalidFault(f"{kind.name}.{name}: must be {expected}")


def _is_one_of(choices: Sequence[str], value: object) -> tuple[bool, str]:
    return value in choices, f"one of {', '.join(choices)}"


def _is_number(value: object, *, maximum: float = 1e9) -> bool:
    return isinstance(value, int | float) and value is not True and 0 <= value <= maximum
