"""A fake API server, the command run against it, and JSON bodies for its responses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import httpx

from botpool.cli import main
from botpool.client import Client

URL = "http://botpool.test"
Handler = Callable[[httpx.Request], httpx.Response]
Json = dict[str, Any]


@dataclass
class FakeApi:
    """Answers with the test's handler and records the requests."""

    handler: Handler
    requests: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.handler(request)


@contextmanager
def fake_api(handler: Handler) -> Iterator[FakeApi]:
    """Let every client in the block call the handler."""
    api = FakeApi(handler)
    original = Client.__init__

    def init(self: Client, url: str, key: str, **options: Any) -> None:
        original(self, url, key, **options, transport=httpx.MockTransport(api))

    with patch.object(Client, "__init__", init):
        yield api


def responses(*bodies: Any) -> Handler:
    """Answer with these bodies in turn, then with the last one."""
    left = list(bodies)
    return lambda _: httpx.Response(200, json=left.pop(0) if len(left) > 1 else left[0])


def botpool(*arguments: str) -> int:
    """Run the command with a server and a key."""
    return main([*arguments, "--url", URL, "--key", "bpk_test"])


def problem(status: int, detail: str, **more: object) -> httpx.Response:
    return httpx.Response(status, json={"status": status, "detail": detail, **more})


def bot_json(bot_id: int = 7, **fields: object) -> Json:
    return {
        "id": bot_id,
        "correlationId": "c0ffee",
        "platform": "google-meet",
        "meetingUrl": "https://meet.google.com/abc-defg-hij",
        "botDisplayName": "Scribe",
        "status": "IN_CALL",
        "priority": 100,
        "slotName": "pool-google-meet-001",
        "containerId": "pool-google-meet-001.abcdef",
        "attempts": 1,
        "failureReason": None,
        "failureCode": None,
        "createdAt": "2026-03-01T10:00:00Z",
        "queuedAt": None,
        "assignedAt": "2026-03-01T10:00:01Z",
        "startedAt": None,
        "lastHeartbeatAt": None,
        "endedAt": None,
        "tenant": "default",
        "createdBy": {"keyId": 3, "keyName": "calendar"},
        **fields,
    }


def slot_json(**fields: Any) -> Json:
    return {
        "id": 1234,
        "name": "pool-google-meet-001",
        "platform": "google-meet",
        "status": "deploying",
        "phase": "waiting_for_image",
        "assignedBotId": 123456,
        "containerId": None,
        "image": "bot:1",
        "lastAssignedAt": None,
        "lastReleasedAt": None,
        "lastUsedAt": "2026-03-01T11:10:00Z",
        "recoveryAttempts": 0,
        "skippedRecoveries": 0,
        "errorMessage": None,
        "unconfirmedReason": None,
        "unconfirmedNode": None,
        "unconfirmedSince": None,
        "standby": None,
        "standbySince": None,
        "cordoned": False,
        "createdAt": "2026-03-01T10:00:00Z",
        **fields,
    }


def pool_json(**fields: Any) -> Json:
    return {
        "platform": "google-meet",
        "backend": "process",
        "backendHealth": {"ok": True, "detail": ""},
        "image": "bot:1",
        "size": 100,
        "maxSize": 100,
        "slotsByStatus": {"idle": 10, "busy": 90},
        "unconfirmedStops": 0,
        "queueDepth": 1000,
        "oldestWaitMs": 599_000,
        "warmHitRatio": 0.934,
        "timeToRunningP50Ms": 30_100,
        "timeToRunningP95Ms": 420_000,
        "drained": False,
        **fields,
    }


def queue_entry_json(**fields: Any) -> Json:
    return {
        "botId": 123456,
        "platform": "google-meet",
        "priority": -1000,
        "position": 1000,
        "queuedAt": "2026-03-01T11:10:00Z",
        "timeoutAt": "2026-03-01T12:10:00Z",
        "estimatedWaitMs": None,
        **fields,
    }
