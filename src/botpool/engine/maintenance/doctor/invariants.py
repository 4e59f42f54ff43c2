"""The invariants that rows can show. Each one is a file in `store/sql/checks`.

Tests check the invariants of the kind `always` after every scenario, with `ALL_HISTORY`. The doctor
checks all of them on a live system, and only the latest part of the history.
"""

import asyncio
import itertools
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.policy import Policy
from botpool.engine.maintenance.doctor.findings import Check, Finding
from botpool.store.readonly_connection import (
    ReadonlyConnection,
    Violation,
    check_names,
    check_statement,
)

_RECENT_ROWS = 20_000
_LATE_LEASES = 3
_POLLS_BEFORE_RECHECK = 3
_SHOWN = 3

ALL_HISTORY: Mapping[str, Any] = {"recent": None}
"""The parameters of the invariants of the kind `always`, without a limit."""


class Kind(StrEnum):
    """How long an invariant may be violated, and what a violation means."""

    ALWAYS = "always"
    """Every transaction keeps it."""
    MOMENTARY = "momentary"
    """It may be violated for a moment, so that the doctor checks it twice."""
    HARMLESS = "harmless"
    """Momentary, and a violation is a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant(Check):
    """A condition on rows; `name` is its file."""

    kind: Kind


def _invariant(name: str) -> Invariant:
    """Read an invariant from the comment at the head of its file."""
    lines = itertools.takewhile(
        lambda line: line.startswith("--"), check_statement(name).splitlines()
    )
    head = " ".join(line.removeprefix("--").strip() for line in lines)
    found = re.search(r"Meaning: (.*) Remedy: (.*) Kind: (\w+)$", head)
    assert found is not None, f"{name}.sql says its meaning, its remedy and its kind"
    meaning, remedy, kind = found.groups()
    return Invariant(name=name, meaning=meaning, remedy=remedy, kind=Kind(kind))


def _order(invariant: Invariant) -> tuple[int, str]:
    """Order the invariants by their number in the design; those without a number follow."""
    number = re.match(r"\d+", invariant.meaning)
    return (int(number[0]) if number else sys.maxsize), invariant.name


INVARIANTS = tuple(sorted(map(_invariant, check_names()), key=_order))


async def check_invariants(
    connection: ReadonlyConnection,
    *,
    policy: Policy,
    backends: Sequence[str],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[Finding]:
    """Check each invariant; check violations that may be momentary again after a few polls."""
    parameters = {
        "recent": _RECENT_ROWS,
        "late_s": _LATE_LEASES * policy.lease_s,
        "wait_timeout_s": policy.deploy_wait_timeout_s,
        "max_duration_s": policy.max_duration_s,
        "backends": list(backends),
    }
    to_recheck: list[tuple[Invariant, Sequence[Violation]]] = []
    for invariant in INVARIANTS:
        try:
            violations = await connection.violations(invariant.name, parameters)
        except DatabaseUnavailable as error:
            yield invariant.not_checked(error)
            continue
        if violations and invariant.kind is not Kind.ALWAYS:
            to_recheck.append((invariant, violations))
        else:
            yield finding_of(invariant, violations)
    if to_recheck:
        await sleep(_POLLS_BEFORE_RECHECK * policy.queue_poll_s)
    for invariant, before in to_recheck:
        try:
            after = await connection.violations(invariant.name, parameters)
        except DatabaseUnavailable as error:
            yield invariant.not_checked(error)
            continue
        yield finding_of(invariant, persistent(before, after))


def persistent(before: Sequence[Violation], after: Sequence[Violation]) -> list[Violation]:
    """Return the violations whose subject, the first column, was already there before."""
    subjects = {_subject(violation) for violation in before}
    return [violation for violation in after if _subject(violation) in subjects]


def finding_of(invariant: Invariant, violations: Sequence[Violation]) -> Finding:
    """Turn the violations of an invariant into a finding that shows the first few."""
    if not violations:
        return invariant.ok()
    shown = "; ".join(map(_as_text, violations[:_SHOWN]))
    found = shown if len(violations) <= _SHOWN else f"{len(violations)} in all: {shown}; …"
    harmless = invariant.kind is Kind.HARMLESS
    return invariant.warning(found) if harmless else invariant.wrong(found)


def _subject(violation: Violation) -> object:
    return next(iter(violation.values()))


def _as_text(violation: Violation) -> str:
    """Render `slot` as "slot pool-zoom-001" and `due_for_s` as "due for 90 s"."""
    return ", ".join(
        f"{column.removesuffix('_s').replace('_', ' ')} "
        f"{'none' if value is None else value}{' s' if column.endswith('_s') else ''}"
        for column, value in violation.items()
    )
