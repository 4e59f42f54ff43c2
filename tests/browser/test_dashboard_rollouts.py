"""The dashboard's rollouts: both revisions side by side, the reason of the end, and the actions."""

from playwright.sync_api import expect

from tests.browser.browser_pages import BrowserPages
from tests.browser.fake_server import FakeServer
from tests.browser.sample_responses import ago, pool, respond_with, rollout


def test_revisions_stand_side_by_side(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("zoom")])
    server.responses["pools/zoom/rollouts"] = {"rollouts": [rollout(1, "zoom")]}
    page = pages.live(server.url, "#/rollouts")
    card = page.get_by_role("article", name="zoom")
    expect(card.locator(".pill")).to_have_text("canary")
    expect(card.locator(".reason")).to_contain_text("21 of about 40")
    cells = card.get_by_role("row", name="Image").get_by_role("cell")
    expect(cells.nth(1)).to_have_text("registry.example.org/bot:1")
    expect(cells.nth(2)).to_have_text("registry.example.org/bot:2")
    exits = card.get_by_role("row", name="Early exits").get_by_role("cell")
    assert exits.all_text_contents() == ["Early exits", "2 of 388", "0 of 21", "10.6 %", "40"]
    expect(card.locator(".facts")).to_contain_text("89.4 %")


def test_operator_rolls_back_and_the_reason_appears(
    pages: BrowserPages, server: FakeServer
) -> None:
    respond_with(server, pools=[pool("zoom")])
    server.responses["pools/zoom/rollouts"] = {"rollouts": [rollout(1, "zoom")]}
    ended = rollout(
        1, "zoom", state="rolled_back", reason="Rolled back by ops.", endedAt=ago(1), waitsFor=None
    )
    server.responses["pools/zoom/rollouts/rollback"] = {"rollout": ended}
    page = pages.live(server.url, "#/rollouts")
    page.get_by_role("button", name="Roll back").click()
    server.responses["pools/zoom/rollouts"] = {"rollouts": [ended]}
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(page.locator(".pill")).to_have_text("rolled back")
    expect(page.locator(".reason")).to_have_text("Rolled back by ops.")
    expect(page.get_by_role("button", name="Promote")).to_have_count(0)
    assert server.count("POST pools/zoom/rollouts/rollback") + server.count(
        "POST /v1/pools/zoom/rollouts/rollback"
    )


def test_pool_shows_that_a_rollout_replaced_the_image_of_the_settings(
    pages: BrowserPages, server: FakeServer
) -> None:
    respond_with(server, pools=[pool("zoom", image="bot:2", configuredImage="bot:1")])
    server.responses["pools/zoom/rollouts"] = {"rollouts": []}
    page = pages.live(server.url)
    expect(page.get_by_role("article", name="zoom")).to_contain_text("promoted; settings: bot:1")
    page.goto(f"{server.url}/#/rollouts")
    expect(page.locator(".empty")).to_contain_text("No rollout yet")
