"""Details of one bot, slot or pool."""

import json
from collections.abc import Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from botpool.cli.formatting import cell, detail_table, status
from botpool.cli.tables import percentage, pool_state, unconfirmed
from botpool.cli.times import duration, duration_of_ms, moment, time_and_age
from botpool.client import Bot, Pool, Rollout, Slot
from botpool.client.records import Pacing, WarmFloors
from botpool.domain.states import BotStatus


def bot(shown: Bot, now: datetime) -> Table:
    table = detail_table()
    table.add_row("bot", str(shown.id))
    table.add_row("status", status(shown.status))
    if position := queue_position(shown):
        table.add_row("queue", position)
    if shown.join_at:
        table.add_row("joins", moment(shown.join_at))
        table.add_row("reservation", reservation(shown))
    if shown.at_risk:
        table.add_row("at risk", cell(shown.at_risk))
    if shown.failure_code:
        table.add_row("failure", cell(f"{shown.failure_code}: {shown.failure_reason}"))
    if shown.stalled:
        table.add_row("stalled", "in the call and alive, but records nothing")
    if shown.progress:
        table.add_row("progress", cell(json.dumps(shown.progress, ensure_ascii=False)))
    if shown.end_reason:
        table.add_row("call ended", cell(shown.end_reason))
    if shown.artifact_count:
        table.add_row("artifacts", f"{shown.artifact_count}: botpool bot artifacts {shown.id}")
    table.add_row("name", cell(shown.bot_display_name))
    table.add_row("meeting", cell(shown.meeting_url))
    table.add_row("platform", cell(shown.platform))
    table.add_row("priority", str(shown.priority))
    table.add_row("slot", cell(shown.slot_name))
    table.add_row("container", cell(shown.container_id))
    table.add_row("attempts", str(shown.attempts))
    table.add_row("correlation", cell(shown.correlation_id))
    table.add_row("tenant", cell(shown.tenant))
    table.add_row("created by", cell(shown.created_by and shown.created_by.key_name))
    table.add_row("created", time_and_age(shown.created_at, now))
    table.add_row("queued", time_and_age(shown.queued_at, now))
    table.add_row("assigned", time_and_age(shown.assigned_at, now))
    table.add_row("started", time_and_age(shown.started_at, now))
    table.add_row("heartbeat", time_and_age(shown.last_heartbeat_at, now))
    if shown.last_media_at:
        table.add_row("last media", time_and_age(shown.last_media_at, now))
    table.add_row("finishing", time_and_age(shown.finishing_at, now))
    table.add_row("ended", time_and_age(shown.ended_at, now))
    return table


def bot_line(shown: Bot) -> Text:
    """A bot in one line: its status, with its position, its failure or its slot."""
    line = Text(f"Bot {shown.id} ").append_text(status(shown.status))
    if position := queue_position(shown):
        line.append(f", {position}")
    elif shown.failure_reason:
        line.append(f" {shown.failure_code or ''}: ").append_text(cell(shown.failure_reason))
    elif shown.status == BotStatus.SCHEDULED and shown.join_at:
        line.append(f" for {moment(shown.join_at)}, {reservation(shown)}")
    elif shown.slot_name and not shown.is_final:
        line.append(" in ").append_text(cell(shown.slot_name))
    if shown.warning:
        line.append("\n").append_text(cell(shown.warning))
    return line


def reservation(shown: Bot) -> str:
    """Whether a slot is reserved for a scheduled bot, and how likely it is on time."""
    text = "slot reserved" if shown.reserved else "no slot reserved"
    if shown.on_time_probability is not None:
        text += f", on time with {shown.on_time_probability:.1%}"
    return text


def queue_position(shown: Bot) -> str | None:
    """The position of a queued bot and its estimated wait."""
    if shown.queue_position is None:
        return None
    position = f"number {shown.queue_position} in the queue"
    if shown.estimated_wait_ms is not None:
        position += f", estimated wait {duration(shown.estimated_wait_ms / 1000)}"
    return position


