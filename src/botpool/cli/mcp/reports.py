"""What the read-only tools report, from the calls of the client."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any

from botpool.client import AsyncClient, Bot, Plan, Pool, Webhook

_EVENTS = 20
_LISTED = 50


async def explain_bot(botpool: AsyncClient, bot_id: int) -> dict[str, Any]:
    """Say where a bot is, since when and why, with its phases and its last events."""
    bot = await botpool.get(bot_id)
    newest = await botpool.events_page(bot_id, order="newest", limit=_EVENTS)
    return {
        "summary": _summary(bot, newest.items[0].reason if newest.items else ""),
        "bot": _bot(bot),
        "phases": as_json(await botpool.timeline(bot_id)),
        "lastEvents": as_json(newest.items),
    }


async def fleet_status(botpool: AsyncClient) -> dict[str, Any]:
    """Return the figures of all pools."""
    pools = await botpool.pools()
    return {
        "pools": as_json(pools),
        "queued": sum(pool.queue_depth for pool in pools),
        "slotsWithBot": sum(pool.slots_with_bot for pool in pools),
        "problems": len(await list_problems(botpool)),
    }


async def plan_capacity(
    botpool: AsyncClient, pool: str, *, days: float, slo: float, within_s: float
) -> Plan:
    """Replay the recorded bots of a pool under other warm floors."""
    return await botpool.plan(pool, replay_s=days * 86_400, slo=slo, within_s=within_s)


async def list_problems(botpool: AsyncClient) -> list[dict[str, Any]]:
    """Return what needs the attention of an operator: pools, slots, bots and webhooks."""
    problems: list[dict[str, Any]] = []
    for pool in await botpool.pools():
        problems += [{"pool": pool.platform, "problem": text} for text in _of_pool(pool)]
    for slot in (await botpool.slots_page(status="error", limit=_LISTED)).items:
        problems.append({"slot": slot.name, "problem": f"error: {slot.error_message}"})
    for slot in (await botpool.slots_page(status="releasing", limit=_LISTED)).items:
        if slot.unconfirmed_reason is not None:
            text = f"the stop cannot be confirmed: {slot.unconfirmed_reason}"
            problems.append({"slot": slot.name, "problem": text})
    async for found in _of_bots(botpool):
        problems.append(found)
    problems += [
        {"webhook": each.id, "problem": text}
        for each in await botpool.webhooks()
        for text in _of_webhook(each)
    ]
    return problems


def _of_pool(pool: Pool) -> list[str]:
    found = []
    if not pool.backend_health.ok:
        found.append(f"the backend {pool.backend} fails: {pool.backend_health.detail}")
    if pool.is_paused:
        found.append("the circuit breaker is open: the provider blocks bots")
    if pool.drained and pool.queue_depth:
        found.append(f"the pool is drained, and {pool.queue_depth} bots wait")
    elif pool.queue_depth and pool.size >= pool.max_size:
        found.append(f"the pool has its maximum of slots, and {pool.queue_depth} bots wait")
    return found


async def _of_bots(botpool: AsyncClient) -> AsyncIterator[dict[str, Any]]:
    for status in ("IN_CALL", "SCHEDULED"):
        for bot in (await botpool.bots_page(status=status, limit=_LISTED)).items:
            if bot.stalled:
                yield {"bot": bot.id, "problem": "in the call, but records nothing"}
            if bot.at_risk is not None:
                yield {"bot": bot.id, "problem": f"may be late: {bot.at_risk}"}
    for bot in (await botpool.bots_page(status="FAILED", limit=10)).items:
        yield {"bot": bot.id, "problem": f"{bot.failure_code}: {bot.failure_reason}"}


def _of_webhook(webhook: Webhook) -> list[str]:
    if webhook.disabled_at is not None:
        return [f"disabled: {webhook.disabled_reason}"]
    return ["its endpoint fails"] if webhook.failing_since is not None else []


def _summary(bot: Bot, reason: str) -> str:
    parts = [f"Bot {bot.id} of pool {bot.platform} is {bot.status}: {reason}."]
    if bot.queue_position is not None:
        parts.append(f"It is number {bot.queue_position} in its queue.")
    if bot.slot_name is not None:
        parts.append(f"Slot {bot.slot_name}, attempt {bot.attempts}.")
    if bot.failure_code is not None:
        parts.append(f"It failed with {bot.failure_code}: {bot.failure_reason}.")
    if bot.at_risk is not None:
        parts.append(f"It may be late: {bot.at_risk}.")
    return " ".join(parts)


def _bot(bot: Bot) -> Mapping[str, Any]:
    """The bot without its meeting link, which can contain a password."""
    return {name: value for name, value in as_json(bot).items() if name != "meeting_url"}


def as_json(value: Any) -> Any:
    """Return records as JSON values."""
    if is_dataclass(value) and not isinstance(value, type):
        return as_json(asdict(value))
    if isinstance(value, Mapping):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value
