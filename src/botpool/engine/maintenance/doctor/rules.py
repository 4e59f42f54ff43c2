"""What must always hold, as far as rows can show it. Each rule is a file in `store/sql/checks`.

Tests ask the rules marked `always` after every scenario, with `EVERYTHING`; `botpool doctor` asks
all of them of a live system, and of its history only the latest part.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.policy import Policy
from botpool.engine.maintenance.doctor.findings import Check, Finding
from botpool.store.database import Rows
from botpool.store.readonly_connection import ReadonlyConnection

_RECENT = 20_000
_LATE_LEASES = 3
_POLLS = 3
_SHOWN = 3

EVERYTHING: Mapping[str, Any] = {"recent": None}
"""Parameters that bound nothing, for rules that always hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Check):
    always: bool = True
    """Every transaction keeps it. Others may be seen broken in passing, and are looked at twice."""
    harmless: bool = False
    """Broken, it is worth a warning."""


_BY_HAND = "No statement of Botpool's does this: keep a copy of the database, report it, and "
_STOP = "stop the bot: 'botpool bot stop'."
_DELETE = "'botpool slot delete --force'"

RULES: tuple[Rule, ...] = (
    Rule(
        name="one_slot_per_bot",
        meaning="1. a bot is in at most one slot",
        remedy=_BY_HAND + _STOP,
    ),
    Rule(
        name="bots_follow_status",
        meaning="2. who has a bot follows from the status",
        remedy=_BY_HAND + f"delete the slot: {_DELETE}.",
    ),
    Rule(
        name="unique_names",
        meaning="3. numbers and names are unique in their pool, container ids in a backend",
        remedy=_BY_HAND
        + f"look for a missing unique index, then delete one of the slots: {_DELETE}.",
    ),
    Rule(
        name="identities_are_kept",
        meaning="3. a slot is known by the number and the container that it has",
        remedy=_BY_HAND + "see that triggers are enabled ('session_replication_role').",
    ),
    Rule(
        name="pool_maximum",
        meaning="4. a pool never exceeds its maximum, except by bots that ran when it was lowered",
        remedy="See that a replica runs: it takes idle slots above the maximum down.",
    ),
    Rule(
        name="queued_and_queue_row",
        meaning="5. QUEUED exactly while there is a queue row, never also assigned",
        remedy=_BY_HAND + "stop the bot: 'botpool bot stop'.",
    ),
    Rule(
        name="slot_has_its_assignment",
        meaning="7. a slot with a bot belongs to that bot's last assignment, which has not ended",
        remedy=_BY_HAND + _STOP,
    ),
    Rule(
        name="assignment_has_its_slot",
        meaning="7. an assignment that has not ended has its slot",
        remedy=_BY_HAND + "see that the container of that bot does not run.",
    ),
    Rule(
        name="bot_history",
        meaning="8. a bot's history is a chain of moves from PENDING to its status",
        remedy=_BY_HAND + "do not trust the history of these bots.",
    ),
    Rule(
        name="slot_history",
        meaning="8. a slot's history is a chain of moves to its status",
        remedy=_BY_HAND + "do not trust the history of these slots.",
    ),
    Rule(
        name="live_bot_has_its_place",
        meaning="10. a bot that is not final is queued or in a slot",
        remedy=_BY_HAND + "send a new bot to that meeting: this one is lost.",
    ),
    Rule(
        name="final_stays_final",
        meaning="11. a final status never changes",
        remedy=_BY_HAND + "see that triggers are enabled ('session_replication_role').",
    ),
    Rule(
        name="queue_is_served",
        meaning="12. no queue row stays beside an assignable idle slot or room to grow",
        remedy="See that a replica runs ('replicas', 'schema') and read its log for 'loop.failed'.",
        always=False,
    ),
    Rule(
        name="work_has_a_next_step",
        meaning="every slot with work to do has its next step",
        remedy=_BY_HAND + f"delete the slot: {_DELETE}.",
    ),
    Rule(
        name="leaders_deploy",
        meaning="only a slot that deploys, or is released from that, leads the pull of an image",
        remedy=_BY_HAND + f"delete the slot, others wait for its pull: {_DELETE}.",
    ),
    Rule(
        name="ended_bot_leaves_its_slot",
        meaning="a slot does not deploy or run a bot that has ended",
        remedy="See that a replica runs: its next pass releases the slot.",
        always=False,
    ),
    Rule(
        name="steps_are_made",
        meaning="a step that is due is made within a minute",
        remedy="See that a replica runs, that it sets up the slot's backend, and read its log.",
        always=False,
    ),
    Rule(
        name="leases_end",
        meaning="a lease is given back or taken over",
        remedy="Nothing, if a replica was killed: the slot's next step takes the lease over.",
        always=False,
        harmless=True,
    ),
    Rule(
        name="waiting_is_limited",
        meaning="no slot waits to be made, for its image or for its start beyond the limit",
        remedy="See that a replica runs, and that the backend answers ('backend').",
        always=False,
    ),
    Rule(
        name="backends_are_set_up",
        meaning="every slot's backend is set up",
        remedy="Set that backend up until its slots are gone, or examine with the settings of "
        "'serve' (--config).",
        always=False,
    ),
    Rule(
        name="maximum_duration",
        meaning="no bot runs beyond the maximum duration",
        remedy="See that a replica runs, then stop the bot: 'botpool bot stop'.",
        always=False,
    ),
)


async def examine_rules(
    connection: ReadonlyConnection,
    *,
    policy: Policy,
    backends: Sequence[str],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[Finding]:
    """Each rule once; those that may be broken in passing again after a few polls, together."""
    parameters = {
        "recent": _RECENT,
        "late_s": _LATE_LEASES * policy.lease_s,
        "wait_timeout_s": policy.deploy_wait_timeout_s,
        "max_duration_s": policy.max_duration_s,
        "backends": list(backends),
    }
    doubted: list[tuple[Rule, Rows]] = []
    for rule in RULES:
        try:
            rows = await connection.broken(rule.name, parameters)
        except DatabaseUnavailable as error:
            yield rule.not_examined(error)
            continue
        if rows and not rule.always:
            doubted.append((rule, rows))
        else:
            yield finding_of(rule, rows)
    if doubted:
        await sleep(_POLLS * policy.queue_poll_s)
    for rule, before in doubted:
        try:
            rows = await connection.broken(rule.name, parameters)
        except DatabaseUnavailable as error:
            yield rule.not_examined(error)
            continue
        yield finding_of(rule, still(before, rows))


def still(before: Rows, after: Rows) -> Rows:
    """The rows that were there before, by what they are about: their first column."""
    subjects = {_subject(row) for row in before}
    return [row for row in after if _subject(row) in subjects]


def finding_of(rule: Rule, rows: Rows) -> Finding:
    if not rows:
        return rule.ok()
    shown = "; ".join(map(_words, rows[:_SHOWN]))
    found = shown if len(rows) <= _SHOWN else f"{len(rows)} in all: {shown}; …"
    return rule.warning(found) if rule.harmless else rule.wrong(found)


def _subject(row: Mapping[str, Any]) -> object:
    return next(iter(row.values()))


def _words(row: Mapping[str, Any]) -> str:
    """`slot` becomes "slot pool-zoom-001", `due_for_s` "due for 90 s"."""
    return ", ".join(
        f"{column.removesuffix('_s').replace('_', ' ')} "
        f"{'none' if value is None else value}{' s' if column.endswith('_s') else ''}"
        for column, value in row.items()
    )
