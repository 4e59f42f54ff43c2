"""The page before bots that really run: what happens is seen at once, what is asked is done."""

import re

import pytest
from playwright.sync_api import Page, expect
from tests.browser.running_botpool import RunningBotpool
from tests.browser.browser_pages import BrowserPages

LONG_S = 300


@pytest.fixture
def page(pages: BrowserPages, botpool: RunningBotpool) -> Page:
    return pages.live(botpool.url, botpool.address)


def test_bots_go_their_way_on_the_page(page: Page, botpool: RunningBotpool) -> None:
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
        botpool.ask_to_leave(bot)
    expect(page.get_by_text("Nobody waits")).to_be_visible()
    page.get_by_role("link", name="Bots", exact=True).click()
    rows = page.get_by_role("table", name="Bots").get_by_role("row")
    for bot in bots:
        row = rows.filter(has_text=re.compile(rf"^bot {bot}[a-z]"))
        expect(row).to_contain_text("done")
        expect(row).to_contain_text("zoom.us")
    assert "secret" not in page.content(), "of a meeting only its host is shown"
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("article", name="zoom").locator(".legend")).to_have_text("I3 idle")


def test_a_bot_is_sent_followed_and_asked_to_leave(pages: BrowserPages, page: Page) -> None:
    pages.expect_console_error("422")
    page.get_by_role("button", name="Send a bot").click()
    dialog = page.get_by_role("dialog", name="Send a bot")
    dialog.get_by_label("Meeting link").fill("https://unknown.example.org/room")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.get_by_role("alert")).to_contain_text(
        "The pool cannot be read from this link. Choose one."
    )
    dialog.get_by_label("Pool").select_option("teams")
    dialog.get_by_text("Priority, waiting, data").click()
    dialog.get_by_label("botData").fill(f'{{"joinSeconds": 0, "staySeconds": {LONG_S}}}')
    dialog.get_by_role("button", name="Send").click()
    expect(dialog).to_be_hidden()
    page.locator(".toast").get_by_role("link", name="Look at it").click()
    life = page.locator(".life")
    expect(page.locator(".heading .pill")).to_have_text("in call")
    expect(life.locator(".phases li").last).to_contain_text(re.compile(r"in call.* s …"))
    expect(page.get_by_role("log", name="Output of its container")).to_contain_text("in call")
    page.get_by_role("button", name="Ask to leave").click()
    dialog = page.get_by_role("dialog", name=re.compile(r"Ask bot \d+ to leave\?"))
    expect(dialog).to_contain_text("is told to leave with its next heartbeat")
    dialog.get_by_role("button", name="Ask to leave").click()
    expect(page.locator(".heading .pill")).to_have_text("done")
    expect(page.get_by_role("log", name="Output of its container")).to_contain_text("leaving")
    expect(page.locator(".history")).to_contain_text("bot: leaving → call ended")


def test_a_slot_is_cordoned_released_and_deleted(
    pages: BrowserPages, page: Page, botpool: RunningBotpool
) -> None:
    pages.allow_console_error("404")  # it is gone at the end
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
    expect(dialog).to_contain_text(f"Takes the slot away from bot {bot}, which fails")
    expect(dialog.get_by_role("button", name="Not now")).to_be_focused()
    dialog.get_by_role("button", name="Release").click()
    expect(heading.locator(".pill")).to_have_text("idle")
    tenant = page.get_by_role("table", name="Tenants").get_by_role("row").nth(1)
    expect(tenant).to_contain_text(re.compile(f"bot {bot}failed.*released by first key"))
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("This slot does not exist, or not any more.")).to_be_visible()
    expect(page.locator(".history")).to_contain_text("deleted by first key")


def test_a_pool_is_drained_and_opened(page: Page) -> None:
    pool = page.get_by_role("article", name="teams")
    pool.get_by_role("button", name="Drain").click()
    dialog = page.get_by_role("dialog", name="Drain teams?")
    expect(dialog).to_contain_text("admits nobody new")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(pool.locator(".badge")).to_have_text("")
    pool.get_by_role("button", name="Drain").click()
    dialog.get_by_role("button", name="Drain").click()
    expect(pool.locator(".badge")).to_have_text("drained")
    expect(page.get_by_role("heading", level=1)).to_contain_text("teams takes nobody new")
    pool.get_by_role("button", name="Undrain").click()
    expect(pool.locator(".badge")).to_have_text("")


def test_it_says_when_it_is_not_live_and_goes_on_after_a_restart(
    pages: BrowserPages, page: Page, botpool: RunningBotpool
) -> None:
    pages.expect_console_error("ERR_CONNECTION_REFUSED")
    page.get_by_role("link", name="Bots", exact=True).click()
    expect(page.get_by_role("table", name="Bots")).to_be_visible()
    page.evaluate("window.kept = true")
    botpool.stop()
    try:
        expect(page.locator("#live")).to_have_text("Not live")
        expect(page.get_by_role("alert")).to_contain_text("Not live, trying again: the server")
        expect(page.locator("#view")).to_have_class("stale")
        expect(page.get_by_role("table", name="Bots")).to_be_visible()
    finally:
        botpool.start()
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.get_by_role("alert")).to_have_text("")
    bot = botpool.send("zoom.us", joinSeconds=0, staySeconds=0)
    row = page.get_by_role("table", name="Bots").get_by_role("row", name=f"bot {bot} ")
    expect(row).to_contain_text("done")
    assert page.evaluate("window.kept"), "without a reload"
