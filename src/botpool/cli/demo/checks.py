"""Checks whether the demo went as expected."""

from collections.abc import Sequence
from statistics import median

from botpool.cli.demo.emulated_coolify import REQUESTS_PER_MINUTE, CoolifyCounts
from botpool.cli.demo.scenario import SLOTS, DemoBot
from botpool.cli.demo.snapshots import Snapshot, by_assignment, seconds_between
from botpool.client import Bot
from botpool.domain.states import SlotStatus


def find_problems(last: Snapshot, sent: Sequence[DemoBot]) -> list[str]:
    """The differences between the last snapshot and the expected one, a line each."""
    found = [problem for bot in last.bots if (problem := _wrong_end(last, bot))]
    if len(last.bots) != len(sent):
        found.append(f"{len(sent)} bots were sent, but the server lists {len(last.bots)}")
    found += [
        f"slot {slot.name} is still {slot.status}"
        for slot in last.slots
        if slot.status != SlotStatus.IDLE
    ]
    if len(last.slots) != SLOTS:
        found.append(f"the pool has {len(last.slots)} slots instead of {SLOTS}")
    found += [f"bot {entry.bot_id} is still queued" for entry in last.queue]
    return found or _wrong_course(last)


def first_from_queue(snapshot: Snapshot) -> Bot | None:
    """The first queued bot that got a slot."""
    queued = (bot for bot in by_assignment(snapshot.bots) if bot.queued_at is not None)
    return next(queued, None)


def successors(snapshot: Snapshot, bot: Bot) -> list[Bot]:
    """The bots that ran in the same slot after a bot."""
    ordered = by_assignment(snapshot.bots)
    later = ordered[ordered.index(bot) + 1 :] if bot in ordered else []
    return [each for each in later if each.slot_name == bot.slot_name]


def start_times(snapshot: Snapshot, *, cold: bool) -> list[float]:
    """Seconds from assignment to running, of cold starts or of warm ones, sorted."""
    cold_starts = snapshot.cold_starts()
    measured = (
        seconds_between(bot.assigned_at, bot.started_at)
        for bot in snapshot.bots
        if (bot.id in cold_starts) is cold
    )
    return sorted(seconds for seconds in measured if seconds is not None)


def _wrong_end(snapshot: Snapshot, bot: Bot) -> str | None:
    expected = snapshot.sent[bot.id]
    name = snapshot.name_of(bot.id)
    if not bot.is_final:
        return f"bot {name} is still {bot.status}"
    if (bot.status, bot.failure_code) != (expected.status, expected.failure_code):
        wanted = f"{expected.status} {expected.failure_code or ''}".strip()
        ended = f"{bot.status} {bot.failure_code or ''}".strip()
        return f"bot {name} ended {ended} instead of {wanted}: {bot.failure_reason}"
    return None


def _wrong_course(snapshot: Snapshot) -> list[str]:
    """Problems with the order, the crashed slot, the start times and the requests."""
    found = []
    first = first_from_queue(snapshot)
    if first is None or not snapshot.sent[first.id].goes_first:
        found.append("the bot with the lowest priority number did not get the first free slot")
    found += [
        f"slot {bot.slot_name} ran no bot after its crash"
        for bot in snapshot.bots
        if snapshot.sent[bot.id].crashes and not successors(snapshot, bot)
    ]
    cold, warm = start_times(snapshot, cold=True), start_times(snapshot, cold=False)
    if not cold or not warm or median(cold) <= median(warm):
        found.append("later starts were not quicker than first ones")
    return found + (_wrong_counts(snapshot.counts) if snapshot.counts else [])


def _wrong_counts(counts: CoolifyCounts) -> list[str]:
    found = []
    if counts.pulls != 1:
        found.append(f"the image was pulled {counts.pulls} times instead of once")
    if counts.most_requests > REQUESTS_PER_MINUTE:
        limit = f"more than the {REQUESTS_PER_MINUTE} that are allowed"
        found.append(f"Coolify received {counts.most_requests} requests in a minute, {limit}")
    return found
