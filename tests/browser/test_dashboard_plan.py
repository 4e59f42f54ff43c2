"""The dashboard's plan of a pool, and the chart of predicted against actual joins."""

from playwright.sync_api import expect

from tests.browser.browser_pages import BrowserPages
from tests.browser.fake_server import FakeServer
from tests.browser.sample_responses import plan, pool, respond_with, schedule, score, slot


def test_plan_shows_policies_and_the_settings_to_paste(
    pages: BrowserPages, server: FakeServer
) -> None:
    respond_with(server, pools=[pool("google-meet"), pool("zoom")])
    server.responses["pools/google-meet/plan"] = {"plan": plan()}
    page = pages.live(server.url, "#/plan")
    rows = page.get_by_role("table", name="Policies").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.nth(3)).to_contain_text("11 windowsrecommended")
    expect(rows.nth(3)).to_contain_text("99.94 %")
    expect(rows.nth(1)).to_contain_text("41.2 %")
    expect(page.locator(".advice")).to_contain_text("99.9% of the bots within 5 s")
    expect(page.locator(".paste code")).to_contain_text("[pools.google-meet.warm]")
    expect(page.locator(".policy-bars .recommended")).to_contain_text("261 h")
    widths = page.locator(".policy-bars [data-part=on-time] i").evaluate_all(
        "bars => bars.map((bar) => bar.style.getPropertyValue('--share'))"
    )
    assert widths == ["0.412", "0.999", "0.999"]


def test_plan_asks_for_the_chosen_pool_and_goal(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("google-meet"), pool("zoom")])
    empty = plan(bots=0, policies=[], recommended=None, advice="The record has no bots.")
    server.responses["pools/google-meet/plan"] = {"plan": plan()}
    server.responses["pools/zoom/plan"] = {"plan": empty}
    page = pages.live(server.url, "#/plan")
    expect(page.locator(".advice")).to_be_visible()
    page.get_by_label("Bots on time").select_option("0.9")
    page.get_by_label("Within").select_option("30000")
    page.get_by_label("Pool").select_option("zoom")
    expect(page.locator("#view").get_by_role("status")).to_have_text("The record has no bots.")
    expect(page.get_by_role("table", name="Policies")).to_be_hidden()
    asked = [each for each in server.requests if "pools/zoom/plan" in each]
    assert "slo=0.9&withinMs=30000" in asked[-1], asked


def test_plan_shows_why_it_failed(pages: BrowserPages, server: FakeServer) -> None:
    pages.expect_console_error("503")
    respond_with(server, pools=[pool("google-meet")])
    server.errors["pools/google-meet/plan"] = (503, "The database does not answer.")
    page = pages.live(server.url, "#/plan")
    expect(page.get_by_text("The database does not answer.")).to_be_visible()


def test_chart_compares_predictions_with_outcomes(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "busy")])
    scores = [score(9, 40, 38), score(4, 10, 5, reserved=False)]
    server.responses["pools/zoom/schedule"] = schedule([2], score=scores)
    page = pages.live(server.url)
    chart = page.locator(".predictions")
    expect(chart.locator("circle")).to_have_count(2)
    expect(chart.get_by_role("img")).to_have_attribute(
        "aria-label",
        "zoom: 40 bots with a reservation: predicted 95 %, on time 95 %; "
        "10 bots without a reservation: predicted 45 %, on time 50 %",
    )
    height = chart.locator("circle").evaluate_all("dots => dots.map((dot) => dot.cy.baseVal.value)")
    assert height == [5, 50]