def slot(shown: Slot, now: datetime) -> Table:
    table = detail_table()
    table.add_row("slot", str(shown.id))
    table.add_row("name", cell(shown.name))
    table.add_row("platform", cell(shown.platform))
    table.add_row("status", status(shown.status, shown.phase))
    table.add_row("cordoned", "yes" if shown.cordoned else "no")
    if shown.standby:
        waits = f", since {time_and_age(shown.standby_since, now)}" if shown.standby_since else ""
        table.add_row("standby", f"{shown.standby}{waits}")
    if shown.unconfirmed_reason:
        table.add_row("stop", cell(f"not confirmed: {unconfirmed(shown)}"))
    if shown.error_message:
        table.add_row("error", cell(shown.error_message))
    table.add_row("bot", cell(shown.assigned_bot_id))
    table.add_row("container", cell(shown.container_id))
    table.add_row("image", cell(shown.image))
    table.add_row("resets", f"{shown.recovery_attempts}, {shown.skipped_recoveries} skipped")
    table.add_row("created", time_and_age(shown.created_at, now))
    table.add_row("assigned", time_and_age(shown.last_assigned_at, now))
    table.add_row("released", time_and_age(shown.last_released_at, now))
    table.add_row("used", time_and_age(shown.last_used_at, now))
    return table


def pool(
    shown: Pool, unconfirmed_slots: Sequence[Slot] = (), promoted: Rollout | None = None
) -> Table:
    by_status = (f"{count} {name}" for name, count in sorted(shown.slots_by_status.items()))
    table = detail_table()
    table.add_row("pool", cell(shown.platform))
    table.add_row("state", pool_state(shown))
    table.add_row("backend", cell(f"{shown.backend}: {shown.backend_health.detail or 'ok'}"))
    table.add_row("image", cell(shown.image))
    if shown.configured_image is not None:
        rollout = "a rollout" if promoted is None else f"rollout {promoted.id}"
        note = f"promoted by {rollout}; the settings name {shown.configured_image}"
        table.add_row("", cell(note))
    table.add_row("slots", f"{shown.size} of at most {shown.max_size}")
    table.add_row("", ", ".join(by_status) or "none: Botpool creates slots when bots need them")
    for slot in unconfirmed_slots:
        table.add_row("unconfirmed stop", cell(f"{slot.name}: {unconfirmed(slot)}"))
    if shown.warm is not None:
        _add_warm_floors(table, shown.warm)
    table.add_row("queue", f"{shown.queue_depth} bots")
    table.add_row("longest wait", duration_of_ms(shown.oldest_wait_ms))
    if shown.pacing is not None:
        table.add_row("pace", cell(_pace(shown.pacing)))
    table.add_row("warm starts", percentage(shown.warm_hit_ratio))
    table.add_row("time to running", f"p50 {duration_of_ms(shown.time_to_running_p50_ms)}")
    table.add_row("", f"p95 {duration_of_ms(shown.time_to_running_p95_ms)}")
    return table


def _add_warm_floors(table: Table, warm: WarmFloors) -> None:
    starting = f", {warm.hot_starting} starting" if warm.hot_starting else ""
    table.add_row("hot slots", f"{warm.hot_ready} of {warm.hot_target}{starting}")
    table.add_row("ready slots", f"{warm.idle_ready} of {warm.idle_target}")
    table.add_row("", cell(f"target: {warm.reason}"))
    if warm.problem:
        table.add_row("", cell(warm.problem))


def _pace(pacing: Pacing) -> str:
    """The pace of a pool's starts, and the state of its circuit breaker if it is not closed."""
    pace = f"{pacing.per_minute:g} starts per minute from egress {pacing.egress}"
    if pacing.per_minute < pacing.configured_per_minute:
        pace += f", lowered from {pacing.configured_per_minute:g} after blocks"
    if pacing.probe_at is None:
        return pace
    state = "open" if pacing.breaker == "open" else "half open"
    return (
        f"circuit breaker {state} after {pacing.blocks_in_a_row} blocks in a row: the next probe "
        f"starts at {pacing.probe_at:%H:%M:%S}Z at the earliest; then {pace}"
    )
