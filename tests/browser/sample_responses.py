"""Sample API responses: pools, slots, bots, queue entries and changes."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.browser.fake_server import FakeServer

AGE_S = 5400
"""Shown as "1h" or "1 h 3x min": the text does not change while a slow test runs."""
WITH_BOT = ("deploying", "busy", "releasing")


def ago(seconds: float) -> str:
    at = datetime.now(UTC) - timedelta(seconds=seconds)
    return at.isoformat().replace("+00:00", "Z")


def pool(platform: str, **changes: Any) -> dict[str, Any]:
    return {
        "platform": platform,
        "backend": "coolify",
        "backendHealth": {"ok": True, "detail": ""},
        "image": "registry.example.org/bot:1",
        "configuredImage": None,
        "size": 0,
        "maxSize": 100,
        "slotsByStatus": {},
        "unconfirmedStops": 0,
        "queueDepth": 0,
        "oldestWaitMs": None,
        "warmHitRatio": None,
        "timeToRunningP50Ms": None,
        "timeToRunningP95Ms": None,
        "drained": False,
        "pacing": None,
        "warm": None,
        **changes,
    }


def measure(name: str, old: tuple[int, int], new: tuple[int, int], worse: float) -> dict[str, Any]:
    """A measure of both revisions, each as failures and bots."""
    old_tally, new_tally = (
        {"failures": failures, "bots": bots, "pending": 0} for failures, bots in (old, new)
    )
    return {
        "measure": name,
        "old": old_tally,
        "new": new_tally,
        "probabilityWorse": worse,
        "botsNeeded": 40,
    }


def rollout(number: int, platform: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "platform": platform,
        "state": "canary",
        "old": {"image": "registry.example.org/bot:1", "cpus": 1.0, "memoryMb": 2048},
        "new": {"image": "registry.example.org/bot:2", "cpus": 1.0, "memoryMb": 2048},
        "canaryShare": 0.05,
        "bakeMs": 1_800_000,
        "tolerance": 0.1,
        "startedBy": "ops",
        "startedAt": ago(AGE_S),
        "canaryAt": ago(AGE_S - 60),
        "endedAt": None,
        "reason": None,
        "waitsFor": "more bots of the new revision: 21 of about 40 have an outcome in early exits;"
        " 89.4 % sure",
        "comparison": {
            "old": {
                "assignments": 412,
                "timeToRunningP50Ms": 21_400,
                "timeToRunningP95Ms": 38_900,
            },
            "new": {"assignments": 22, "timeToRunningP50Ms": 20_900, "timeToRunningP95Ms": 36_100},
            "measures": [
                measure("failed_starts", (3, 409), (0, 22), 0.041),
                measure("slow_starts", (18, 406), (1, 22), 0.087),
                measure("early_exits", (2, 388), (0, 21), 0.106),
                measure("not_in_call", (31, 371), (1, 20), 0.062),
            ],
            "sureness": 0.894,
            "botsNeeded": 40,
        },
        **changes,
    }


def webhook(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "url": f"https://crm.example.org/hooks/botpool/{number}",
        "description": "",
        "events": None,
        "tenant": None,
        "status": "active",
        "disabledAt": None,
        "disabledReason": None,
        "failingSince": None,
        "lastDeliveredAt": ago(AGE_S),
        "pausedUntil": None,
        "overlapEndsAt": None,
        "pending": 0,
        "failed": 0,
        "createdAt": ago(AGE_S),
        "createdBy": "ops",
        **changes,
    }


def delivery(number: int, event_type: str, bot_id: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "eventId": f"evt_{number}",
        "type": event_type,
        "botId": bot_id,
        "status": "delivered",
        "attempts": 1,
        "createdAt": ago(AGE_S),
        "lastAttemptAt": ago(AGE_S),
        "nextAttemptAt": None,
        "durationMs": 84,
        "request": {
            "method": "POST",
            "url": "https://crm.example.org/hooks/botpool/1",
            "headers": {"content-type": "application/json", "webhook-id": f"evt_{number}"},
            "body": {"type": event_type, "timestamp": ago(AGE_S), "data": {"botId": bot_id}},
        },
        "response": {"status": 204, "body": ""},
        "problem": None,
        **changes,
    }


def slot(number: int, status: str, platform: str = "zoom", **changes: Any) -> dict[str, Any]:
    has_bot = status in WITH_BOT
    return {
        "id": number,
        "name": f"pool-{platform}-{number:03}",
        "platform": platform,
        "status": status,
        "phase": "creating" if status == "deploying" else None,
        "assignedBotId": number if has_bot else None,
        "containerId": f"container-{number}",
        "image": "registry.example.org/bot:1",
        "lastAssignedAt": ago(AGE_S),
        "lastReleasedAt": None if has_bot else ago(AGE_S),
        "lastUsedAt": ago(AGE_S),
        "recoveryAttempts": 0,
        "skippedRecoveries": 0,
        "errorMessage": None,
        "unconfirmedReason": None,
        "unconfirmedNode": None,
        "unconfirmedSince": None,
        "standby": None,
        "standbySince": None,
        "cordoned": False,
        "createdAt": ago(AGE_S),
        **changes,
    }


def bot(number: int, status: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "correlationId": f"correlation-{number}",
        "platform": "zoom",
        "meetingUrl": "https://zoom.us/j/1?pwd=secret",
        "botDisplayName": "Botpool",
        "status": status,
        "priority": 100,
        "slotName": None,
        "containerId": None,
        "attempts": 1,
        "failureReason": None,
        "failureCode": None,
        "endReason": None,
        "artifactCount": 0,
        "stalled": False,
        "createdAt": ago(AGE_S),
        "queuedAt": None,
        "assignedAt": None,
        "startedAt": None,
        "lastHeartbeatAt": None,
        "endedAt": None,
        "tenant": "default",
        "createdBy": {"keyId": 1, "keyName": "calendar"},
        **changes,
    }


def queue_entry(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "botId": number,
        "platform": "zoom",
        "priority": 100,
        "position": number,
        "queuedAt": ago(AGE_S),
        "timeoutAt": ago(-12_600),
        "estimatedWaitMs": None,
        **changes,
    }


def change(kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "at": ago(0),
        "kind": kind,
        "platform": "zoom",
        "botId": None,
        "slotId": None,
        "slotName": None,
        "from": None,
        "to": None,
        "reason": "because",
        "correlationId": None,
        "data": None,
        **fields,
    }


def slot_change(slot_id: int, to: str, **fields: Any) -> dict[str, Any]:
    """A change of a slot's status."""
    name = f"pool-zoom-{slot_id:03}"
    return change("slot.status", slotId=slot_id, slotName=name, to=to, **fields)


