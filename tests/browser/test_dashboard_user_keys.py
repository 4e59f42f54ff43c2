"""The dashboard for keys of the scope `user`: own bots only, and only controls they may use."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, Response, expect

from tests.browser.browser_pages import BrowserPages, Scheme, assert_fits, expect_toast
from tests.browser.fake_server import FakeServer
from tests.browser.running_botpool import RunningBotpool
from tests.browser.sample_responses import pool, respond_with, slot

ARTEFACTS = Path(__file__).parents[2] / "artefacts" / "pictures"
LONG_S = 600
SECRET = "globex-board-meeting"
"""Stands in everything that belongs to the other tenant."""
HEADER = {"Send a bot", "Sign out"}
OPERATOR_ADDRESSES = (
    "#/slots",
    "#/slots/1",
    "#/plan",
    "#/rollouts",
    "#/audit",
    "#/slots?status=idle",
)


@dataclass(kw_only=True)
class Tenants:
    """A running and a queued bot and a webhook of acme, and the same of globex."""

    botpool: RunningBotpool
    acme_key: str
    running: int
    queued: int
    webhook: int
    others: tuple[int, ...]
    other_webhook: int


@pytest.fixture(scope="module")
def tenants(botpool: RunningBotpool) -> Iterator[Tenants]:
    keys = {}
    for name in ("acme", "globex"):
        botpool.new_tenant(name)
        keys[name] = botpool.new_key("user", name)[1]
    stay = {"joinSeconds": 0, "staySeconds": LONG_S}
    others = [botpool.send("zoom.us", key=keys["globex"], name=SECRET, **stay) for _ in range(2)]
    running = botpool.send("zoom.us", key=keys["acme"], name="acme weekly", **stay)
    others.append(botpool.send("zoom.us", key=keys["globex"], name=SECRET, **stay))
    queued = botpool.send("zoom.us", key=keys["acme"], name="acme sales", **stay)
    botpool.wait_for_status(running, "IN_CALL")
    made = Tenants(
        botpool=botpool,
        acme_key=keys["acme"],
        running=running,
        queued=queued,
        webhook=botpool.new_webhook(keys["acme"], "https://acme.invalid/hooks"),
        others=tuple(others),
        other_webhook=botpool.new_webhook(keys["globex"], f"https://{SECRET}.invalid/hooks"),
    )
    yield made
    for bot in (*others, running, queued):
        botpool.ask_to_leave(bot)


def sign_in(
    pages: BrowserPages, tenants: Tenants, *, width: int = 1280, scheme: Scheme = "light"
) -> Page:
    address = f"#key={tenants.acme_key}"
    return pages.live(tenants.botpool.url, address, width=width, scheme=scheme)


def visit(page: Page, address: str, heading: str | re.Pattern[str]) -> None:
    page.goto(f"{page.url.partition('#')[0]}{address}")
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)


def buttons(page: Page) -> set[str]:
    """The names of the visible buttons, except for the colours and the pages of lists."""
    found = page.locator("button:visible:not(#theme, .paging *)").all()
    names = {(each.text_content() or "").strip() for each in found}
    return names - {"", "Copy"}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_every_page_shows_the_own_tenant_and_allowed_controls_only(
    pages: BrowserPages, tenants: Tenants, width: int, scheme: Scheme
) -> None:
    """No request is refused: the page's console has no error at the end."""
    page = sign_in(pages, tenants, width=width, scheme=scheme)
    answers: list[str] = []

    def keep(response: Response) -> None:
        if "/v1/" in response.url and "json" in response.headers.get("content-type", ""):
            answers.append(response.text())

    page.on("response", keep)
    views = {
        "overview": ("#/", "Bots of the tenant “acme”", HEADER),
        "queue": ("#/queue", "Queue", HEADER | {"Cancel"}),
        "bots": ("#/bots", "Bots", HEADER),
        "bot": (f"#/bots/{tenants.running}", f"Bot {tenants.running}", HEADER | {"Ask to leave"}),
        "queued-bot": (f"#/bots/{tenants.queued}", f"Bot {tenants.queued}", HEADER | {"Cancel"}),
        "webhooks": ("#/webhooks", "Webhooks", HEADER | {"Create a webhook"}),
        "webhook": (
            f"#/webhooks/{tenants.webhook}",
            f"Webhook {tenants.webhook}",
            HEADER | {"Test", "Replay", "Rotate", "Delete"},
        ),
    }
    shown = {
        "queue": f"bot {tenants.queued}",
        "bots": "acme weekly",
        "bot": "in call",
        "queued-bot": "queued",
        "webhooks": "acme.invalid",
        "webhook": "acme.invalid",
    }
    for name, (address, heading, controls) in views.items():
        visit(page, address, heading)
        if name in shown:
            expect(page.locator("#view")).to_contain_text(shown[name])
        page.wait_for_function(
            "(count) => document.querySelectorAll('#view button').length >= count",
            arg=len(controls - HEADER),
        )
        assert buttons(page) == controls, name
        assert_fits(page)
        _screenshot(page, f"user-{name}-{scheme}-{width}")
    expect(page.get_by_role("navigation", name="Views").get_by_role("link")).to_have_text(
        ["Overview", "Queue", "Bots", "Webhooks"]
    )
    assert any("acme weekly" in each for each in answers)
    assert not any(SECRET in each for each in answers), "the server sent another tenant's data"


