"""The dashboard on days that are hard to bring about: trouble, crowds, markup in names."""

import pytest
from answers import Answers, bot, entry, pool, slot
from playwright.sync_api import Page, expect
from running_botpool import RunningBotpool
from visits import Visits

NONE = "\u2013"
MARKUP = "<img src=x onerror=alert(1)>"
STATUSES = ("busy", "deploying", "releasing", "idle", "error", "deleting")

COUNT_CHANGES = """
() => {
    window.changed = new Set();
    new MutationObserver((changes) => changes.forEach(({target}) => window.changed.add(target)))
        .observe(document.getElementById("overview"), {childList: true, subtree: true});
}
"""
HIDE = """
(hidden) => {
    Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}
"""


@pytest.fixture
def page(visits: Visits) -> Page:
    """With a clock that the test moves."""
    page = visits.new()
    page.clock.install()
    return page


def test_trouble_is_in_plain_sight(page: Page, botpool: RunningBotpool) -> None:
    Answers(
        page,
        pools=[
            pool(
                "zoom",
                drained=True,
                backendHealth={"ok": False, "detail": "it answers 502"},
                slotsByStatus={"busy": 2, "error": 1},
                queueDepth=4,
                oldestWaitMs=125_000,
                warmHitRatio=0.875,
                timeToRunningP50Ms=420,
                timeToRunningP95Ms=31_400,
            )
        ],
        slots=[
            slot(1, "busy", cordoned=True),
            slot(2, "deploying", phase="waiting_for_image"),
            slot(3, "error", errorMessage=f"no container {MARKUP}"),
        ],
        bots=[bot(7, "FAILED", failureCode="heartbeat_lost", meetingUrl="https://[broken")],
    )
    page.goto(botpool.url)
    card = page.get_by_role("article")
    expect(card.get_by_role("heading")).to_have_text("zoomdrained")
    for text in (
        "Trouble with the backend “coolify”: it answers 502",
        "2 of 100",
        "4, oldest 2 min 5 s",
        "88 %",
        "420 ms / 31.4 s",
    ):
        expect(card.get_by_text(text)).to_be_visible()
    expect(card.get_by_role("list", name="Slots", exact=True).get_by_role("listitem")).to_have_text(
        [
            "001busy, cordonedbot 11 min 5 s",
            "002waiting for imagebot 21 min 5 s",
            f"003errorno bot1 min 5 sno container {MARKUP}",
        ]
    )
    expect(page.locator("#bots tbody tr")).to_have_text(f"7FAILED{NONE}1 min 5 sheartbeat_lost")
    assert page.locator("main img").count() == 0


def test_the_policy_lets_no_text_become_markup(
    visits: Visits, page: Page, botpool: RunningBotpool
) -> None:
    visits.expect_complaint("This document requires 'TrustedHTML' assignment")
    Answers(page)
    page.goto(botpool.url)
    refused = page.evaluate(
        "() => { try { document.body.innerHTML = '<b>x</b>' } catch (e) { return e.name } }"
    )
    assert refused == "TypeError"


def test_hundreds_of_slots_change_one_at_a_time(page: Page, botpool: RunningBotpool) -> None:
    slots = [slot(number, STATUSES[number % 6]) for number in range(1, 601)]
    answers = Answers(
        page,
        pools=[pool("zoom", maxSize=600, slotsByStatus=dict.fromkeys(STATUSES, 100))],
        slots=slots,
        queue=[entry(number) for number in range(1, 201)],
    )
    page.goto(botpool.url)
    tiles = page.locator(".slots li")
    expect(tiles).to_have_count(600)
    expect(page.locator("#queue tbody tr")).to_have_count(50)
    expect(page.get_by_text("The first 50; 150 more wait behind them.")).to_be_visible()
    page.evaluate(COUNT_CHANGES)
    slots[9] = slot(10, "releasing")
    del slots[20]
    page.clock.run_for(2_100)
    expect(tiles).to_have_count(599)
    expect(tiles.nth(9)).to_have_attribute("data-status", "releasing")
    changed = page.evaluate("Array.from(window.changed, (node) => node.tagName)")
    assert sorted(changed) == ["SPAN", "SPAN", "UL"], "two texts of a tile, and the list"
    assert answers.looks == 2


