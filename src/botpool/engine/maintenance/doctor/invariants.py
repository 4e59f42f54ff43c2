"""The invariants that rows can show. Each one is a file in `store/sql/checks`.

Tests check the invariants marked `always` after every scenario, with `ALL_HISTORY`. The doctor
checks all of them on a live system, and only the latest part of the history.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.policy import Policy
from botpool.engine.maintenance.doctor.findings import Check, Finding
from botpool.store.readonly_connection import ReadonlyConnection, Violation

_RECENT_ROWS = 20_000
_LATE_LEASES = 3
_POLLS_BEFORE_RECHECK = 3
_SHOWN = 3

ALL_HISTORY: Mapping[str, Any] = {"recent": None}
"""The parameters of the invariants marked `always`, without a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant(Check):
    """A condition on rows; `name` is its file."""

    always: bool = True
    """Every transaction keeps it. The others may be violated for a moment and are checked twice."""
    harmless: bool = False
    """A violation is a warning."""


_BUG = "Botpool never writes this state. Back up the database, report it, then "
_STOP = "stop the bot: 'botpool bot stop'."
_DELETE = "'botpool slot delete --force'"
_TRIGGERS = "check that triggers are enabled ('session_replication_role')."
_CHECK_REPLICA = "Check that a replica runs"

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        name="bot_is_in_one_slot",
        meaning="1. a bot is in at most one slot",
        remedy=_BUG + _STOP,
    ),
    Invariant(
        name="status_decides_on_bot",
        meaning="2. a slot has a bot exactly if it is deploying, busy or releasing",
        remedy=_BUG + f"delete the slot: {_DELETE}.",
    ),
    Invariant(
        name="slot_names_are_unique",
        meaning="3. slot numbers and names are unique in their pool, container ids at a backend",
        remedy=_BUG + f"look for a missing unique index and delete one of the slots: {_DELETE}.",
    ),
    Invariant(
        name="slot_identity_matches_slot",
        meaning="3. slot_identities has the number and the container of every slot",
        remedy=_BUG + _TRIGGERS,
    ),
    Invariant(
        name="pool_is_within_maximum",
        meaning="4. a pool has no idle slots above its maximum",
        remedy=_CHECK_REPLICA + ": it deletes idle slots above the maximum.",
    ),
    Invariant(
        name="queued_bot_has_queue_row",
        meaning="5. a bot is QUEUED exactly while it has a queue row, and then has no slot",
        remedy=_BUG + _STOP,
    ),
    Invariant(
        name="slot_has_current_assignment",
        meaning="7. a slot with a bot has the bot's last assignment, which has not ended",
        remedy=_BUG + _STOP,
    ),
    Invariant(
        name="open_assignment_has_slot",
        meaning="7. an assignment that has not ended has its slot",
        remedy=_BUG + "check that the container of that bot does not run.",
    ),
    Invariant(
        name="bot_history_is_complete",
        meaning="8. a bot's history is a chain of transitions from PENDING to its status",
        remedy=_BUG + "do not rely on the history of these bots.",
    ),
    Invariant(
        name="slot_history_is_complete",
        meaning="8. a slot's history is a chain of transitions to its status",
        remedy=_BUG + "do not rely on the history of these slots.",
    ),
    Invariant(
        name="live_bot_has_slot_or_queue_row",
        meaning="10. a bot without a final status is queued or in a slot",
        remedy=_BUG + "create a new bot for that meeting: this one is lost.",
    ),
    Invariant(
        name="final_status_is_kept",
        meaning="11. a final status never changes",
        remedy=_BUG + _TRIGGERS,
    ),
    Invariant(
        name="queue_is_matched",
        meaning="12. no queue row remains beside an assignable idle slot or room to grow",
        remedy=_CHECK_REPLICA + " ('replicas', 'schema') and read its log for 'loop.failed'.",
        always=False,
    ),
    Invariant(
        name="active_slot_has_next_step",
        meaning="every slot with work to do has a time for its next step",
        remedy=_BUG + f"delete the slot: {_DELETE}.",
    ),
    Invariant(
        name="image_leader_is_deploying",
        meaning="a slot that leads the pull of an image is deploying or releasing",
        remedy=_BUG + f"delete the slot, because other slots wait for its pull: {_DELETE}.",
    ),
    Invariant(
        name="ended_bot_has_no_slot",
        meaning="no slot deploys or runs a bot that has ended",
        remedy=_CHECK_REPLICA + ": its next recovery pass releases the slot.",
        always=False,
    ),
    Invariant(
        name="due_step_is_taken",
        meaning="a replica takes a due step within a minute",
        remedy=_CHECK_REPLICA + ", that it configures the slot's backend, and read its log.",
        always=False,
    ),
    Invariant(
        name="expired_lease_is_taken_over",
        meaning="a replica returns a lease or another one takes it over",
        remedy="Nothing, if a replica was killed: the slot's next step takes the lease over.",
        always=False,
        harmless=True,
    ),
    Invariant(
        name="waiting_phase_is_within_limit",
        meaning="no slot waits beyond the limit for its creation, its image or its start",
        remedy=_CHECK_REPLICA + ", and that the backend answers ('backend').",
        always=False,
    ),
    Invariant(
        name="backend_of_slot_is_configured",
        meaning="the settings configure the backend of every slot",
        remedy="Configure that backend until its slots are gone, or run the doctor with the "
        "settings of 'serve' (--config).",
        always=False,
    ),
    Invariant(
        name="bot_is_within_maximum_duration",
        meaning="no bot runs beyond the maximum duration",
        remedy=_CHECK_REPLICA + ", then stop the bot: 'botpool bot stop'.",
        always=False,
    ),
)


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
        if violations and not invariant.always:
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
    return invariant.warning(found) if invariant.harmless else invariant.wrong(found)


def _subject(violation: Violation) -> object:
    return next(iter(violation.values()))


def _as_text(violation: Violation) -> str:
    """Render `slot` as "slot pool-zoom-001" and `due_for_s` as "due for 90 s"."""
    return ", ".join(
        f"{column.removesuffix('_s').replace('_', ' ')} "
        f"{'none' if value is None else value}{' s' if column.endswith('_s') else ''}"
        for column, value in violation.items()
    )