def test_lists_search_and_log_contain_the_own_bots(pages: BrowserPages, tenants: Tenants) -> None:
    page = sign_in(pages, tenants)
    visit(page, "#/bots", "Bots")
    rows = page.get_by_role("table", name="Bots").locator("tbody tr")
    expect(rows).to_have_count(2)
    search = page.get_by_placeholder("name, meeting")
    search.fill("globex")
    expect(page.get_by_text("No bot matches.")).to_be_visible()
    search.fill("weekly")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(f"bot {tenants.running}")
    expect(page.get_by_label("Pool")).to_have_count(0)
    expect(page.get_by_label("Tenant")).to_have_count(0)
    visit(page, "#/queue", "Queue")
    queue = page.get_by_role("table", name="Queue").locator("tbody tr")
    expect(queue).to_have_count(1)
    expect(queue.locator("td").first).to_have_text("1")
    visit(page, f"#/bots/{tenants.running}", f"Bot {tenants.running}")
    expect(page.get_by_role("log", name="Container output")).to_contain_text("in call")
    expect(page.locator("a[href^='#/slots']")).to_have_count(0)


def test_records_of_other_tenants_do_not_exist(pages: BrowserPages, tenants: Tenants) -> None:
    pages.expect_console_error("404")
    page = sign_in(pages, tenants)
    for bot in tenants.others:
        visit(page, f"#/bots/{bot}", f"Bot {bot}")
        expect(page.get_by_text(f"There is no bot {bot}.")).to_be_visible()
        assert buttons(page) == HEADER
    visit(page, f"#/webhooks/{tenants.other_webhook}", f"Webhook {tenants.other_webhook}")
    expect(page.get_by_text("This webhook does not exist or was deleted.")).to_be_visible()
    assert buttons(page) == HEADER
    assert SECRET not in page.content()


def test_bot_is_sent_followed_live_and_cancelled(pages: BrowserPages, tenants: Tenants) -> None:
    """The event stream updates the list: nothing reloads the page."""
    pages.expect_console_error("422")
    page = sign_in(pages, tenants)
    visit(page, "#/bots", "Bots")
    page.evaluate("window.kept = true")
    page.get_by_role("button", name="Send a bot").click()
    dialog = page.get_by_role("dialog", name="Send a bot")
    dialog.get_by_label("Meeting link").fill("https://unknown.example.org/room")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.get_by_role("alert")).to_have_text(
        "The pool cannot be derived from this link. Name one."
    )
    dialog.get_by_label("Pool").fill("absent")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Pool: ")
    dialog.get_by_label("Pool").fill("zoom")
    dialog.get_by_label("Name in the meeting").fill("acme live")
    dialog.get_by_role("button", name="Send").click()
    expect_toast(page, r"Bot \d+: position 2 in the queue")
    row = page.get_by_role("table", name="Bots").get_by_role("row").filter(has_text="acme live")
    expect(row).to_contain_text("queued")
    row.get_by_role("link").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the bot").click()
    expect(page.locator(".heading .pill")).to_have_text("cancelled")
    page.get_by_role("link", name="Bots", exact=True).first.click()
    expect(row).to_contain_text("cancelled")
    assert page.evaluate("window.kept"), "the page reloaded"


@pytest.mark.parametrize("address", OPERATOR_ADDRESSES)
def test_pages_of_operators_explain_that_the_key_cannot_open_them(
    pages: BrowserPages, server: FakeServer, address: str
) -> None:
    server.scope = "user"
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "busy")])
    page = pages.live(server.url, address)
    expect(page.get_by_role("heading", level=1)).to_have_text("This page is for operators")
    expect(page.get_by_text("Sign in with a key of the scope “operator”")).to_be_visible()
    assert buttons(page) == HEADER
    assert server.requests == ["POST session"], "requests that the server would refuse"


@pytest.mark.parametrize(("scope", "count"), [("operator", 0), ("admin", 1)])
def test_forced_release_is_offered_to_admins_only(
    pages: BrowserPages, server: FakeServer, scope: str, count: int
) -> None:
    server.scope = scope
    lost = slot(
        1, "releasing", unconfirmedReason="node gone", unconfirmedSince="2026-01-01T10:00:00Z"
    )
    respond_with(server, pools=[pool("zoom")], slots=[lost])
    server.responses |= {
        "slots/1": {"slot": lost},
        "slots/1/assignments": {"assignments": [], "nextCursor": None},
        "slots/1/history": {"events": [], "nextCursor": None},
    }
    page = pages.live(server.url, "#/slots/1")
    expect(page.get_by_role("button", name="Recover")).to_be_visible()
    expect(page.get_by_role("button", name="Force release")).to_have_count(count)


def test_sign_in_with_a_user_key_closes_a_page_of_operators(
    pages: BrowserPages, server: FakeServer
) -> None:
    pages.expect_console_error("401")
    respond_with(server, pools=[pool("zoom")], slots=[slot(1, "busy")])
    page = pages.live(server.url, "#/slots")
    expect(page.get_by_role("table", name="Slots")).to_contain_text("pool-zoom-001")
    server.errors[""] = (401, "The key is no longer valid.")
    server.close_streams()
    expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
    server.scope = "user"
    server.errors.clear()
    page.get_by_label("API key").fill("bpk_of_a_user")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("This page is for operators")
    expect(page.locator("#view")).not_to_contain_text("pool-zoom-001")


def _screenshot(page: Page, name: str) -> None:
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"{name}.png", animations="disabled")
