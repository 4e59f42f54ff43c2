"""Sample responses of a busy installation, for the screenshots."""

import math
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.browser.fake_server import FakeServer
from tests.browser.sample_responses import (
    ago,
    bot,
    delivery,
    minute,
    plan,
    pool,
    queue_entry,
    rollout,
    schedule,
    score,
    slot,
    webhook,
)

CONTAINER = "k8wgs0kcw4o8gwc0s4ckosww"
NAMES = ("Minutes", "Notetaker", "Recorder", "Transcript", "Standup")


def load_busy_morning(server: FakeServer, *, zoom_slots: int = 66) -> None:
    """Serve a full pool with a queue, a large pool with free slots and a small quiet pool."""
    rng = random.Random(10)
    slots = [
        *_slots(rng, "google-meet", 24, 0, busy=0.75, deploying=0.25),
        *_slots(rng, "teams", 14, 100, busy=0.3, deploying=0.1),
        *_slots(rng, "zoom", zoom_slots, 200, busy=0.6, deploying=0.12),
    ]
    slots[40].update(status="error", assignedBotId=None, errorMessage="the container did not stop")
    slots[30].update(cordoned=True)
    waiting = [_waiting(rng, number) for number in range(1, 8)]
    server.responses.update(
        pools={
            "pools": [
                _pool("google-meet", slots, 24, queueDepth=7, oldestWaitMs=48_000),
                _pool("teams", slots, 40),
                _pool("zoom", slots, 120, warm=_keep_hot(slots, "zoom", 12)),
            ]
        },
        slots={"slots": slots},
        queue={"queue": waiting},
        tenants={"tenants": []},
        bots={"bots": [_bot(rng, 1240 - n) for n in range(25)], "nextCursor": "1190"},
    )
    for each, peak, depth in (("google-meet", 18, len(waiting)), ("teams", 5, 0), ("zoom", 26, 0)):
        counts = Counter(slot["status"] for slot in slots if slot["platform"] == each)
        minutes = _hour(rng, peak, counts, depth)
        server.responses[f"pools/{each}/activity"] = {"minutes": minutes}
        server.responses[f"pools/{each}/schedule"] = schedule([])
    server.responses["pools/google-meet/schedule"] = _next_hours()
    server.responses["pools/google-meet/plan"] = {"plan": plan()}

    server.responses.update(_rollouts())
    server.responses.update(_webhooks())
    server.responses["audit"] = {"entries": _audit_entries(), "nextCursor": None}
    server.responses.update(_one_bot())
    server.responses.update(_one_slot(rng, slots[0]))


def _rollouts() -> dict[str, Any]:
    """A canary, a rollout that was rolled back, and a pool without one."""
    reason = (
        "3 of 3 bots of the new revision exited within 5 minutes, 1 of 96 of the old one. With a "
        "probability of 99.9 % the new revision is worse by more than 10 percentage points."
    )
    ended = {"endedAt": ago(3600), "waitsFor": None, "comparison": None}
    back = rollout(2, "teams", state="rolled_back", reason=reason, **ended)
    promoted = rollout(1, "teams", state="promoted", reason="Promoted by ops.", **ended)
    return {
        "pools/google-meet/rollouts": {"rollouts": [rollout(3, "google-meet")]},
        "pools/teams/rollouts": {"rollouts": [back, promoted]},
        "pools/zoom/rollouts": {"rollouts": []},
    }


def _audit_entries() -> list[dict[str, Any]]:
    """Long values: a key's name, an IPv6 address, and a change of several fields."""
    limits = {"maxLive": 10, "maxQueued": 100, "postsPerMinute": 600, "weight": 1}
    changes: list[tuple[str, str, dict[str, Any] | None, dict[str, Any] | None]] = [
        ("tenant.update", "tenant sales-department-of-the-north-region", limits, {"weight": 2}),
        ("slot.release", "slot pool-google-meet-017", None, {"force": True}),
        ("auth.failed", "/v1/bots", None, None),
    ]
    return [
        {
            "id": 40 - number,
            "at": ago(60 * number),
            "actor": "deployment pipeline of the north region",
            "actorKeyId": 3,
            "tenant": "default",
            "action": action,
            "target": target,
            "before": before,
            "after": after,
            "address": "2001:db8:85a3:8d3:1319:8a2e:370:7348",
            "correlationId": None,
        }
        for number, (action, target, before, after) in enumerate(changes)
    ]


