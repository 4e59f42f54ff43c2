"""Every view at two widths and in both colour schemes: layout, accessibility and screenshots.

Screenshots go to `artefacts/`. `BOTPOOL_KEEP_PICTURES=1`, set by `make pictures`, updates those in
the docs.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.browser_pages import BrowserPages, Scheme, assert_fits
from tests.browser.busy_morning import load_busy_morning
from tests.browser.fake_server import FakeServer, run_fake_server
from tests.browser.sample_responses import pool, respond_with
from tests.support.components import missing

ROOT = Path(__file__).parents[2]
ARTEFACTS = ROOT / "artefacts" / "pictures"
IN_DOCS = ROOT / "docs" / "pictures"
AXE = ROOT / ".venv" / "axe-core" / "node_modules" / "axe-core" / "axe.min.js"
SIZE_LIMIT = 400 * 1024

VIEWS = {
    "overview": ("#/", "7 bots wait for google-meet"),
    "queue": ("#/queue", "Queue"),
    "bots": ("#/bots", "Bots"),
    "bot": ("#/bots/1101", "Bot 1101"),
    "slots": ("#/slots", "Slots"),
    "slot": ("#/slots/1", "pool-google-meet-001"),
    "plan": ("#/plan", "Plan"),
    "rollouts": ("#/rollouts", "Rollouts"),
    "audit": ("#/audit", "Audit log"),
    "webhooks": ("#/webhooks", "Webhooks"),
    "webhook": ("#/webhooks/1", "Webhook 1"),
}
PARTS = {
    "schedule": ".next-hours:not([hidden])",
    "hot-slots": "[aria-labelledby=pool-zoom]",
}
"""Parts of the overview that pages of the docs show, by selector."""
SHOWN_IN_DOCS = {
    name
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for name in re.findall(r"pictures/([a-z-]+-(?:light|dark)-\d+)\.png", page.read_text())
}
"""The pictures that a page names: a page with a new one needs an entry in VIEWS or PARTS only."""
RUN_AXE = """
async () => {
    const {violations} = await axe.run(document, {
        resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"],
    });
    return violations
        .filter(({impact}) => impact === "serious" || impact === "critical")
        .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
}
"""


@pytest.fixture(scope="module")
def morning() -> Iterator[FakeServer]:
    with run_fake_server() as server:
        load_busy_morning(server)
        yield server


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.exists():
        missing("axe-core", "install npm, then run scripts/install-test-packages")
    return AXE.read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_view_fits_the_width_and_the_scheme(
    browser: Browser, morning: FakeServer, width: int, scheme: Scheme
) -> None:
    pages = BrowserPages(browser)
    page = pages.live(morning.url, width=width, scheme=scheme)
    for name, (address, heading) in VIEWS.items():
        page.goto(f"{morning.url}/{address}")
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        _wait_until_loaded(page)
        assert_fits(page)
        _screenshot(page, f"{name}-{scheme}-{width}")
    page.goto(f"{morning.url}/#/")
    _wait_until_loaded(page)
    for name, selector in PARTS.items():
        _screenshot(page.locator(selector).first, f"{name}-{scheme}-{width}")
    page.get_by_role("button", name="Send a bot").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    _screenshot(page, f"send-{scheme}-{width}")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 22)"
    assert dark == (scheme == "dark")
    pages.close_and_check()


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1280),
        ("dark", 390),
        pytest.param("light", 390, marks=pytest.mark.long),
        pytest.param("dark", 1280, marks=pytest.mark.long),
    ],
)
def test_every_view_passes_the_accessibility_check(
    browser: Browser, morning: FakeServer, axe: str, width: int, scheme: Scheme
) -> None:
    pages = BrowserPages(browser)
    page = pages.live(morning.url, width=width, scheme=scheme)
    page.evaluate(f"{axe}; 0")  # bypasses the content security policy
    serious = {}
    for name, (address, heading) in VIEWS.items():
        page.goto(f"{morning.url}/{address}")
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        _wait_until_loaded(page)
        serious[name] = page.evaluate(RUN_AXE)
    page.get_by_role("button", name="Send a bot").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    serious["send"] = page.evaluate(RUN_AXE)
    assert not any(serious.values()), json.dumps(serious, indent=2)
    pages.close_and_check()


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_empty_lost_and_signed_out_pages_pass_the_accessibility_check(
    pages: BrowserPages, server: FakeServer, axe: str, width: int, scheme: Scheme
) -> None:
    pages.expect_console_error("503")
    pages.expect_console_error("401")
    respond_with(server, pools=[pool("zoom"), pool("teams", drained=True)])
    page = pages.live(server.url, width=width, scheme=scheme)
    page.evaluate(f"{axe}; 0")
    serious = {"empty": page.evaluate(RUN_AXE)}
    server.errors[""] = (503, "The database does not answer.")
    server.close_streams()
    expect(page.get_by_role("alert")).to_contain_text("The database does not answer.")
    serious["not live"] = page.evaluate(RUN_AXE)
    server.errors[""] = (401, "The key is no longer valid.")
    expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
    serious["no key"] = page.evaluate(RUN_AXE)
    assert not any(serious.values()), json.dumps(serious, indent=2)


def test_colour_switch_overrides_the_system_and_survives_a_reload(
    browser: Browser, morning: FakeServer
) -> None:
    pages = BrowserPages(browser)
    page = pages.live(morning.url, scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    switch = page.get_by_role("button", name="Colours")
    light = page.evaluate(background)
    switch.click()
    assert page.evaluate(background) == light
    switch.click()
    expect(switch).to_have_accessible_name("Colours: dark. Change.")
    assert page.evaluate(background) != light
    page.reload()
    assert page.evaluate(background) != light, "the choice is lost"
    pages.close_and_check()


def test_keyboard_reaches_every_tile(browser: Browser, morning: FakeServer) -> None:
    pages = BrowserPages(browser)
    page = pages.live(morning.url)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    tiles = page.locator(".tiles").first.locator("a")
    tiles.first.focus()
    page.keyboard.press("ArrowRight")
    expect(tiles.nth(1)).to_be_focused()
    page.keyboard.press("ArrowDown")
    columns = page.evaluate(
        "getComputedStyle(document.querySelector('.tiles')).gridTemplateColumns.split(' ').length"
    )
    expect(tiles.nth(1 + columns)).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.tiles') === null"), (
        "Tab stays in the grid"
    )
    tiles.first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("pool-google-meet-001")
    pages.close_and_check()


def _wait_until_loaded(page: Page) -> None:
    """Wait until the view has its data. `networkidle` never comes because of the stream."""
    page.locator("#view :is(td, .chart svg, .history li, .deliveries li)").first.wait_for()


def _screenshot(page: Page | Locator, name: str) -> None:
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    shot = ARTEFACTS / f"{name}.png"
    page.screenshot(path=shot, animations="disabled")
    assert shot.stat().st_size < SIZE_LIMIT
    if name in SHOWN_IN_DOCS and "BOTPOOL_KEEP_PICTURES" in os.environ:
        IN_DOCS.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(shot, IN_DOCS / shot.name)
