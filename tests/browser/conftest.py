"""Chromium, a running Botpool, and a fake server for the dashboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.components import missing

pytest.register_assert_rewrite("tests.browser.browser_pages")

from tests.browser.browser_pages import BrowserPages  # noqa: E402 - after the registration
from tests.browser.fake_server import FakeServer, run_fake_server  # noqa: E402
from tests.browser.running_botpool import RunningBotpool, running_botpool  # noqa: E402

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def botpool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBotpool]:
    with running_botpool(tmp_path_factory.mktemp("botpool")) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One per module: while it runs, Playwright's event loop prevents other event loops."""
    if not CHROMIUM.exists():
        missing("chromium", "install it with: apt-get install chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield launched
        launched.close()


@pytest.fixture
def pages(browser: Browser) -> Iterator[BrowserPages]:
    pages = BrowserPages(browser)
    yield pages
    pages.close_and_check()


@pytest.fixture
def server(pages: BrowserPages) -> Iterator[FakeServer]:
    with run_fake_server() as server:
        yield server
        pages.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run browser tests alone: they need much processor time."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.alone)
