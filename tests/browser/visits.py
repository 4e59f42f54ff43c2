"""Visits to the dashboard, as by different people: each page in a browser profile of its own."""

from typing import Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect
from running_botpool import RunningBotpool

PATIENCE_MS = 10_000
expect.set_options(timeout=PATIENCE_MS)


class Visits:
    """Fails at its end if a page put an error on the console, as what its policy forbids does, or
    asked anybody but Botpool for anything."""

    def __init__(self, browser: Browser, botpool: RunningBotpool) -> None:
        self._browser = browser
        self._botpool = botpool
        self._contexts: list[BrowserContext] = []
        self._complaints: list[str] = []
        self._expected: list[str] = []

    def new(
        self, *, width: int = 1280, height: int = 800, scheme: Literal["light", "dark"] = "light"
    ) -> Page:
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, locale="en-GB"
        )
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self._complaints.append(f"uncaught: {error}"))
        page.on("request", self._asked)
        return page

    def signed_in(
        self, *, width: int = 1280, height: int = 800, scheme: Literal["light", "dark"] = "light"
    ) -> Page:
        """By the address that `botpool up` prints."""
        page = self.new(width=width, height=height, scheme=scheme)
        page.goto(f"{self._botpool.url}/#key={self._botpool.key}")
        page.locator("#overview").wait_for()
        return page

    def expect_complaint(self, part: str) -> None:
        """What a test brings about itself: the browser notes every refused request as an error."""
        self._expected.append(part)

    def end(self) -> None:
        for context in self._contexts:
            context.close()
        for part in self._expected:
            assert any(part in text for text in self._complaints), f"no complaint about {part}"
        unexpected = (
            text for text in self._complaints if not any(part in text for part in self._expected)
        )
        assert list(unexpected) == []

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._complaints.append(message.text)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(self._botpool.url + "/"):
            self._complaints.append(f"a request to {request.url}")
