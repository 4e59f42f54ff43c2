"""The dashboard and its event stream: updates, reconnection, hidden tabs and cost."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser.browser_pages import BrowserPages
from tests.browser.fake_server import FakeServer
from tests.browser.sample_responses import (
    bot,
    change,
    pool,
    queue_entry,
    respond_with,
    slot,
    slot_change,
)

SLOTS = 500
CHANGES_PER_SECOND = 50
LIMIT_MS = 50
FIGURES = Path(__file__).parents[2] / "artefacts" / "crowd.txt"
STATUSES = ("deploying", "busy", "releasing", "idle")

RECORD_MUTATIONS = """
() => {
    window.mutated = new Set();
    new MutationObserver((changes) => changes.forEach(({target}) => window.mutated.add(target)))
        .observe(document.querySelector(".pools"), {childList: true, subtree: true});
}
"""
MUTATED_OUTSIDE = """
(tile) => Array.from(window.mutated)
    .filter((node) => node.closest('.tiles') && !tile.contains(node)).length
"""
RECORD_BATCHES = """
() => {
    window.batches = [];
    const record = (entries) => window.batches.push(...entries.map((entry) => entry.duration));
    window.observer = new PerformanceObserver((list) => record(list.getEntries()));
    window.observer.record = record;
    window.observer.observe({type: "measure"});
}
"""
READ_BATCHES = """
() => {
    window.observer.record(window.observer.takeRecords());
    window.observer.disconnect();
    return window.batches;
}
"""
SET_HIDDEN = """
(hidden) => {
    Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}
