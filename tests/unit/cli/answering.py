"""A server of a test's own words, and the command run against it inside the test."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import httpx

from botpool.cli import main
from botpool.cli.client import Client
from botpool.cli.connection import Target

URL = "http://botpool.test"
Handler = Callable[[httpx.Request], httpx.Response]


@dataclass
class Answering:
    """What was asked, in order; what is answered, by the test."""

    handler: Handler
    requests: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.handler(request)


@contextmanager
def answered_by(handler: Handler) -> Iterator[Answering]:
    """Every client of the command line talks to the handler."""
    answering = Answering(handler)
    original = Client.__init__

    def init(self: Client, target: Target) -> None:
        original(self, target, transport=httpx.MockTransport(answering))

    with patch.object(Client, "__init__", init):
        yield answering


def botpool(*arguments: str) -> int:
    """The command with a server and a key, as a script would give them."""
    return main([*arguments, "--url", URL, "--key", "bpk_test"])


def problem(status: int, detail: str, **more: object) -> httpx.Response:
    return httpx.Response(status, json={"status": status, "detail": detail, **more})


def bot(bot_id: int = 7, **fields: object) -> dict[str, object]:
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
        **fields,
    }
