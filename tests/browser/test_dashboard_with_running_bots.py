"""The dashboard of a running Botpool: it shows bots as they run, and its buttons work."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser_pages import BrowserPages
from tests.browser.running_botpool import RunningBotpool

LONG_S = 600


@pytest.fixture
def page(pages: BrowserPages, botpool: RunningBotpool) -> Page:
    return pages.live(botpool.url, botpool.address)


def test_dashboard_shows_bots_from_queue_to_done(page: Page, botpool: RunningBotpool) -> None:
    bots = [botpool.send("zoom.us", joinSeconds=0, staySeconds=LONG_S) for _ in range(3)]
    bots.append(botpool.send("zoom.us", joinSeconds=0, staySeconds=0))
    pool = page.get_by_role("article", name="zoom")
    tiles = pool.locator(".tiles li")
    expect(tiles).to_have_count(3)
    expect(page.get_by_role("heading", level=1)).to_have_text("1 bot waits for zoom")
    for tile in tiles.all():
        expect(tile).to_contain_text(re.compile(r"[BD]00\dbot \d+(busy|creating|starting|awaits)"))
    page.get_by_role("link", name="Queue").click()
    expect(page.get_by_role("table", name="Queue")).to_contain_text(f"bot {bots[3]}")
    for bot in bots[:3]:
        botpool.wait_for_status(bot, "IN_CALL")  # a request to leave cancels a bot that deploys
        botpool.ask_to_leave(bot)
    expect(page.get_by_text("The queue is empty.")).to_be_visible()
    page.get_by_role("link", name="Bots", exact=True).click()
    rows = page.get_by_role("table", name="Bots").get_by_role("row")
    for bot in bots:
        row = rows.filter(has_text=re.compile(rf"^bot {bot}[a-z]"))
        expect(row).to_contain_text("done")
        expect(row).to_contain_text("zoom.us")
    assert "secret" not in page.content(), "the page shows only the host of a meeting"
    page.get_by_role("link", name="Overview").click()
    slots = page.get_by_role("article", name="zoom").get_by_label("Slots by status", exact=True)
    expect(slots).to_have_text("I3 idle")


def test_bot_can_be_sent_followed_and_asked_to_leave(pages: BrowserPages, page: Page) -> None:
    pages.expect_console_error("422")
    page.get_by_role("button", name="Send a bot").click()
    dialog = page.get_by_role("dialog", name="Send a bot")
    dialog.get_by_label("Meeting link").fill("https://unknown.example.org/room")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.get_by_role("alert")).to_contain_text(
        "The pool cannot be derived from this link. Choose one."
    )
    dialog.get_by_label("Pool").select_option("teams")
    dialog.get_by_text("Priority, queue timeout, bot data").click()
    dialog.get_by_label("botData").fill(f'{{"joinSeconds": 0, "staySeconds": {LONG_S}}}')
    dialog.get_by_role("button", name="Send").click()
    page.locator(".toast").get_by_role("link", name="Open").click()
    expect(dialog).to_be_hidden()
    expect(page.locator(".heading .pill")).to_have_text("in call")
    last_phase = page.locator(".timeline .phases li").last
    expect(last_phase).to_contain_text(re.compile(r"in call.* s …"))
    log = page.get_by_role("log", name="Container output")
    expect(log).to_contain_text("in call")
    page.get_by_role("button", name="Ask to leave").click()
    dialog = page.get_by_role("dialog", name=re.compile(r"Ask bot \d+ to leave\?"))
    expect(dialog).to_contain_text("gets the request to leave with its next heartbeat")
    dialog.get_by_role("button", name="Ask to leave").click()
    expect(page.locator(".heading .pill")).to_have_text("done")
    expect(log).to_contain_text("leaving")
    expect(page.locator(".history")).to_contain_text("bot: leaving → call ended")


def test_slot_can_be_cordoned_released_and_deleted(
    pages: BrowserPages, page: Page, botpool: RunningBotpool
) -> None:
    pages.allow_console_error("404")  # the deleted slot
    bot = botpool.send("meet.google.com", joinSeconds=0, staySeconds=LONG_S)
    tile = page.get_by_role("article", name="google-meet").locator(".tiles a").first
    expect(tile).to_contain_text("busy")
    tile.click()
    heading = page.locator(".heading")
    expect(heading).to_contain_text("pool-google-meet-001busy")
    page.get_by_role("button", name="Cordon", exact=True).click()
    expect(heading.locator(".badge")).to_have_text("cordoned")
    page.get_by_role("button", name="Release").click()
    dialog = page.get_by_role("dialog", name="Release pool-google-meet-001?")
    expect(dialog).to_contain_text(f"Takes the slot from bot {bot}")
    expect(dialog.get_by_role("button", name="Not now")).to_be_focused()
    dialog.get_by_role("button", name="Release").click()
    expect(heading.locator(".pill")).to_have_text("idle")
    assignment = page.get_by_role("table", name="Assignments").get_by_role("row").nth(1)
    expect(assignment).to_contain_text(re.compile(f"bot {bot}failed.*released by first key"))
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("This slot does not exist or was deleted.")).to_be_visible()
    expect(page.locator(".history")).to_contain_text("deleted by first key")


def test_pool_can_be_drained_and_undrained(page: Page) -> None:
    pool = page.get_by_role("article", name="teams")
    pool.get_by_role("button", name="Drain").click()
    dialog = page.get_by_role("dialog", name="Drain teams?")
    expect(dialog).to_contain_text("refuses new bots with 503")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(pool.locator(".badge")).to_have_text("")
    pool.get_by_role("button", name="Drain").click()
    dialog.get_by_role("button", name="Drain").click()
    expect(pool.locator(".badge")).to_have_text("drained")
    expect(page.get_by_role("heading", level=1)).to_contain_text("teams: drained, no new bots")
    pool.get_by_role("button", name="Undrain").click()
    expect(pool.locator(".badge")).to_have_text("")


def test_page_shows_a_lost_server_and_continues_after_its_restart(
    pages: BrowserPages, page: Page, botpool: RunningBotpool
) -> None:
    pages.expect_console_error("ERR_CONNECTION_REFUSED")
    pages.allow_console_error("net::ERR_")  # requests that were in flight when the server stopped
    page.get_by_role("link", name="Bots", exact=True).click()
    expect(page.get_by_role("table", name="Bots")).to_be_visible()
    page.evaluate("window.kept = true")
    botpool.stop()
    try:
        expect(page.locator("#live")).to_have_text("Not live")
        expect(page.get_by_role("alert")).to_contain_text("Not live, retrying: the server")
        expect(page.locator("#view")).to_have_class("stale")
        expect(page.get_by_role("table", name="Bots")).to_be_visible()
    finally:
        botpool.start()
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.get_by_role("alert")).to_have_text("")
    bot = botpool.send("zoom.us", joinSeconds=0, staySeconds=0)
    row = page.get_by_role("table", name="Bots").get_by_role("row", name=f"bot {bot} ")
    expect(row).to_contain_text("done")
    assert page.evaluate("window.kept"), "the page reloaded"
