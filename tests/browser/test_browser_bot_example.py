"""The browser bot examples, run as local processes in a meeting page of this test."""

import asyncio
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.browser.conftest import CHROMIUM
from tests.support.agent_programs import built_example, node
from tests.support.components import missing
from tests.support.server import installation, none_left

ROOT = Path(__file__).parents[2]

PYTHON_BOT = ROOT / "examples" / "browser-bot" / "browser_bot.py"
BOTS: dict[str, Callable[[], list[str]]] = {
    "python": lambda: [sys.executable, str(PYTHON_BOT)],
    "typescript": lambda: [node(), str(built_example())],
}
PAGE = b"""<!doctype html><title>A meeting</title><h1>Welcome</h1>
<script>fetch("/joined?by=" + encodeURIComponent(document.title))</script>"""
PNG = b"\x89PNG\r\n\x1a\n"


@contextmanager
def meeting() -> Iterator[tuple[str, list[str]]]:
    """Serve a meeting page; yields its address and the list of requested paths."""
    requested: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/abc-defg-hij", requested
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("bot", BOTS)
async def test_browser_bot_joins_takes_screenshots_and_leaves_on_request(
    bot: str, database_url: str, tmp_path: Path
) -> None:
    if not CHROMIUM.exists():
        missing("chromium", "install it with: apt-get install chromium")
    settings = {
        "pools.google-meet.max_size": "1",
        "pools.google-meet.allowed_hosts": "127.0.0.1",
        "backends.process.command": shlex.join(BOTS[bot]()),
        "agent.heartbeat_interval_ms": "500",
        "agent.leave_grace_s": "300",
    }
    with meeting() as (url, requested):
        async with installation(database_url, tmp_path, settings) as installed:
            server = await installed.serve()
            async with installed.client(server) as user:
                body = {"meetingUrl": url, "platform": "google-meet"}
                created = (await user.post("/v1/bots", json=body)).json()
                path = f"/v1/bots/{created['bot']['id']}"

                async def status_other_than(wanted: str) -> list[str]:
                    bot = (await user.get(path)).json()["bot"]
                    assert bot["status"] != "FAILED", bot["failureReason"]
                    return [] if bot["status"] == wanted else [bot["status"]]

                await none_left(
                    "states on the way", lambda: status_other_than("IN_CALL"), within_s=90
                )
                await none_left(
                    "s", lambda: missing_requests(requested, "/joined?by=A%20meeting"), within_s=30
                )
                assert (await user.delete(path)).status_code == 202
                await none_left("states on the way", lambda: status_other_than("DONE"), within_s=60)
                events = (await user.get(f"{path}/events")).json()["events"]
            pictures = [event["data"] for event in events if event["kind"] == "agent.screenshot"]
            assert [picture["title"] for picture in pictures] == ["A meeting"] * 2
            for picture in pictures:
                (found,) = tmp_path.glob(f"containers/*/work/{picture['path']}")
                assert found.read_bytes().startswith(PNG)


async def missing_requests(requested: list[str], path: str) -> list[str]:
    await asyncio.sleep(0)
    return [] if path in requested else [path]
