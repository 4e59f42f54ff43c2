"""BrowserPages to the dashboard, as by different people: each page in a browser profile of its own."""

from typing import Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

TIMEOUT_MS = 60_000
expect.set_options(timeout=TIMEOUT_MS)

Scheme = Literal["light", "dark"]


class BrowserPages:
    """Fails at its end if a page put an error on the console, as what its policy forbids does, or
    asked anybody but its own server for anything."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._complaints: list[str] = []
        self._expected: list[str] = []
        self._allowed: list[str] = []

    def new(self, url: str, *, width: int = 1280, scheme: Scheme = "light") -> Page:
        """A page that may ask nobody but the server at this address."""
        context = self._browser.new_context(
            viewport={"width": width, "height": 850},
            color_scheme=scheme,
            reduced_motion="reduce",  # nothing moves for its own sake: without a GPU that is dear
            locale="en-GB",
        )
        context.set_default_timeout(TIMEOUT_MS)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self._complaints.append(f"uncaught: {error}"))
        page.on("request", lambda request: self._asked(request, url))
        return page

    def live(
        self, url: str, address: str = "#/", *, width: int = 1280, scheme: Scheme = "light"
    ) -> Page:
        """A page at this address, once it is live."""
        page = self.new(url, width=width, scheme=scheme)
        page.goto(f"{url}/{address}")
        expect(page.locator("#live")).to_have_text("Live")
        return page

    def expect_console_error(self, part: str) -> None:
        """What a test brings about itself: the browser notes every refused request as an error."""
        self._expected.append(part)

    def allow_console_error(self, part: str) -> None:
        """What may come, or not, by which of two requests is first."""
        self._allowed.append(part)

    def leave(self) -> None:
        """Close all pages: before their server goes, or they would complain of it."""
        while self._contexts:
            self._contexts.pop().close()

    def end(self) -> None:
        self.leave()
        for part in self._expected:
            assert any(part in text for text in self._complaints), f"no complaint about {part}"
        known = [*self._expected, *self._allowed]
        assert [text for text in self._complaints if not any(part in text for part in known)] == []

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._complaints.append(message.text)

    def _asked(self, request: Request, url: str) -> None:
        if not request.url.startswith(url + "/"):
            self._complaints.append(f"a request to {request.url}")
