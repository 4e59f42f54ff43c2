"""Answers of an imagined Botpool, for what a real one shows only on a bad day."""

import json
from typing import Any

from playwright.sync_api import Page, Route

NOW = "Mon, 02 Mar 2026 10:00:00 GMT"
EARLIER = "2026-03-02T09:58:55Z"
NAMES = ("pools", "slots", "queue", "bots")


class Answers:
    """Answers every request of a page; a test changes `bodies` and `status` between two looks."""

    def __init__(self, page: Page, **bodies: list[dict[str, Any]]) -> None:
        self.bodies = {name: {name: bodies.get(name, [])} for name in NAMES}
        self.status = 200
        self.looks = 0
        page.route("**/v1/**", self._answer)

    def _answer(self, route: Route) -> None:
        name = route.request.url.rpartition("/v1/")[2].partition("?")[0]
        body: dict[str, Any] = self.bodies[name]
        if self.status != 200:
            body = {"detail": "The database does not answer."}
        self.looks += name == "bots"
        route.fulfill(
            status=self.status,
            body=json.dumps(body),
            headers={"Date": NOW, "Content-Type": "application/json"},
        )


def pool(platform: str, **changes: Any) -> dict[str, Any]:
    return {
        "platform": platform,
        "backend": "coolify",
        "backendHealth": {"ok": True, "detail": ""},
        "image": "bot:1",
        "size": 0,
        "maxSize": 100,
        "slotsByStatus": {},
        "queueDepth": 0,
        "oldestWaitMs": None,
        "warmHitRatio": None,
        "timeToRunningP50Ms": None,
        "timeToRunningP95Ms": None,
        "drained": False,
        **changes,
    }


def slot(number: int, status: str, **changes: Any) -> dict[str, Any]:
    has_bot = status in ("deploying", "busy", "releasing")
    return {
        "id": number,
        "name": f"pool-zoom-{number:03}",
        "platform": "zoom",
        "status": status,
        "phase": None,
        "assignedBotId": number if has_bot else None,
        "lastAssignedAt": EARLIER,
        "lastReleasedAt": None if has_bot else EARLIER,
        "errorMessage": None,
        "cordoned": False,
        "createdAt": EARLIER,
        **changes,
    }


def bot(number: int, status: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "platform": "zoom",
        "meetingUrl": "https://zoom.us/j/1?pwd=secret",
        "status": status,
        "slotName": None,
        "failureReason": None,
        "failureCode": None,
        "createdAt": EARLIER,
        **changes,
    }


def entry(number: int) -> dict[str, Any]:
    return {
        "botId": number,
        "platform": "zoom",
        "priority": 100,
        "position": number,
        "queuedAt": EARLIER,
        "timeoutAt": "2026-03-02T13:00:00Z",
        "estimatedWaitMs": None,
    }