def _webhooks() -> dict[str, Any]:
    """Three webhooks: active, failing and disabled."""
    failing = webhook(
        1, status="failing", description="Bookings", pending=2, failingSince=ago(5400)
    )
    gone = webhook(
        3, status="disabled", disabledReason="All attempts failed for 5 days.", disabledAt=ago(90)
    )
    done = webhook(2, events=["bot.done", "bot.failed"], tenant="sales")
    refused = {
        "status": "pending",
        "attempts": 3,
        "nextAttemptAt": ago(-1700),
        "response": {"status": 503, "body": "the queue is full"},
        "problem": "answered 503",
    }
    deliveries = [
        delivery(4713, "bot.in_call", 1101, status="pending", attempts=0, lastAttemptAt=None),
        delivery(4712, "bot.started", 1101, **refused),
        delivery(4711, "bot.done", 1088),
    ]
    return {
        "webhooks": {"webhooks": [failing, done, gone]},
        "webhooks/1": {"webhook": failing},
        "webhooks/1/deliveries": {"deliveries": deliveries, "nextCursor": None},
    }


def _next_hours() -> dict[str, Any]:
    """Eight hours of bookings: most meetings start on the hour, some on the half hour."""
    usual = [6, 8, 9, 12, 9, 5, 17, 19, 16, 11, 8, 6, 19, 18, 12, 9, 7, 5, 4, 3, 2, 2, 3, 3]
    hours = [*usual, 14, 13, 9, 8, 6, 4, 12, 11, 9, 7, 5, 3, 8, 7, 5, 3, 2, 1, 4, 3, 2, 1, 0, 0]
    reserved = score(9, 412, 410) | {"predicted": 0.992}
    others = [score(9, 60, 56), score(7, 31, 25), score(5, 18, 9), score(2, 6, 2)]
    scores = [reserved, *(each | {"reserved": False} for each in others)]
    return schedule(hours, booked=3, held=6, score=scores)


def _one_bot() -> dict[str, Any]:
    """Bot 1101, which was queued, deployed, and is in its call."""
    phases = [
        ("waiting", 1292, 1271),
        ("creating", 1271, 1268),
        ("image", 1268, 1259),
        ("starting", 1259, 1247),
        ("joining", 1247, 1239),
        ("in_call", 1239, None),
    ]
    events = [
        ("bot.status", None, "PENDING", 1292, "accepted"),
        ("bot.status", "PENDING", "QUEUED", 1292, "no slot was free"),
        ("bot.status", "QUEUED", "DEPLOYING", 1271, "a slot became free"),
        ("slot.status", "idle", "deploying", 1271, "assigned"),
        ("slot.phase", "creating", "waiting_for_image", 1268, "another slot pulls the image"),
        ("slot.phase", "waiting_for_image", "waiting_for_start", 1259, "image available"),
        ("slot.phase", "waiting_for_start", "starting", 1258, "start permitted"),
        ("slot.status", "deploying", "busy", 1247, "observed running"),
        ("bot.status", "DEPLOYING", "JOINING_CALL", 1247, "observed running"),
        ("bot.status", "JOINING_CALL", "IN_CALL", 1239, "reported by the agent"),
    ]
    location = {"slotName": "pool-google-meet-001", "containerId": CONTAINER}
    times = {"createdAt": ago(1292), "startedAt": ago(1247), "lastHeartbeatAt": ago(3)}
    response = bot(
        1101, "IN_CALL", platform="google-meet", botDisplayName="Notetaker", **location, **times
    )
    response |= {
        "meetingUrl": "https://meet.google.com/abc-defg-hij",
        "correlationId": "f2c5a9e47b",
    }
    return {
        "bots/1101": {"bot": response},
        "bots/1101/timeline": {
            "phases": [
                {"phase": name, "from": ago(since), "to": ago(until) if until else None}
                for name, since, until in phases
            ]
        },
        "bots/1101/events": {"events": [_event(*event) for event in events]},
        "bots/1101/logs": (
            "[agent] bot 1101 of pool-google-meet-001\n"
            "[agent] heartbeat every 10000 ms\n"
            "joining https://meet.google.com/abc-defg-hij as Notetaker\n"
            "asked to be let in\nlet in by the host after 8 s\nin call: 6 participants\n"
            "recording audio, 48 kHz\n"
        ),
    }


