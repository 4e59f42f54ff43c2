"""Lists as tables that fit 80 columns."""

from collections.abc import Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from botpool.cli.formatting import (
    cell,
    list_table,
    sanitised,
    shortened,
    shrinkable,
    slot_number,
    status,
    transition,
)
from botpool.cli.times import ago, duration, duration_of_ms, precise_duration, until
from botpool.client import (
    Artifact,
    AuditEntry,
    Bot,
    Delivery,
    Event,
    Plan,
    Pool,
    QueueEntry,
    Slot,
    SlotEvent,
    Webhook,
)

_NAME = 16


def bots(listed: Sequence[Bot], now: datetime) -> Table:
    several = len({bot.tenant for bot in listed}) > 1
    tenant = ("TENANT",) if several else ()
    names = ("BOT", "STATUS", "PLATFORM", *tenant, "SLOT", "CREATED", "NAME", "FAILURE")
    table = list_table(*names, wrap="NAME")
    for bot in listed:
        table.add_row(
            str(bot.id),
            status(bot.status),
            cell(bot.platform),
            *([cell(bot.tenant)] if several else []),
            slot_number(bot.slot_name),
            ago(bot.created_at, now),
            shrinkable(Text(shortened(bot.bot_display_name, _NAME))),
            cell(bot.failure_code),
        )
    return table


def artifacts(listed: Sequence[Artifact]) -> Table:
    table = list_table("KIND", "SIZE", "TYPE", "LOCATION", right="SIZE", wrap="LOCATION")
    for each in listed:
        table.add_row(
            cell(each.kind), _size(each.size_bytes), cell(each.content_type), cell(each.location)
        )
    return table


def _size(size_bytes: int | None) -> str:
    """A number of bytes in the largest unit that keeps it above 1."""
    if size_bytes is None:
        return "-"
    size, unit = float(size_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):  # noqa: B007 - the last one is shown
        if size < 1024:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def bot_history(listed: Sequence[Event]) -> Table:
    return _history(listed, "SLOT", [Text(slot_number(event.slot_name)) for event in listed])


def slot_history(listed: Sequence[SlotEvent]) -> Table:
    return _history(listed, "BOT", [cell(event.bot_id) for event in listed])


def _history(listed: Sequence[Event], title: str, cells: Sequence[Text]) -> Table:
    """A history, oldest first; each line has its time since the first, and its cell of `cells`."""
    table = list_table("AFTER", "EVENT", "CHANGE", title, "REASON", right="AFTER", wrap="REASON")
    for event, own_cell in zip(listed, cells, strict=True):
        after = event.at - listed[0].at
        table.add_row(
            precise_duration(after.total_seconds()),
            cell(event.kind),
            transition(event.from_state, event.to_state),
            own_cell,
            cell(event.reason),
        )
    return table


def queue(listed: Sequence[QueueEntry], now: datetime) -> Table:
    names = ("POSITION", "BOT", "PLATFORM", "PRIORITY", "WAITED", "ESTIMATE", "EXPIRES")
    table = list_table(*names, right="POSITION BOT PRIORITY")
    for entry in listed:
        wait_ms = entry.estimated_wait_ms
        table.add_row(
            str(entry.position),
            str(entry.bot_id),
            cell(entry.platform),
            str(entry.priority),
            duration((now - entry.queued_at).total_seconds()),
            "unknown" if wait_ms is None else duration(wait_ms / 1000),
            until(entry.timeout_at, now),
        )
    return table


def audit(listed: Sequence[AuditEntry], now: datetime) -> Table:
    table = list_table("TIME", "ACTOR", "ACTION", "TARGET", "ADDRESS", wrap="ACTOR TARGET")
    for entry in listed:
        table.add_row(
            ago(entry.at, now),
            cell(entry.actor),
            cell(entry.action),
            cell(entry.target),
            cell(entry.address or "-"),
        )
    return table


def slots(listed: Sequence[Slot], now: datetime) -> Table:
    names = ("ID", "NAME", "STATUS", "BOT", "USED", "NOTE")
    table = list_table(*names, right="ID", wrap="STATUS NOTE")
    for slot in listed:
        notes = ["cordoned"] if slot.cordoned else []
        notes += [f"standby {slot.standby}"] if slot.standby else []
        notes += [f"stop not confirmed: {unconfirmed(slot)}"] if slot.unconfirmed_reason else []
        notes += [slot.error_message] if slot.error_message else []
        table.add_row(
            str(slot.id),
            cell(slot.name),
            shrinkable(status(slot.status, slot.phase)),
            cell(slot.assigned_bot_id),
            ago(slot.last_used_at, now),
            shrinkable(cell(", ".join(notes) or None)),
        )
    return table