def test_nothing_yet_says_what_to_do(page: Page, botpool: RunningBotpool) -> None:
    Answers(page, pools=[pool("teams")])
    page.goto(botpool.url)
    expect(page.get_by_text("No slots yet: the first bot makes one.")).to_be_visible()
    expect(page.get_by_text("No bots yet. Send one:")).to_be_visible()
    command = page.locator("#bots-command")
    expect(command).to_contain_text(f"curl {botpool.url}/v1/bots")
    expect(command).to_contain_text('"platform": "teams"')
    page.get_by_text("Send one", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("article").locator("pre")).to_be_visible()


def test_trouble_of_the_server_is_told_in_its_own_words(
    visits: Visits, page: Page, botpool: RunningBotpool
) -> None:
    visits.expect_complaint("503")
    answers = Answers(page, bots=[bot(1, "IN_CALL")])
    page.goto(botpool.url)
    expect(page.get_by_text("IN_CALL")).to_be_visible()
    answers.status = 503
    page.clock.run_for(2_100)
    notice = page.get_by_role("status")
    expect(notice).to_have_text("Not live, trying again: The database does not answer.")
    expect(page.get_by_text("IN_CALL")).to_be_visible()
    answers.status = 200
    page.clock.run_for(2_100)
    expect(notice).to_have_text("")


def test_a_hidden_tab_asks_for_nothing(page: Page, botpool: RunningBotpool) -> None:
    answers = Answers(page, bots=[bot(1, "IN_CALL")])
    page.goto(botpool.url)
    expect(page.get_by_text("IN_CALL")).to_be_visible()
    page.evaluate(HIDE, True)
    page.clock.run_for(60_000)
    assert answers.looks == 1
    answers.bodies["bots"] = {"bots": [bot(1, "DONE")]}
    page.evaluate(HIDE, False)
    expect(page.get_by_text("DONE")).to_be_visible()


@pytest.mark.parametrize("width", [1280, 820, 390])
def test_long_texts_stay_inside(visits: Visits, botpool: RunningBotpool, width: int) -> None:
    page = visits.new(width=width)
    long = {
        "meetingUrl": "https://a-rather-long-name-of-a-company.webex.example.org/",
        "slotName": "pool-a-rather-long-name-of-a-pool-001",
        "failureReason": "word" * 100,
    }
    Answers(
        page,
        pools=[pool("a-rather-long-name-of-a-pool")],
        slots=[slot(1, "error", platform="a-rather-long-name-of-a-pool", errorMessage="word" * 99)],
        queue=[entry(1)],
        bots=[bot(123456, "IN_WAITING_ROOM", **long)],
    )
    page.goto(botpool.url)
    expect(page.get_by_text("IN_WAITING_ROOM")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for cell in page.locator("td, .slots li").all():
        assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth + 1")


@pytest.mark.parametrize("width", [1280, 390])
def test_it_reads_well_without_eyes(visits: Visits, botpool: RunningBotpool, width: int) -> None:
    page = visits.new(width=width)
    Answers(page, pools=[pool("zoom")], queue=[entry(1)], bots=[bot(7, "QUEUED")])
    page.goto(botpool.url)
    for landmark in ("banner", "main"):
        expect(page.get_by_role(landmark)).to_be_visible()
    for region, columns in (("Queue", 7), ("Bots", 6)):
        table = page.get_by_role("region", name=region).get_by_role("table", name=region)
        expect(table.get_by_role("columnheader")).to_have_count(columns)
        expect(table.get_by_role("cell")).to_have_count(columns)
    assert page.locator("[aria-live]").count() == 1