def _event(
    kind: str, old: str | None, new: str, since: float, reason: str, bot_id: int | None = None
) -> dict[str, Any]:
    common = {"slotName": "pool-google-meet-001", "botId": bot_id, "data": None}
    return {"at": ago(since), "kind": kind, "from": old, "to": new, "reason": reason, **common}


def _one_slot(rng: random.Random, slot: dict[str, Any]) -> dict[str, Any]:
    assignments = []
    ends = 1290.0
    for number in range(9):
        begins = ends + rng.uniform(300, 2400)
        failed = number == 3
        assignments.append(
            {
                "assignmentId": 900 - number,
                "botId": 1080 - 24 * number,
                "botStatus": "FAILED" if failed else "DONE",
                "claimedAt": ago(begins),
                "startedAt": ago(begins - 21),
                "endedAt": ago(ends + 10),
                "releasedAt": ago(ends),
                "failureCode": "heartbeat_lost" if failed else None,
                "failureReason": "no heartbeat for 5 minutes" if failed else None,
            }
        )
        ends = begins + rng.uniform(60, 1200)
    present = {**assignments[0], "assignmentId": 901, "botId": 1101, "botStatus": "IN_CALL"}
    present |= {"claimedAt": ago(1271), "startedAt": ago(1247), "endedAt": None, "releasedAt": None}
    events = [
        ("slot.status", "deploying", "busy", 1247, "observed running", 1101),
        ("slot.phase", "waiting_for_image", "waiting_for_start", 1259, "image available", 1101),
        ("slot.status", "idle", "deploying", 1271, "assigned", 1101),
        ("slot.status", "releasing", "idle", 1290, "stop confirmed", 1080),
        ("slot.status", "busy", "releasing", 1300, "bot ended", 1080),
    ]
    times = {"lastAssignedAt": ago(1271), "lastUsedAt": ago(1271), "lastReleasedAt": ago(1290)}
    slot.update(times, createdAt=ago(ends + 60), containerId=CONTAINER)
    return {
        "slots/1": {"slot": slot},
        "slots/1/assignments": {"assignments": [present, *assignments]},
        "slots/1/history": {"events": [_event(*event) for event in events]},
    }


def _keep_hot(slots: list[dict[str, Any]], platform: str, target: int) -> dict[str, Any]:
    """Let the first idle slots of a pool have a standby; returns the pool's warm floors."""
    idle = [each for each in slots if each["platform"] == platform and each["status"] == "idle"]
    ready, starting = idle[: target - 3], idle[target - 3 : target]
    for each in ready:
        each |= {"standby": "ready", "standbySince": ago(300)}
    for each in starting:
        each |= {"standby": "starting"}
    return {
        "hotTarget": target,
        "hotReady": len(ready),
        "hotStarting": len(starting),
        "idleTarget": 30,
        "idleReady": len(idle) - len(starting),
        "reason": "window Mon-Fri 08:50-18:00 Europe/Berlin",
        "problem": None,
    }


def _pool(
    platform: str, slots: list[dict[str, Any]], max_size: int, **changes: Any
) -> dict[str, Any]:
    size = sum(each["platform"] == platform for each in slots)
    figures = {"warmHitRatio": 0.94, "timeToRunningP50Ms": 21_400, "timeToRunningP95Ms": 38_900}
    return pool(platform, size=size, maxSize=max_size, **{**figures, **changes})


