"""The page and its stream: it goes on where it was cut off, starts anew when told, keeps up with a
crowd, and holds no connection that nobody looks at."""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.browser.sample_responses import bot, change, queue_entry, slot_change, pool, slot, respond_with
from tests.browser.fake_server import FakeServer
from playwright.sync_api import Page, expect
from tests.browser.browser_pages import BrowserPages

SLOTS = 500
CHANGES_A_SECOND = 50
LIMIT_MS = 50
TRIES = 3
FIGURES = Path(__file__).parents[2] / "artefacts" / "crowd.txt"
ORDER = ("deploying", "busy", "releasing", "idle")

COUNT_CHANGES = """
() => {
    window.changed = new Set();
    new MutationObserver((changes) => changes.forEach(({target}) => window.changed.add(target)))
        .observe(document.querySelector(".pools"), {childList: true, subtree: true});
}
"""
WATCH_WORK = """
() => {
    window.batches = [];
    window.long = [];
    const into = (list) => (entries) => list.push(...entries.getEntries().map((e) => e.duration));
    window.watching = [
        [into(window.batches), {type: "measure"}], [into(window.long), {type: "longtask"}],
    ].map(([found, options]) => {
        const observer = new PerformanceObserver(found);
        observer.observe(options);
        return observer;
    });
}
"""
STOP_WATCHING = """
() => {
    window.watching.forEach((observer) => observer.disconnect());
    return [window.batches, window.long];
}
"""
HIDE = """
(hidden) => {
    Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}
"""


def test_a_change_touches_only_its_own_tile(pages: BrowserPages, server: FakeServer) -> None:
    slots = [slot(number, ORDER[number % 4]) for number in range(1, SLOTS + 1)]
    respond_with(server, pools=[pool("zoom", maxSize=SLOTS)], slots=slots)
    page = pages.live(server.url)
    tiles = page.locator(".tiles li")
    expect(tiles).to_have_count(SLOTS)
    looks = server.count("GET slots")
    page.evaluate(COUNT_CHANGES)
    server.push(slot_change(10, "error"))
    expect(tiles.nth(9)).to_have_attribute("data-status", "error")
    mine = "(tile) => Array.from(window.changed).filter((node) => node.closest('.tiles')"
    assert tiles.nth(9).evaluate(f"{mine} && !tile.contains(node)).length") == 0
    server.push(slot_change(SLOTS + 1, "idle"), slot_change(21, None))
    expect(tiles).to_have_count(SLOTS)
    expect(tiles.last).to_contain_text("501")
    assert server.count("GET slots") == looks, "what a change has told is not asked for"


def test_what_arrives_at_once_is_shown_at_once(pages: BrowserPages, server: FakeServer) -> None:
    slots = [slot(number, "idle") for number in range(1, 51)]
    respond_with(server, pools=[pool("zoom")], slots=slots)
    page = pages.live(server.url)
    page.evaluate(WATCH_WORK)
    server.push(*(slot_change(number, "busy", botId=number) for number in range(1, 51)))
    expect(page.locator(".tiles li[data-status=busy]")).to_have_count(50)
    batches, _ = page.evaluate(STOP_WATCHING)
    assert 1 <= len(batches) <= 5, "fifty changes in the batches of the few frames they came in"


def test_a_lost_connection_is_told_and_resumed_where_it_broke(
    pages: BrowserPages, server: FakeServer
) -> None:
    pages.expect_console_error("ERR_INTERNET_DISCONNECTED")
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "idle")])
    page = pages.live(server.url)
    server.push(slot_change(1, "deploying", botId=7))
    expect(page.locator(".tiles li")).to_contain_text("bot 7creating")
    page.evaluate("window.kept = true")
    page.context.set_offline(True)
    server.cut()
    expect(page.locator("#live")).to_have_text("Not live")
    expect(page.get_by_role("alert")).to_have_text(
        "Not live, trying again: the server does not answer."
    )
    expect(page.locator(".tiles li")).to_contain_text("bot 7")
    page.context.set_offline(False)
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.get_by_role("alert")).to_have_text("")
    assert server.last_ids == [None, "1"]
    assert server.count("GET slots") == 1, "nothing was asked for again"
    server.push(slot_change(1, "busy", botId=7))
    expect(page.locator(".tiles li")).to_contain_text("bot 7busy")
    assert page.evaluate("window.kept"), "without a reload"


