"""Opens dashboard pages in Chromium, each in its own browser profile."""

from typing import Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

TIMEOUT_MS = 60_000
expect.set_options(timeout=TIMEOUT_MS)

Scheme = Literal["light", "dark"]

# Toasts disappear after some seconds, so a slow test could miss them.
RECORD_TOASTS = """
addEventListener("DOMContentLoaded", () => {
    window.toasts = [];
    const record = (changes) => changes.forEach(({addedNodes}) =>
        addedNodes.forEach((node) => window.toasts.push(node.textContent)));
    const element = document.getElementById("toasts");
    if (element) new MutationObserver(record).observe(element, {childList: true});
});
"""


def expect_toast(page: Page, pattern: str) -> None:
    """Wait until the page has shown a toast that matches this regular expression."""
    page.wait_for_function("(p) => window.toasts.some((text) => text.match(p))", arg=pattern)


# Cells of a card layout lie below each other, and their headings are outside the screen.
OVERFLOWING = """
() => {
const isCards = (element) => getComputedStyle(element.closest("thead")).position === "absolute";
return Array.from(document.querySelectorAll("#view table[role] :is(th, td, td *)"))
    .filter((element) => element.checkVisibility())
    .filter((element) => element.closest("thead") === null || !isCards(element))
    .filter((element) => {
        const table = element.closest("table").getBoundingClientRect();
        const [{left, right}, width] = [element.getBoundingClientRect(), innerWidth];
        const isClipped = element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1;
        return left < table.left - 1 || right > Math.min(table.right, width) + 1 || isClipped;
    })
    .map((element) => element.outerHTML.slice(0, 200));
}
"""


def assert_fits(page: Page) -> None:
    """The page has no horizontal scroll bar, and no table clips a cell."""
    size = page.viewport_size
    assert size is not None
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"], page.url
    assert page.evaluate(OVERFLOWING) == [], page.url


class BrowserPages:
    """Opens pages, and checks at the end that none logged an unexpected error.

    The browser logs violations of the content security policy and refused requests as errors. A
    request to another origin counts as an error too.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._errors: list[str] = []
        self._expected: list[str] = []
        self._allowed: list[str] = []

    def new(self, url: str, *, width: int = 1280, scheme: Scheme = "light") -> Page:
        """An empty page that may send requests only to this server."""
        context = self._browser.new_context(
            viewport={"width": width, "height": 850},
            color_scheme=scheme,
            reduced_motion="reduce",  # animations are expensive without a GPU
            locale="en-GB",
        )
        context.set_default_timeout(TIMEOUT_MS)
        self._contexts.append(context)
        page = context.new_page()
        page.add_init_script(RECORD_TOASTS)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self._errors.append(f"uncaught: {error}"))
        page.on("request", lambda request: self._on_request(request, url))
        return page

    def live(
        self, url: str, address: str = "#/", *, width: int = 1280, scheme: Scheme = "light"
    ) -> Page:
        """A page at this address that follows the event stream."""
        page = self.new(url, width=width, scheme=scheme)
        page.goto(f"{url}/{address}")
        expect(page.locator("#live")).to_have_text("Live")
        return page

    def expect_console_error(self, part: str) -> None:
        """An error that the test causes, and that must appear."""
        self._expected.append(part)

    def allow_console_error(self, part: str) -> None:
        """An error that the test may cause, depending on timing."""
        self._allowed.append(part)

    def close(self) -> None:
        """Close all pages, before their server stops."""
        while self._contexts:
            self._contexts.pop().close()

    def close_and_check(self) -> None:
        self.close()
        for part in self._expected:
            assert any(part in text for text in self._errors), f"no console error with {part}"
        known = [*self._expected, *self._allowed]
        assert [text for text in self._errors if not any(part in text for part in known)] == []

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._errors.append(message.text)

    def _on_request(self, request: Request, url: str) -> None:
        if not request.url.startswith(url + "/"):
            self._errors.append(f"a request to {request.url}")