def _slots(
    rng: random.Random, platform: str, count: int, first: int, *, busy: float, deploying: float
) -> list[dict[str, Any]]:
    slots = []
    phases = ("creating", "waiting_for_image", "waiting_for_start", "starting", "starting")
    for number in range(1, count + 1):
        drawn = rng.random()
        status = "busy" if drawn < busy else "deploying" if drawn < busy + deploying else "idle"
        if status == "idle" and rng.random() < 0.15:
            status = "releasing"
        age = rng.uniform(5, 3000 if status in ("busy", "idle") else 50)
        changes = {
            "id": first + number,
            "phase": rng.choice(phases) if status == "deploying" else None,
            "assignedBotId": 1100 + first + number if status != "idle" else None,
            "lastAssignedAt": ago(age),
            "lastReleasedAt": ago(age) if status == "idle" else None,
        }
        slots.append(slot(number, status, platform, **changes))
    return slots


def _waiting(rng: random.Random, number: int) -> dict[str, Any]:
    waited = 48 - 6 * number + rng.random() * 4
    times = {"queuedAt": ago(waited), "timeoutAt": ago(waited - (60 if number == 3 else 300))}
    changes = {"platform": "google-meet", "estimatedWaitMs": 9_000 * number}
    return queue_entry(
        number, botId=1233 + number, priority=50 if number < 3 else 100, **times, **changes
    )


def _bot(rng: random.Random, number: int) -> dict[str, Any]:
    platform, host = rng.choice(
        [
            ("zoom", "zoom.us/j/93"),
            ("teams", "teams.microsoft.com/l/1"),
            ("google-meet", "meet.google.com/a"),
        ]
    )
    queued = number > 1233
    status = (
        "QUEUED"
        if queued
        else rng.choice(("IN_CALL",) * 6 + ("DONE",) * 4 + ("DEPLOYING", "FAILED"))
    )
    failed = status == "FAILED"
    ended = status in ("DONE", "FAILED")
    age = (1240 - number) * 31 + 4
    return bot(
        number,
        status,
        platform="google-meet" if queued else platform,
        meetingUrl="https://meet.google.com/a" if queued else f"https://{host}",
        botDisplayName=rng.choice(NAMES),
        slotName=None if queued else f"pool-{platform}-{number % 40 + 1:03}",
        createdAt=ago(age),
        startedAt=None if status in ("QUEUED", "DEPLOYING") else ago(age - 22),
        endedAt=ago(age / 3) if ended else None,
        failureCode="meeting_failed" if failed else None,
        failureReason="The host refused the bot." if failed else None,
    )


def _hour(
    rng: random.Random, peak: int, now: Mapping[str, int], waiting: int
) -> list[dict[str, Any]]:
    """An hour of activity that ends with the current counts."""
    minutes = []
    for before in range(59, -1, -1):
        rush = sum(math.exp(-(((before - at) / 2.2) ** 2)) for at in (1, 30, 55))
        arrivals = int(peak * rush * rng.uniform(0.6, 1) + rng.random() * peak / 8)
        busy = int(now["busy"] * (0.6 + 0.4 * math.exp(-((before / 9) ** 2))))
        deploying = min(sum(now.values()) - busy, int(now["deploying"] * rush))
        earlier = {
            "busy": busy,
            "deploying": deploying,
            "idle": sum(now.values()) - busy - deploying,
        }
        typical = 19_000 + 5_000 * rush + rng.random() * 2_000 if arrivals else None
        minutes.append(
            minute(
                before,
                arrivals=arrivals,
                queueDepth=max(0, int(waiting * rush) - 2) if before else waiting,
                slots=earlier if before else dict(now),
                timeToRunningP50Ms=typical and int(typical),
                timeToRunningP95Ms=typical and int(typical * rng.uniform(1.4, 2.1)),
            )
        )
    return minutes
