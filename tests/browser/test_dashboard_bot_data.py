"""The bot's page shows screenshots as pictures, artifacts, commands and the end of the call."""

import struct
import zlib

from tests.browser.browser_pages import BrowserPages
from tests.browser.fake_server import FakeServer
from tests.browser.sample_responses import ago, bot, respond_with


def png(width: int, height: int, shade: int) -> bytes:
    """A picture with a gradient."""
    rows = b"".join(
        b"\0" + b"".join(bytes((x * 255 // width, shade, y * 255 // height)) for x in range(width))
        for y in range(height)
    )

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def test_bot_page_shows_its_evidence(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server)
    failed = bot(
        7,
        "FAILED",
        failureCode="blocked",
        failureReason="A captcha appeared.",
        endReason="blocked",
        artifactCount=1,
        endedAt=ago(60),
    )
    server.responses["bots/7"] = {
        "bot": failed,
        "progress": {"minutesRecorded": 12, "participants": "<i>3</i>"},
        "lastMediaAt": ago(75),
    }
    server.responses["bots/7/timeline"] = {"phases": []}
    server.responses["bots/7/events"] = {"events": []}
    server.responses["bots/7/logs"] = "joining\ncaptcha\n"
    shots = [
        {"number": n, "contentType": "image/png", "sizeBytes": 9, "note": note, "at": ago(60)}
        for n, note in ((4, "lobby"), (5, "captcha"), (6, ""))
    ]
    server.responses["bots/7/screenshots"] = {"screenshots": shots}
    for number in (4, 5, 6):
        server.responses[f"bots/7/screenshots/{number}"] = png(320, 180, number * 40)
    recording = {
        "kind": "recording",
        "location": "s3://meetings/2026/7.mp4",
        "sizeBytes": 734_003_200,
        "contentType": "video/mp4",
        "at": ago(60),
    }
    server.responses["bots/7/artifacts"] = {"artifacts": [recording]}
    sent = {
        "id": 1,
        "kind": "chat",
        "data": {"text": "<b>Hello</b>"},
        "state": "lost",
        "at": ago(90),
        "deliveredAt": None,
        "acknowledgedAt": None,
    }
    server.responses["bots/7/commands"] = {"commands": [sent]}
    page = pages.live(server.url, "#/bots/7")
    pictures = page.locator(".screenshots img")
    pictures.nth(2).wait_for()
    assert pictures.count() == 3
    shown = "[...document.querySelectorAll('.screenshots img')]"
    page.wait_for_function(f"{shown}.every((image) => image.naturalWidth === 320)")
    text = page.locator("main").inner_text()
    for words in (
        "The meeting's provider blocked the bot. A captcha appeared.",
        "recording 700.0 MiB, video/mp4",
        "s3://meetings/2026/7.mp4",
        "chat lost",
        '{"text":"<b>Hello</b>"}',
        "captcha,",
        "the provider blocked the bot",
        "Last media",
        '{"minutesRecorded":12,"participants":"<i>3</i>"}',
    ):
        assert words in text, text