"""


def test_change_updates_only_its_own_tile(pages: BrowserPages, server: FakeServer) -> None:
    slots = [slot(number, STATUSES[number % 4]) for number in range(1, SLOTS + 1)]
    respond_with(server, pools=[pool("zoom", maxSize=SLOTS)], slots=slots)
    page = pages.live(server.url)
    tiles = page.locator(".tiles li")
    expect(tiles).to_have_count(SLOTS)
    loads = server.count("GET slots")
    page.evaluate(RECORD_MUTATIONS)
    server.push(slot_change(10, "error"))
    expect(tiles.nth(9)).to_have_attribute("data-status", "error")
    assert tiles.nth(9).evaluate(MUTATED_OUTSIDE) == 0
    server.push(slot_change(SLOTS + 1, "idle"), slot_change(21, None))
    expect(tiles.last).to_contain_text("501")
    expect(tiles).to_have_count(SLOTS)
    assert server.count("GET slots") == loads, "a change must not reload all slots"


def test_changes_that_arrive_together_are_drawn_together(
    pages: BrowserPages, server: FakeServer
) -> None:
    slots = [slot(number, "idle") for number in range(1, 51)]
    respond_with(server, pools=[pool("zoom")], slots=slots)
    page = pages.live(server.url)
    page.evaluate(RECORD_BATCHES)
    server.push(*(slot_change(number, "busy", botId=number) for number in range(1, 51)))
    expect(page.locator(".tiles li[data-status=busy]")).to_have_count(50)
    batches = page.evaluate(READ_BATCHES)
    assert 1 <= len(batches) <= 5, "50 changes must take a few animation frames"


def test_lost_connection_is_shown_and_resumed_after_the_last_event(
    pages: BrowserPages, server: FakeServer
) -> None:
    pages.expect_console_error("ERR_INTERNET_DISCONNECTED")
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "idle")])
    page = pages.live(server.url)
    server.push(slot_change(1, "deploying", botId=7))
    expect(page.locator(".tiles li")).to_contain_text("bot 7creating")
    page.evaluate("window.kept = true")
    page.context.set_offline(True)
    server.close_streams()
    expect(page.locator("#live")).to_have_text("Not live")
    expect(page.get_by_role("alert")).to_have_text(
        "Not live, retrying: the server does not answer."
    )
    expect(page.locator(".tiles li")).to_contain_text("bot 7")
    page.context.set_offline(False)
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.get_by_role("alert")).to_have_text("")
    assert server.last_event_ids == [None, "1"]
    assert server.count("GET slots") == 1, "a resumed stream must not reload all slots"
    server.push(slot_change(1, "busy", botId=7))
    expect(page.locator(".tiles li")).to_contain_text("bot 7busy")
    assert page.evaluate("window.kept"), "the page reloaded"


def test_reset_event_reloads_pools_and_slots(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "idle")])
    page = pages.live(server.url)
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "busy"), slot(2, "error")])
    server.push({"reason": "The event id is too old."}, event="reset")
    expect(page.locator(".tiles li")).to_have_count(2)


def test_server_error_is_shown_with_its_detail(pages: BrowserPages, server: FakeServer) -> None:
    pages.expect_console_error("503")
    respond_with(server, bots=[bot(1, "IN_CALL")])
    page = pages.live(server.url, "#/bots")
    expect(page.locator("td .pill")).to_have_text("in call")
    server.errors[""] = (503, "The database does not answer.")
    server.close_streams()
    notice = page.get_by_role("alert")
    expect(notice).to_have_text("Not live, retrying: The database does not answer.")
    expect(page.locator("td .pill")).to_have_text("in call")
    server.errors.clear()
    expect(notice).to_have_text("")


def test_stream_updates_visible_bots_and_the_queue_length(
    pages: BrowserPages, server: FakeServer
) -> None:
    pages.allow_console_error("503")
    respond_with(server, pools=[pool("zoom")], bots=[bot(1, "DEPLOYING")], queue=[queue_entry(2)])
    page = pages.live(server.url, "#/bots")
    expect(page.locator("td .pill")).to_have_text("deploying")
    # With these errors, only the stream can bring the changes.
    server.errors |= {"bots": (503, "Refused."), "pools": (503, "Refused.")}
    server.push(change("bot.status", botId=1, **{"from": "DEPLOYING", "to": "JOINING_CALL"}))
    expect(page.locator("td .pill")).to_have_text("joining call")
    server.push(change("bot.status", botId=2, **{"from": "PENDING", "to": "QUEUED"}))
    expect(page.get_by_role("link", name="Queue")).to_have_text("Queue1")


def test_hidden_tab_closes_its_stream(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "idle")])
    page = pages.new(server.url)
    page.clock.install()
    page.goto(server.url)
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate(SET_HIDDEN, True)
    page.clock.run_for(60_000)
    server.wait_for_no_streams()
    page.wait_for_load_state("networkidle")
    requests = len(server.requests)
    page.clock.run_for(60_000)
    assert len(server.requests) == requests
    assert len(server.last_event_ids) == 1
    page.evaluate(SET_HIDDEN, False)
    server.wait_for_stream_request(2)
    expect(page.locator("#live")).to_have_text("Live")
    assert server.last_event_ids == [None, "0"]


def test_updates_of_a_large_pool_use_little_processor_time(
    browser: Browser,
    pages: BrowserPages,
    server: FakeServer,
    record_property: Callable[[str, object], None],
) -> None:
    """Processor time, not wall-clock time: a busy machine does not change it much."""
    slots = [slot(number, STATUSES[number % 4]) for number in range(1, SLOTS + 1)]
    respond_with(server, pools=[pool("zoom", maxSize=SLOTS)], slots=slots)
    page = pages.live(server.url)
    expect(page.locator(".tiles li")).to_have_count(SLOTS)
    page.evaluate(RECORD_BATCHES)
    browser.start_tracing(page=page, categories=["devtools.timeline"])
    _push_changes(server, seconds=2)
    trace = json.loads(browser.stop_tracing())["traceEvents"]
    batches = page.evaluate(READ_BATCHES)
    frames = _thread_ms(trace, "FireAnimationFrame")
    drawing = sum(sum(_thread_ms(trace, name)) for name in ("UpdateLayoutTree", "Layout", "Paint"))
    each = (sum(frames) + drawing) / len(batches)
    figures = (
        f"{len(batches)} batches: script at most {max(frames):.1f} ms of processor time, "
        f"with style, layout and paint {each:.1f} ms on average"
    )
    record_property("crowd", figures)
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.write_text(figures + "\n")
    assert len(batches) > CHANGES_PER_SECOND / 10
    assert max(frames) < LIMIT_MS, figures
    assert each < LIMIT_MS, figures


def _push_changes(server: FakeServer, *, seconds: int) -> None:
    for number in range(seconds * CHANGES_PER_SECOND):
        slot_id = 1 + number * 37 % SLOTS
        server.push(slot_change(slot_id, STATUSES[number % 4], botId=number))
        time.sleep(1 / CHANGES_PER_SECOND)


def _thread_ms(trace: list[dict[str, object]], name: str) -> list[float]:
    """The processor time of each event with this name."""
    return [float(str(event["tdur"])) / 1000 for event in trace if event["name"] == name]
