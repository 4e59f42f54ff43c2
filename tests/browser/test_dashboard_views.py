"""Each view with responses that are rare in practice: errors, many items, none, markup."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.browser_pages import BrowserPages, expect_toast
from tests.browser.fake_server import FakeServer
from tests.browser.sample_responses import (
    ago,
    bot,
    minute,
    pool,
    queue_entry,
    respond_with,
    schedule,
    slot,
)

MARKUP = "<img src=x onerror=alert(1)>"


def test_overview_shows_failing_backends_and_slots_in_error(
    pages: BrowserPages, server: FakeServer
) -> None:
    figures = {"warmHitRatio": 0.875, "timeToRunningP50Ms": 420, "timeToRunningP95Ms": 31_400}
    failing = {"ok": False, "detail": "Coolify answered 502"}
    respond_with(
        server,
        pools=[
            pool("zoom", backendHealth=failing, queueDepth=4, oldestWaitMs=125_000, **figures),
            pool("teams", drained=True),
            pool("webex", removed=True),
        ],
        slots=[
            slot(1, "busy", cordoned=True),
            slot(2, "deploying", phase="waiting_for_image"),
            slot(3, "error", errorMessage=f"no container {MARKUP}"),
        ],
    )
    page = pages.live(server.url)
    expect(page.get_by_role("heading", level=1)).to_have_text("The backend of zoom is failing")
    card = page.get_by_role("article", name="zoom")
    expect(card).to_contain_text("The backend “coolify” is failing: Coolify answered 502")
    expect(card.locator("dl")).to_have_text(
        re.compile(r"In use2 of 100Waiting4, longest 2 min \d+ sWarm starts88 %.*420 ms / 31.4 s")
    )
    expect(card.get_by_role("list", name="Slots of zoom").get_by_role("listitem")).to_have_text(
        [
            "B001bot 1busy, cordoned1h",
            "D002bot 2awaits image1h",
            "E003no boterror1h",
        ]
    )
    assert MARKUP in str(card.locator(".tiles a").last.get_attribute("title"))
    expect(page.get_by_role("article", name="teams")).to_contain_text("drained")
    expect(page.get_by_role("article", name="webex")).to_contain_text("removed")


def test_overview_shows_starts_that_the_circuit_breaker_pauses(
    pages: BrowserPages, server: FakeServer
) -> None:
    pacing = {
        "egress": "office-nat",
        "perMinute": 2,
        "configuredPerMinute": 20,
        "breaker": "open",
        "probeAt": "2099-01-01T10:00:00Z",
        "blocksInARow": 5,
    }
    respond_with(server, pools=[pool("zoom", queueDepth=7, pacing=pacing)])
    page = pages.live(server.url)
    expect(page.get_by_role("heading", level=1)).to_have_text(
        "zoom: paused, because bots were blocked"
    )
    card = page.get_by_role("article", name="zoom")
    expect(card.locator(".badge")).to_have_text("paused")
    expect(card).to_contain_text(
        "Starts from “office-nat” are paused: 5 bots were blocked in a row"
    )


def test_overview_shows_hot_slots_with_target_and_reason(
    pages: BrowserPages, server: FakeServer
) -> None:
    warm = {
        "hotTarget": 3,
        "hotReady": 1,
        "hotStarting": 1,
        "idleTarget": 5,
        "idleReady": 2,
        "reason": "window Mon-Fri 08:50-18:00 Europe/Berlin",
        "problem": "bots wait for slots and go first",
    }
    slots = [
        slot(1, "idle", standby="ready", standbySince="2026-01-01T10:00:00Z"),
        slot(2, "idle", standby="starting", phase="starting"),
        slot(3, "idle"),
    ]
    respond_with(server, pools=[pool("zoom", size=3, warm=warm)], slots=slots)
    page = pages.live(server.url)
    card = page.get_by_role("article", name="zoom")
    expect(card).to_contain_text(
        "Hot slots: 1 of 3, 1 starting · ready slots: 2 of 5 · "
        "target: window Mon-Fri 08:50-18:00 Europe/Berlin · bots wait for slots and go first"
    )
    for number, label in ((1, "hot"), (2, "standby starts"), (3, "idle")):
        expect(card.locator(f"a[href='#/slots/{number}']")).to_contain_text(label)


def test_content_security_policy_forbids_markup_from_text(
    pages: BrowserPages, server: FakeServer
) -> None:
    pages.expect_console_error("This document requires 'TrustedHTML' assignment")
    respond_with(server, bots=[bot(1, "FAILED", botDisplayName=MARKUP, failureReason=MARKUP)])
    page = pages.live(server.url, "#/bots")
    expect(page.get_by_role("row", name="bot 1")).to_contain_text(MARKUP)
    assert page.locator("#view img").count() == 0
    refused = page.evaluate(
        "() => { try { document.body.innerHTML = '<b>x</b>' } catch (e) { return e.name } }"
    )
    assert refused == "TypeError"


def test_empty_views_explain_the_first_step(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("teams")])
    page = pages.live(server.url)
    expect(page.get_by_text("No slots yet. The first bot creates one.")).to_be_visible()
    page.get_by_text("or use a shell").click()
    expect(page.get_by_role("article").locator("pre")).to_contain_text('"platform": "teams"')
    page.get_by_role("button", name="Send the first bot").click()
    dialog = page.get_by_role("dialog", name="Send a bot")
    expect(dialog.get_by_label("Pool")).to_have_value("teams")
    page.keyboard.press("Escape")
    for view, text in (
        ("Queue", "The queue is empty."),
        ("Bots", f"curl {server.url}/v1/bots"),
        ("Slots", "No slots yet. The first bot of a pool creates one."),
    ):
        page.get_by_role("link", name=view, exact=True).click()
        expect(page.get_by_text(text)).to_be_visible()


def test_queue_shows_deadlines_and_cancels_bots(pages: BrowserPages, server: FakeServer) -> None:
    late = queue_entry(2, timeoutAt=ago(-9), estimatedWaitMs=42_000, priority=50)
    respond_with(server, pools=[pool("zoom"), pool("teams")], queue=[queue_entry(1), late])
    server.responses["DELETE bots/2"] = {"bot": bot(2, "CANCELLED")}
    page = pages.live(server.url, "#/queue")
    rows = page.get_by_role("table", name="Queue").locator("tbody tr")
    expect(rows.first).to_have_text(re.compile(r"1bot 1zoom1001 h 3\d min3 h 2\d min\u2013Cancel"))
    expect(rows.last).to_have_text(re.compile(r"2bot 2zoom501 h 3\d min\d sabout 42 sCancel"))
    expect(rows.first.locator(".deadline")).to_have_class("deadline")
    expect(rows.last.locator(".deadline")).to_have_class("deadline urgent")
    expect(rows.last.locator(".deadline")).to_have_attribute(
        "title", re.compile("longer than the time left")
    )
    rows.last.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel bot 2?")
    expect(dialog).to_contain_text("Bot 2 has not joined yet.")
    respond_with(server, queue=[queue_entry(1)])
    dialog.get_by_role("button", name="Cancel").click()
    expect_toast(page, "Bot 2: cancelled")
    expect(rows).to_have_count(1)
    with page.expect_request("**/v1/queue?platform=teams&limit=200"):
        page.get_by_label("Pool").select_option("teams")
    expect(page).to_have_url(f"{server.url}/#/queue?platform=teams")


def test_tenants_appear_only_if_there_are_several(pages: BrowserPages, server: FakeServer) -> None:
    bots = [bot(2, "DONE", tenant="sales"), bot(1, "DONE")]
    respond_with(server, pools=[pool("zoom")], bots=bots, tenants=[{"name": "default"}])
    page = pages.live(server.url, "#/bots")
    header = page.get_by_role("table", name="Bots").locator("thead")
    expect(header).to_contain_text("Pool")
    expect(header).not_to_contain_text("Tenant")
    expect(page.get_by_label("Tenant")).to_have_count(0)
    tenants = [{"name": "default"}, {"name": "sales"}]
    respond_with(server, pools=[pool("zoom")], bots=bots, tenants=tenants)
    page.reload()
    expect(header).to_contain_text("Tenant")
    rows = page.get_by_role("table", name="Bots").locator("tbody tr")
    expect(rows.first).to_contain_text("sales")
    with page.expect_request("**/v1/bots?tenant=sales&limit=50"):
        page.get_by_label("Tenant").select_option("sales")


def test_bots_can_be_filtered_searched_and_paged(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("zoom")])
    bots = [bot(number, "DONE") for number in range(100_000, 99_950, -1)]
    server.responses["bots"] = {"bots": bots, "nextCursor": "99951"}
    page = pages.live(server.url, "#/bots")
    rows = page.get_by_role("table", name="Bots").locator("tbody tr")
    expect(rows).to_have_count(50)
    expect(page.get_by_role("button", name="Newer")).to_be_disabled()
    server.responses["bots"] = {"bots": [bot(99_950, "DONE")], "nextCursor": None}
    page.get_by_role("button", name="Older").click()
    expect(rows).to_have_count(1)
    expect(page.get_by_text("Page 2")).to_be_visible()
    expect(page.get_by_role("button", name="Older")).to_be_disabled()
    assert server.count("GET bots?limit=50&cursor=99951") == 1
    page.get_by_label("Status").select_option("FAILED")
    server.responses["bots"] = {"bots": [], "nextCursor": None}
    with page.expect_request("**/v1/bots?status=FAILED&search=stand+up&limit=50"):
        page.get_by_label("Search").fill("stand up")
    expect(page.get_by_text("No bot matches.")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Search")).to_have_value("stand up")


def test_bots_of_a_container_are_found(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("zoom")])
    server.responses["bots"] = lambda query: {
        "bots": [bot(9, "IN_CALL"), bot(12, "DONE")] if query.get("containerId") == "abc" else [],
        "nextCursor": None,
    }
    page = pages.live(server.url, "#/bots")
    with page.expect_request("**/v1/bots?containerId=abc&limit=50"):
        page.get_by_label("Container").fill("abc")
    rows = page.get_by_role("table", name="Bots").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("bot 9")
    expect(page).to_have_url(f"{server.url}/#/bots?containerId=abc")
    page.reload()
    expect(page.get_by_label("Container")).to_have_value("abc")
    expect(rows).to_have_count(2)


def test_search_continues_until_the_page_is_full(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("zoom")])
    parts = {
        None: {"bots": [bot(300_000, "DONE")], "nextCursor": "200001"},
        "200001": {"bots": [], "nextCursor": "100001"},
        "100001": {"bots": [bot(7, "DONE")], "nextCursor": None},
    }
    server.responses["bots"] = lambda query: parts[query.get("cursor")]
    page = pages.live(server.url, "#/bots?search=far+back")
    rows = page.get_by_role("table", name="Bots").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("bot 7")
    expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
    searches = [request for request in server.requests if request.startswith("GET bots?")]
    assert searches[-1] == "GET bots?search=far+back&limit=49&cursor=100001"


def test_unknown_bot_and_slot_show_a_message(pages: BrowserPages, server: FakeServer) -> None:
    pages.expect_console_error("404")
    respond_with(server)
    page = pages.live(server.url, "#/bots/9")
    expect(page.get_by_text("There is no bot 9.")).to_be_visible()
    page.goto(f"{server.url}/#/slots/9")
    expect(page.get_by_text("This slot does not exist or was deleted.")).to_be_visible()


def test_charts_show_values_under_the_pointer_and_as_a_table(
    pages: BrowserPages, server: FakeServer
) -> None:
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "busy")])
    hour = [minute(59 - index, arrivals=index % 7, slots={"busy": 1}) for index in range(60)]
    hour[30] |= {"arrivals": 40, "queueDepth": None, "timeToRunningP50Ms": 900}
    server.responses["pools/zoom/activity"] = {"minutes": hour}
    page = pages.live(server.url)
    arrivals = page.locator(".chart").first
    expect(arrivals.get_by_role("img")).to_have_attribute(
        "aria-label", "Arrivals, last hour: now 3 per minute, maximum 40"
    )
    area = arrivals.locator(".area").bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + area["width"] * 30.5 / 60, area["y"] + 10)
    expect(arrivals.locator(".value")).to_have_text("40 per minute")
    page.get_by_text("Show as a table").click()
    expect(page.locator(".numbers tbody tr")).to_have_count(60)


def test_strip_shows_bookings_reservations_and_capacity(
    pages: BrowserPages, server: FakeServer
) -> None:
    respond_with(server, pools=[pool("zoom", maxSize=24)], slots=[slot(1, "busy")])
    server.responses["pools/zoom/schedule"] = schedule([0, 3, 19, 2], booked=2, held=4)
    page = pages.live(server.url)
    strip = page.get_by_role("region", name="Next hours of zoom")
    expect(strip.locator(".value")).to_have_text("19 bots · 19 of 24 reservable · 4 held now")
    expect(strip.locator("rect[data-part=reserved]")).to_have_count(3)
    expect(strip.locator("rect[data-part=booked]")).to_have_count(3)


@pytest.mark.parametrize("width", [1280, 820, 390])
def test_long_texts_do_not_widen_the_page(
    pages: BrowserPages, server: FakeServer, width: int
) -> None:
    name = "a-rather-long-name-of-a-pool"
    long = {
        "meetingUrl": "https://a-rather-long-name-of-a-company.webex.example.org/",
        "slotName": f"pool-{name}-001",
        "failureReason": "word" * 100,
        "botDisplayName": "N" * 100,
    }
    respond_with(
        server,
        pools=[pool(name, image="registry.example.org/" + "i" * 150)],
        slots=[slot(1, "error", name, errorMessage="word" * 99)],
        queue=[queue_entry(1)],
        bots=[bot(123456, "IN_WAITING_ROOM", **long)],
    )
    server.responses["bots/123456"] = {"bot": bot(123456, "FAILED", failureCode="internal", **long)}
    server.responses["bots/123456/timeline"] = {"phases": []}
    server.responses["bots/123456/events"] = {"events": []}
    server.responses["bots/123456/logs"] = "x" * 500
    page = pages.live(server.url, width=width)
    for address in ("#/", "#/queue", "#/bots", "#/slots", "#/bots/123456"):
        page.goto(f"{server.url}/{address}")
        expect(page.locator("h1:visible")).to_be_visible()
        expect(page.locator("article:visible, table:visible, .facts:visible").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == width, address


def test_actions_show_their_result_and_their_error(pages: BrowserPages, server: FakeServer) -> None:
    pages.expect_console_error("503")
    busy = slot(1, "busy", cordoned=True)
    respond_with(server, pools=[pool("zoom")], slots=[busy])
    server.responses |= {
        "slots/1": {"slot": busy},
        "slots/1/assignments": {"assignments": []},
        "slots/1/history": {"events": []},
    }
    page = pages.live(server.url, "#/slots/1")
    opened = slot(1, "busy")
    server.responses |= {"POST slots/1/uncordon": {"slot": opened}, "slots/1": {"slot": opened}}
    page.get_by_role("button", name="Uncordon").click()
    expect_toast(page, "pool-zoom-001: busy")
    expect(page.get_by_role("button", name="Cordon", exact=True)).to_be_visible()
    server.errors["slots/1/recover"] = (503, "The database does not answer.")
    page.get_by_role("button", name="Recover").click()
    dialog = page.get_by_role("dialog", name="Recover pool-zoom-001?")
    expect(dialog).to_contain_text("Bot 1 is retried if it is still deploying")
    dialog.get_by_role("button", name="Recover").click()
    expect(dialog.get_by_role("alert")).to_have_text("The database does not answer.")
    server.errors.clear()
    released = slot(1, "releasing")
    server.responses |= {"POST slots/1/recover": {"slot": released}, "slots/1": {"slot": released}}
    dialog.get_by_role("button", name="Recover").click()
    expect(page.locator(".heading .pill")).to_have_text("releasing")
    expect(dialog).to_be_hidden()


def test_history_and_queue_have_pages(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "busy")])

    def event(reason: str) -> dict[str, Any]:
        return {
            "at": ago(60), "kind": "slot.status", "from": "idle", "to": "deploying",
            "slotName": "pool-zoom-001", "reason": reason, "data": None, "botId": 7,
        }  # fmt: skip

    histories = {
        None: {"events": [event("newest")], "nextCursor": "older"},
        "older": {"events": [event("oldest")], "nextCursor": None},
    }
    queues = {
        None: {"queue": [queue_entry(1)], "nextCursor": "later"},
        "later": {"queue": [queue_entry(2)], "nextCursor": None},
    }
    server.responses |= {
        "slots/1": {"slot": slot(1, "busy")},
        "slots/1/assignments": {"assignments": [], "nextCursor": None},
        "slots/1/history": lambda query: histories[query.get("cursor")],
        "queue": lambda query: queues[query.get("cursor")],
    }
    page = pages.live(server.url, "#/slots/1")
    expect(page.get_by_text("newest", exact=False).first).to_be_visible()
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_text("oldest", exact=False).first).to_be_visible()
    page.get_by_role("button", name="Newer").click()
    expect(page.get_by_role("button", name="Older")).to_be_enabled()
    page.goto(f"{server.url}/#/queue")
    rows = page.get_by_role("table", name="Queue").locator("tbody tr")
    expect(rows.first).to_contain_text("bot 1")
    page.get_by_role("button", name="Later").click()
    expect(rows.first).to_contain_text("bot 2")