def test_a_stream_that_cannot_go_on_starts_anew(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "idle")])
    page = pages.live(server.url)
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "busy"), slot(2, "error")])
    server.push({"reason": "This place is too long ago."}, event="reset")
    expect(page.locator(".tiles li")).to_have_count(2)


def test_trouble_of_the_server_is_told_in_its_own_words(pages: BrowserPages, server: FakeServer) -> None:
    pages.expect_console_error("503")
    respond_with(server, bots=[bot(1, "IN_CALL")])
    page = pages.live(server.url, "#/bots")
    expect(page.locator("td .pill")).to_have_text("in call")
    server.refusals[""] = (503, "The database does not answer.")
    server.cut()
    notice = page.get_by_role("alert")
    expect(notice).to_have_text("Not live, trying again: The database does not answer.")
    expect(page.locator("td .pill")).to_have_text("in call")
    server.refusals.clear()
    expect(notice).to_have_text("")


def test_bots_in_sight_change_at_once(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("zoom")], bots=[bot(1, "DEPLOYING")], queue=[queue_entry(2)])
    page = pages.live(server.url, "#/bots")
    expect(page.locator("td .pill")).to_have_text("deploying")
    # Also in the list, which the page may ask for again at any moment.
    respond_with(server, pools=[pool("zoom")], bots=[bot(1, "JOINING_CALL")], queue=[queue_entry(2)])
    server.push(change("bot.status", botId=1, **{"from": "DEPLOYING", "to": "JOINING_CALL"}))
    expect(page.locator("td .pill")).to_have_text("joining call")
    server.push(change("bot.status", botId=2, **{"from": "PENDING", "to": "QUEUED"}))
    expect(page.get_by_role("link", name="Queue")).to_have_text("Queue1")


def test_a_hidden_tab_holds_no_connection(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "idle")])
    page = pages.new(server.url)
    page.clock.install()
    page.goto(server.url)
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate(HIDE, True)
    page.clock.run_for(60_000)
    page.wait_for_function("performance.now() > 0")
    asked = len(server.asked)
    page.clock.run_for(60_000)
    assert len(server.asked) == asked
    assert len(server.last_ids) == 1
    page.evaluate(HIDE, False)
    page.wait_for_timeout(100)
    expect(page.locator("#live")).to_have_text("Live")
    server.await_streams(2)
    assert server.last_ids == [None, "0"]


class Meter:
    """The processor time of the page's main thread: script, style, layout and paint, and no waiting
    for a processor that others use."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def read_ms(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return 1000 * float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def test_it_keeps_up_with_a_crowd(
    pages: BrowserPages, server: FakeServer, record_property: Callable[[str, object], None]
) -> None:
    slots = [slot(number, ORDER[number % 4]) for number in range(1, SLOTS + 1)]
    respond_with(server, pools=[pool("zoom", maxSize=SLOTS)], slots=slots)
    page = pages.live(server.url)
    expect(page.locator(".tiles li")).to_have_count(SLOTS)
    meter = Meter(page)
    told, good = [], False
    for _ in range(TRIES):
        began = meter.read_ms()
        batches, long = _run(page, server)
        each = (meter.read_ms() - began) / len(batches)
        told.append(
            f"{len(batches)} batches: median {statistics.median(batches):.1f} ms, "
            f"longest {max(batches):.1f} ms; with layout and paint {each:.1f} ms of processor "
            f"each; tasks over {LIMIT_MS} ms by the clock: {len(long)}"
        )
        # Others may hold the processor up in the middle of a batch; not in each try.
        good = max(batches) < LIMIT_MS and each < LIMIT_MS
        if good:
            break
    record_property("crowd", told)
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.write_text("\n".join(told) + "\n")
    assert good, told


def _run(page: Page, server: FakeServer) -> tuple[Sequence[float], Sequence[float]]:
    """Two seconds of a crowd; how long each batch took, and each task of over 50 ms."""
    page.evaluate(WATCH_WORK)
    for number in range(2 * CHANGES_A_SECOND):
        slot_id = 1 + number * 37 % SLOTS
        server.push(slot_change(slot_id, ORDER[number % 4], botId=number))
        time.sleep(1 / CHANGES_A_SECOND)
    batches, long = page.evaluate(STOP_WATCHING)
    assert len(batches) > CHANGES_A_SECOND / 10
    return batches, long
