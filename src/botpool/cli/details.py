"""One thing in full: a bot, a slot, a pool."""

from datetime import datetime

from rich.table import Table
from rich.text import Text

from botpool.cli import shapes
from botpool.cli.cells import facts, said, status
from botpool.cli.tables import share, state
from botpool.cli.times import exactly, of_ms, span
from botpool.domain.states import FINAL


def bot(answer: shapes.BotAnswer, now: datetime) -> Table:
    shown = answer["bot"]
    table = facts()
    table.add_row("bot", str(shown["id"]))
    table.add_row("status", status(shown["status"]))
    if place := queue_place(answer):
        table.add_row("queue", place)
    if shown["failureCode"]:
        table.add_row("failure", said(f"{shown['failureCode']}: {shown['failureReason']}"))
    table.add_row("name", said(shown["botDisplayName"]))
    table.add_row("meeting", said(shown["meetingUrl"]))
    table.add_row("platform", said(shown["platform"]))
    table.add_row("priority", str(shown["priority"]))
    table.add_row("slot", said(shown["slotName"]))
    table.add_row("container", said(shown["containerId"]))
    table.add_row("attempts", str(shown["attempts"]))
    table.add_row("correlation", said(shown["correlationId"]))
    table.add_row("created", exactly(shown["createdAt"], now))
    table.add_row("queued", exactly(shown["queuedAt"], now))
    table.add_row("assigned", exactly(shown["assignedAt"], now))
    table.add_row("started", exactly(shown["startedAt"], now))
    table.add_row("heartbeat", exactly(shown["lastHeartbeatAt"], now))
    table.add_row("ended", exactly(shown["endedAt"], now))
    return table


def bot_line(answer: shapes.BotAnswer) -> Text:
    """A bot in a line: where it is, where it waits, or why it failed."""
    shown = answer["bot"]
    line = Text(f"Bot {shown['id']} ").append_text(status(shown["status"]))
    if place := queue_place(answer):
        line.append(f", {place}")
    elif shown["failureReason"]:
        line.append(f" {shown['failureCode'] or ''}: ").append_text(said(shown["failureReason"]))
    elif shown["slotName"] and shown["status"] not in FINAL:
        line.append(" in ").append_text(said(shown["slotName"]))
    return line


def queue_place(answer: shapes.BotAnswer) -> str | None:
    """Only a bot that waits has a place."""
    if "queuePosition" not in answer:
        return None
    place = f"number {answer['queuePosition']} in the queue"
    if "estimatedWaitMs" in answer:
        place += f", about {span(answer['estimatedWaitMs'] / 1000)} to wait"
    return place


def slot(shown: shapes.Slot, now: datetime) -> Table:
    table = facts()
    table.add_row("slot", str(shown["id"]))
    table.add_row("name", said(shown["name"]))
    table.add_row("platform", said(shown["platform"]))
    table.add_row("status", status(shown["status"], shown["phase"]))
    table.add_row("cordoned", "yes" if shown["cordoned"] else "no")
    if shown["errorMessage"]:
        table.add_row("error", said(shown["errorMessage"]))
    table.add_row("bot", said(shown["assignedBotId"]))
    table.add_row("container", said(shown["containerId"]))
    table.add_row("image", said(shown["image"]))
    table.add_row(
        "recoveries", f"{shown['recoveryAttempts']}, {shown['skippedRecoveries']} skipped"
    )
    table.add_row("created", exactly(shown["createdAt"], now))
    table.add_row("assigned", exactly(shown["lastAssignedAt"], now))
    table.add_row("released", exactly(shown["lastReleasedAt"], now))
    table.add_row("used", exactly(shown["lastUsedAt"], now))
    return table


def pool(shown: shapes.Pool) -> Table:
    health = shown["backendHealth"]
    by_status = (f"{count} {name}" for name, count in sorted(shown["slotsByStatus"].items()))
    table = facts()
    table.add_row("pool", said(shown["platform"]))
    table.add_row("state", state(shown))
    table.add_row("backend", said(f"{shown['backend']}: {health['detail'] or 'in order'}"))
    table.add_row("image", said(shown["image"]))
    table.add_row("slots", f"{shown['size']} of at most {shown['maxSize']}")
    table.add_row("", ", ".join(by_status) or "none yet: they are made when bots come")
    table.add_row("queue", f"{shown['queueDepth']} waiting")
    table.add_row("oldest wait", of_ms(shown["oldestWaitMs"]))
    table.add_row("warm starts", share(shown["warmHitRatio"]))
    table.add_row("to running", f"{of_ms(shown['timeToRunningP50Ms'])} for half of the bots")
    table.add_row("", f"{of_ms(shown['timeToRunningP95Ms'])} for 95 % of them")
    return table
