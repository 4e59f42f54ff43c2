"""The dashboard before a Botpool that runs: from the key to the end of the last bot.

`BOTPOOL_KEEP_PICTURE=1` renews the picture in the README.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import expect
from running_botpool import RunningBotpool
from visits import Visits

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "dashboard.png"
PICTURE_LIMIT = 300 * 1024
LONG_S = 300


def test_the_key_leaves_the_address_and_becomes_a_session(
    visits: Visits, botpool: RunningBotpool
) -> None:
    visits.expect_complaint("401")
    page = visits.signed_in()
    assert page.url == f"{botpool.url}/"
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert botpool.key not in page.evaluate("document.cookie + JSON.stringify({...localStorage})")
    page.reload()
    page.locator("#overview").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.locator("#sign-in").wait_for()
    assert page.context.cookies() == []


def test_a_wrong_key_is_refused_in_words_and_the_right_one_opens(
    visits: Visits, botpool: RunningBotpool
) -> None:
    visits.expect_complaint("401")
    page = visits.new()
    page.goto(f"{botpool.url}/#key=bpk_wrong")
    expect(page.get_by_text("This key is not valid")).to_be_visible()
    assert page.url == f"{botpool.url}/"
    expect(page.locator("#overview")).to_be_hidden()
    field = page.get_by_label("API key")
    expect(field).to_be_focused()
    page.keyboard.type("Schlüssel")
    page.keyboard.press("Enter")
    expect(field).to_have_value("")
    expect(page.get_by_text("This key is not valid")).to_be_visible()
    page.keyboard.type(f"{botpool.url}/#key={botpool.key}")
    page.keyboard.press("Enter")
    page.locator("#overview").wait_for()
    assert field.input_value() == "", "no key stays in the page"
    expect(page.locator("#sign-in")).to_be_hidden()


def test_a_bot_goes_its_way_on_the_page(visits: Visits, botpool: RunningBotpool) -> None:
    page = visits.signed_in()
    bots = [botpool.send("zoom.us", joinSeconds=0.5, staySeconds=2) for _ in range(4)]
    pool = page.get_by_role("article").filter(has_text="zoom")
    tiles = pool.locator(".slots li")
    expect(tiles).to_have_count(3)
    expect(pool.locator("dl")).to_contain_text("3 of 3")
    for tile in tiles.all():
        expect(tile).to_have_attribute("data-status", re.compile("deploying|busy"))
        expect(tile).to_contain_text(re.compile(r"00\d(busy|creating|starting).*bot \d+"))
    queue = page.get_by_role("table", name="Queue").locator("tbody tr")
    expect(queue.first).to_contain_text(re.compile(rf"1{bots[3]}zoom100"))
    tiles.first.evaluate("tile => tile.kept = true")
    rows = page.get_by_role("table", name="Bots").get_by_role("row")
    for bot in bots:
        row = rows.filter(has_text=re.compile(rf"^{bot}[A-Z]"))
        expect(row).to_contain_text("DONE")
        expect(row).to_contain_text("zoom.us")
    expect(page.get_by_text("Nobody waits")).to_be_visible()
    expect(pool.locator(".slots")).to_contain_text("idle")
    assert tiles.first.evaluate("tile => tile.kept"), "tiles are changed in place"
    assert "secret" not in page.content(), "of a meeting only its host is shown"


def test_a_user_sees_bots_and_queue_and_is_told_why_not_more(
    visits: Visits, botpool: RunningBotpool
) -> None:
    visits.expect_complaint("403")
    page = visits.new()
    page.goto(f"{botpool.url}/#key={botpool.new_key('user')}")
    expect(page.get_by_text("scope “user”")).to_be_visible()
    expect(page.get_by_role("article")).to_have_count(0)
    expect(page.get_by_role("heading", name="Bots")).to_be_visible()
    expect(page.locator("#updated")).to_contain_text("Live")


@pytest.fixture(scope="module")
def busy(botpool: RunningBotpool) -> None:
    """A full pool with a queue, one with room, and a bot that was refused."""
    botpool.send("teams.microsoft.com", joinSeconds=0, reject=True)
    for _ in range(5):
        botpool.send("meet.google.com", joinSeconds=0, staySeconds=LONG_S)
    for _ in range(4):
        botpool.send("teams.microsoft.com", joinSeconds=0, staySeconds=LONG_S)


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_the_screen(
    visits: Visits, tmp_path: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    page = visits.signed_in(width=width, scheme=scheme)
    expect(page.locator("#queue tbody tr")).to_have_count(2)
    expect(page.get_by_text("IN_CALL")).to_have_count(7)
    expect(page.get_by_text("The host refused the bot.")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 20, 25)"
    assert dark == (scheme == "dark")
    shot = tmp_path / f"dashboard-{scheme}-{width}.png"
    page.screenshot(path=shot, full_page=True, animations="disabled")
    assert shot.stat().st_size < PICTURE_LIMIT
    if (scheme, width) == ("light", 1280) and "BOTPOOL_KEEP_PICTURE" in os.environ:
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(shot, PICTURE)


def test_it_says_when_it_is_not_live_and_heals(visits: Visits, botpool: RunningBotpool) -> None:
    visits.expect_complaint("ERR_CONNECTION_REFUSED")
    page = visits.signed_in()
    page.evaluate("window.kept = true")
    notice = page.get_by_role("status")
    expect(notice).to_have_text("")
    botpool.stop()
    try:
        expect(notice).to_contain_text("Not live, trying again: the server does not answer.")
        expect(page.locator("#overview")).to_have_class("stale")
        expect(page.locator("#updated")).to_have_text("")
        expect(page.get_by_role("table", name="Bots")).to_be_visible()
    finally:
        botpool.start()
    expect(notice).to_have_text("")
    expect(page.locator("#overview")).not_to_have_class("stale")
    expect(page.locator("#updated")).to_contain_text("Live")
    assert page.evaluate("window.kept"), "without a reload"
