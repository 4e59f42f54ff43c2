"""Listings: what the API lists, as tables that fit 80 columns."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from botpool.cli import shapes
from botpool.cli.cells import change, giving_way, listing, said, short, slot_number, status
from botpool.cli.times import ago, moment, of_ms, span, took, until
from botpool.domain.records import ApiKey

_NAME = 16


def bots(listed: Sequence[shapes.Bot], now: datetime) -> Table:
    table = listing()
    for name in ("BOT", "STATUS", "PLATFORM", "SLOT", "CREATED"):
        table.add_column(name, no_wrap=True)
    table.add_column("NAME")
    table.add_column("FAILURE", no_wrap=True)
    for bot in listed:
        table.add_row(
            str(bot["id"]),
            status(bot["status"]),
            said(bot["platform"]),
            slot_number(bot["slotName"]),
            ago(bot["createdAt"], now),
            giving_way(Text(short(bot["botDisplayName"], _NAME))),
            said(bot["failureCode"]),
        )
    return table


def bot_history(listed: Sequence[shapes.Event]) -> Table:
    """What happened to a bot, and in which slot."""
    return _history(listed, "SLOT", [Text(slot_number(event["slotName"])) for event in listed])


def slot_history(listed: Sequence[shapes.SlotEvent]) -> Table:
    """What happened to a slot, and for which bot."""
    return _history(listed, "BOT", [said(event["botId"]) for event in listed])


def _history(listed: Sequence[shapes.Event], other: str, others: Sequence[Text]) -> Table:
    """A history, oldest first, each line with its time since the first."""
    table = listing()
    table.add_column("AFTER", justify="right", no_wrap=True)
    for name in ("WHAT", "CHANGE", other):
        table.add_column(name, no_wrap=True)
    table.add_column("REASON", overflow="fold")
    for event, beside in zip(listed, others, strict=True):
        after = moment(event["at"]) - moment(listed[0]["at"])
        table.add_row(
            took(after.total_seconds()),
            said(event["kind"]),
            change(event["from"], event["to"]),
            beside,
            said(event["reason"]),
        )
    return table


def queue(listed: Sequence[shapes.QueueEntry], now: datetime) -> Table:
    table = listing()
    table.add_column("POSITION", justify="right")
    table.add_column("BOT", justify="right")
    table.add_column("PLATFORM")
    table.add_column("PRIORITY", justify="right")
    for name in ("WAITS", "STILL ABOUT", "GIVES UP"):
        table.add_column(name, no_wrap=True)
    for entry in listed:
        wait_ms = entry["estimatedWaitMs"]
        table.add_row(
            str(entry["position"]),
            str(entry["botId"]),
            said(entry["platform"]),
            str(entry["priority"]),
            span((now - moment(entry["queuedAt"])).total_seconds()),
            "unknown" if wait_ms is None else span(wait_ms / 1000),
            until(entry["timeoutAt"], now),
        )
    return table


def slots(listed: Sequence[shapes.Slot], now: datetime) -> Table:
    table = listing()
    table.add_column("ID", justify="right", no_wrap=True)
    for name, gives_way in {"NAME": False, "STATUS": True, "BOT": False, "USED": False}.items():
        table.add_column(name, no_wrap=not gives_way)
    table.add_column("NOTE")
    for slot in listed:
        notes = ["cordoned"] if slot["cordoned"] else []
        notes += [slot["errorMessage"]] if slot["errorMessage"] else []
        table.add_row(
            str(slot["id"]),
            said(slot["name"]),
            giving_way(status(slot["status"], slot["phase"])),
            said(slot["assignedBotId"]),
            ago(slot["lastUsedAt"], now),
            giving_way(said(", ".join(notes) or None)),
        )
    return table


def pools(listed: Sequence[shapes.Pool]) -> Table:
    table = listing()
    table.add_column("PLATFORM", no_wrap=True)
    for name in ("SLOTS", "IDLE", "BUSY", "QUEUE", "OLDEST", "WARM", "P50", "P95"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("STATE", no_wrap=True)
    for pool in listed:
        by_status = pool["slotsByStatus"]
        table.add_row(
            said(pool["platform"]),
            f"{pool['size']}/{pool['maxSize']}",
            str(by_status.get("idle", 0)),
            str(by_status.get("busy", 0)),
            str(pool["queueDepth"]),
            _wait(pool["oldestWaitMs"]),
            share(pool["warmHitRatio"]),
            of_ms(pool["timeToRunningP50Ms"]),
            of_ms(pool["timeToRunningP95Ms"]),
            state(pool),
        )
    return table


def state(pool: shapes.Pool) -> Text:
    if not pool["backendHealth"]["ok"]:
        return Text("failing", style="bold red")
    return Text("drained", style="yellow") if pool["drained"] else Text("open", style="green")


def share(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.0%}"


def _wait(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else span(milliseconds / 1000)


def keys(listed: Sequence[ApiKey]) -> Table:
    table = listing()
    table.add_column("ID", justify="right")
    for name in ("NAME", "SCOPE", "BEGINS WITH", "CREATED", "STATE"):
        table.add_column(name, no_wrap=True)
    now = datetime.now(UTC)
    for key in listed:
        revoked = key.revoked_at and f"revoked {ago(key.revoked_at.isoformat(), now)}"
        table.add_row(
            str(key.id),
            Text(short(key.name, 2 * _NAME)),
            key.scope,
            key.prefix,
            ago(key.created_at.isoformat(), now),
            Text(revoked, style="dim") if revoked else Text("valid", style="green"),
        )
    return table