def unconfirmed(slot: Slot) -> str:
    """Why the stop of a slot's container cannot be confirmed, and since when."""
    since = f" since {slot.unconfirmed_since:%Y-%m-%dT%H:%M:%SZ}" if slot.unconfirmed_since else ""
    return f"{slot.unconfirmed_reason}{since}"


def pools(listed: Sequence[Pool]) -> Table:
    figures = ("SLOTS", "IDLE", "BUSY", "QUEUE", "WAIT", "WARM", "P50", "P95")
    table = list_table("PLATFORM", *figures, "STATE", right=" ".join(figures))
    for pool in listed:
        name, size, *others = pool_figures(pool)
        idle, busy = (str(pool.slots_by_status.get(status, 0)) for status in ("idle", "busy"))
        table.add_row(name, size, idle, busy, *others, pool_state(pool))
    return table


def plan(found: Plan) -> Table:
    within = f"IN {duration(found.within_ms / 1000)}"
    figures = (within, "P50", "P95", "P99", "QUEUE", "IDLE H/DAY", "HOT H/DAY")
    table = list_table("POLICY", *figures, right=" ".join(figures))
    for policy in found.policies:
        hours = (policy.idle_slot_hours_per_day, policy.hot_slot_hours_per_day)
        is_recommended = policy.name == found.recommended
        table.add_row(
            Text(f"{policy.name} *", style="bold green") if is_recommended else policy.name,
            f"{policy.on_time_share:.2%}",
            *(duration_of_ms(ms) for ms in (policy.p50_ms, policy.p95_ms, policy.p99_ms)),
            "-" if policy.longest_queue is None else str(policy.longest_queue),
            *("-" if each is None else f"{each:.0f}" for each in hours),
        )
    return table


def pool_figures(pool: Pool, age_s: float = 0.0) -> list[str]:
    """Name, slots, queue, longest wait, warm starts, p50 and p95, `age_s` after the response."""
    wait_ms = pool.oldest_wait_ms
    return [
        sanitised(pool.platform),
        f"{pool.size}/{pool.max_size}",
        str(pool.queue_depth),
        "-" if wait_ms is None else duration(wait_ms / 1000 + age_s),
        percentage(pool.warm_hit_ratio),
        duration_of_ms(pool.time_to_running_p50_ms),
        duration_of_ms(pool.time_to_running_p95_ms),
    ]


def pool_state(pool: Pool) -> Text:
    if not pool.backend_health.ok:
        return Text("failing", style="bold red")
    if pool.is_paused:
        return Text("paused", style="bold red")
    if pool.removed:
        return Text("removed", style="yellow")
    return Text("drained", style="yellow") if pool.drained else Text("open", style="green")


def percentage(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.0%}"


def webhooks(listed: Sequence[Webhook], now: datetime) -> Table:
    names = ("ID", "STATUS", "URL", "PENDING", "FAILED", "DELIVERED", "NOTE")
    table = list_table(*names, right="ID PENDING FAILED", wrap="URL NOTE")
    styles = {"active": "green", "failing": "yellow", "disabled": "bold red"}
    for webhook in listed:
        note = webhook.disabled_reason or webhook.description
        table.add_row(
            str(webhook.id),
            Text(sanitised(webhook.status), style=styles.get(webhook.status, "")),
            shrinkable(cell(webhook.url)),
            str(webhook.pending),
            str(webhook.failed),
            ago(webhook.last_delivered_at, now),
            shrinkable(cell(note or None)),
        )
    return table


def deliveries(listed: Sequence[Delivery], now: datetime) -> Table:
    names = ("EVENT", "TYPE", "BOT", "STATUS", "TRIES", "LAST", "NEXT", "ANSWER")
    table = list_table(*names, right="TRIES", wrap="ANSWER")
    for delivery in listed:
        answer = delivery.problem or (delivery.response and f"{delivery.response['status']}")
        following = delivery.next_attempt_at
        table.add_row(
            cell(delivery.event_id),
            cell(delivery.type),
            cell(delivery.bot_id),
            cell(delivery.status),
            str(delivery.attempts),
            ago(delivery.last_attempt_at, now),
            "-" if following is None else until(following, now),
            shrinkable(cell(answer)),
        )
    return table