def minute(before: int, **changes: Any) -> dict[str, Any]:
    return {
        "at": ago(60 * before),
        "arrivals": 0,
        "queueDepth": 0,
        "slots": {},
        "timeToRunningP50Ms": None,
        "timeToRunningP95Ms": None,
        **changes,
    }


def schedule(reserved: list[int], booked: int = 0, **changes: Any) -> dict[str, Any]:
    """The next hours of a pool: reserved bookings by slice, with `booked` more in each of them."""
    bookings = [
        {
            "botId": 2000 + number,
            "status": "SCHEDULED",
            "reserved": True,
            "startsAt": ago(-600 * number),
            "joinAt": ago(-600 * number - 60),
            "endsAt": ago(-600 * number - 3600),
            "onTimeProbability": 0.995,
            "atRisk": None,
        }
        for number in range(max(reserved, default=0))
    ]
    slices = [
        {
            "from": ago(-600 * index),
            "to": ago(-600 * (index + 1)),
            "reserved": count,
            "booked": count + (booked if count else 0),
        }
        for index, count in enumerate(reserved)
    ]
    figures = {"now": ago(0), "maxSize": 24, "reservableSlots": 19, "held": 0, "holdS": 1800.0}
    return {**figures, "slices": slices, "bookings": bookings, "score": [], **changes}


def plan(**changes: Any) -> dict[str, Any]:
    """A plan with three policies, of which the second is recommended."""
    settings = '[pools.google-meet.warm]\nhot = 0\nwindows = [\n  {days = "Mon-Fri", hot = 17},\n]'
    policies = [
        _policy("as configured", 0.412, 29_900, hot=0.0),
        _policy("fixed floor, hot = 17", 0.9994, 300, hot=408.0),
        _policy("11 windows", 0.9994, 300, hot=261.4, settings=settings),
    ]
    return {
        "platform": "google-meet",
        "sinceAt": ago(7 * 86_400),
        "untilAt": ago(0),
        "bots": 1614,
        "slo": 0.999,
        "withinMs": 5000,
        "policies": policies,
        "recommended": "11 windows",
        "advice": "To start 99.9% of the bots within 5 s with the fewest hot slot hours: "
        "11 windows.",
        **changes,
    }


def _policy(name: str, share: float, wait_ms: int, **changes: Any) -> dict[str, Any]:
    hot = changes.pop("hot")
    return {
        "name": name,
        "maxSize": 40,
        "onTimeShare": share,
        "p50Ms": wait_ms,
        "p95Ms": wait_ms,
        "p99Ms": wait_ms + 40,
        "longestQueue": 0,
        "idleSlotHoursPerDay": 798.0,
        "hotSlotHoursPerDay": hot,
        "meetsGoal": share >= 0.999,
        "settings": None,
        **changes,
    }


def score(bucket: int, bots: int, on_time: int, *, reserved: bool = True) -> dict[str, Any]:
    """The outcomes of scheduled bots whose prediction lies in one tenth."""
    return {
        "bucket": bucket,
        "reserved": reserved,
        "bots": bots,
        "onTime": on_time,
        "predicted": (bucket + 0.5) / 10,
        "brier": 0.01,
    }


def respond_with(server: FakeServer, **bodies: list[dict[str, Any]]) -> None:
    """Serve these pools, slots, queue entries, bots and tenants, and an hour without activity."""
    for name in ("pools", "slots", "queue", "bots", "tenants"):
        server.responses[name] = {name: bodies.get(name, [])}
    for each in bodies.get("pools", []):
        hour = {"minutes": [minute(59 - index) for index in range(60)]}
        server.responses[f"pools/{each['platform']}/activity"] = hour
        server.responses[f"pools/{each['platform']}/schedule"] = schedule([])
