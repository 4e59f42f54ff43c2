"""Did it go as it should? A demo that can only succeed shows nothing."""

from collections.abc import Sequence
from statistics import median

from botpool.cli import shapes
from botpool.cli.demo.cast import SLOTS, Part
from botpool.cli.demo.emulated import REQUESTS_PER_MINUTE, Counted
from botpool.cli.demo.play import Scene, assigned_at, seconds_between
from botpool.domain.states import FINAL, SlotStatus


def complaints(scene: Scene, cast: Sequence[Part]) -> list[str]:
    """What was otherwise than expected in the last scene, a line for each; none is good."""
    found = [each for bot in scene.bots if (each := _wrong_end(scene, bot))]
    if len(scene.bots) != len(cast):
        found.append(f"{len(cast)} bots were sent and {len(scene.bots)} are known")
    found += [
        f"slot {slot['name']} is still {slot['status']}"
        for slot in scene.slots
        if slot["status"] != SlotStatus.IDLE
    ]
    if len(scene.slots) != SLOTS:
        found.append(f"the pool has {len(scene.slots)} slots instead of {SLOTS}")
    found += [f"bot {entry['botId']} is still queued" for entry in scene.queue]
    if found:
        return found
    return _wrong_ways(scene)


def first_from_queue(scene: Scene) -> shapes.Bot | None:
    """Who was served first of those who had to wait."""
    waited = [bot for bot in scene.bots if bot["queuedAt"] is not None]
    return min(waited, key=assigned_at, default=None)


def successors(scene: Scene, fallen: shapes.Bot) -> list[shapes.Bot]:
    """Who ran in a slot after a bot that died there, in their order."""
    later = (bot for bot in scene.bots if assigned_at(bot) > assigned_at(fallen))
    return sorted((bot for bot in later if bot["slotName"] == fallen["slotName"]), key=assigned_at)


def start_times(scene: Scene, *, cold: bool) -> list[float]:
    """Seconds from slot to running, of first starts or of later ones."""
    first = scene.first_in_their_slot()
    measured = (
        seconds_between(bot["assignedAt"], bot["startedAt"])
        for bot in scene.bots
        if (bot["id"] in first) is cold
    )
    return sorted(seconds for seconds in measured if seconds is not None)


def _wrong_end(scene: Scene, bot: shapes.Bot) -> str | None:
    part = scene.parts[bot["id"]]
    name = scene.name_of(bot["id"])
    if bot["status"] not in FINAL:
        return f"bot {name} is still {bot['status']}"
    if (bot["status"], bot["failureCode"]) != (part.status, part.failure_code):
        wanted = f"{part.status} {part.failure_code or ''}".strip()
        ended = f"{bot['status']} {bot['failureCode'] or ''}".strip()
        return f"bot {name} ended {ended} instead of {wanted}: {bot['failureReason']}"
    return None


def _wrong_ways(scene: Scene) -> list[str]:
    """Everybody ended well; was it on the way that is promised?"""
    found = []
    served = first_from_queue(scene)
    if served is None or not scene.parts[served["id"]].hurries:
        found.append("the bot with the lowest priority number was not served first")
    found += [
        f"slot {bot['slotName']} ran no bot after its crash"
        for bot in scene.bots
        if scene.parts[bot["id"]].crashes and not successors(scene, bot)
    ]
    cold, warm = start_times(scene, cold=True), start_times(scene, cold=False)
    if not cold or not warm or median(cold) <= median(warm):
        found.append("later starts were not quicker than first ones")
    return found + (_wrong_counts(scene.counted) if scene.counted else [])


def _wrong_counts(counted: Counted) -> list[str]:
    """What the platform saw of it."""
    found = []
    if counted.pulls != 1:
        found.append(f"the image was pulled {counted.pulls} times instead of once")
    if counted.most_requests > REQUESTS_PER_MINUTE:
        found.append(f"Coolify had to take {counted.most_requests} requests in one of its minutes")
    return found
