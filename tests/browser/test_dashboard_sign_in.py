"""Signing in to the dashboard of a running Botpool."""

from playwright.sync_api import expect

from tests.browser.browser_pages import BrowserPages, expect_toast
from tests.browser.running_botpool import RunningBotpool
from tests.support.sessions import COOKIE


def test_key_in_the_address_becomes_a_session_cookie(
    pages: BrowserPages, botpool: RunningBotpool
) -> None:
    pages.expect_console_error("401")
    page = pages.live(botpool.url, botpool.address)
    assert page.url == f"{botpool.url}/"
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert botpool.key not in page.evaluate("document.cookie + JSON.stringify({...localStorage})")
    page.reload()
    expect(page.locator("#live")).to_have_text("Live")
    page.get_by_role("button", name="Sign out").click()
    page.locator("#sign-in").wait_for()
    assert page.context.cookies() == []


def test_invalid_key_shows_an_error_and_a_valid_key_signs_in(
    pages: BrowserPages, botpool: RunningBotpool
) -> None:
    pages.expect_console_error("401")
    page = pages.new(botpool.url)
    page.goto(f"{botpool.url}/#key=bpk_wrong")
    expect(page.get_by_text("This key is not valid")).to_be_visible()
    assert page.url == f"{botpool.url}/"
    expect(page.locator("#view")).to_be_hidden()
    field = page.get_by_label("API key")
    expect(field).to_be_focused()
    page.keyboard.type("Schlüssel")
    page.keyboard.press("Enter")
    expect(field).to_have_value("")
    expect(page.get_by_text("This key is not valid")).to_be_visible()
    expect(field).to_be_focused()
    page.keyboard.type(f"{botpool.url}/#key={botpool.key}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("All pools are healthy")
    assert field.input_value() == "", "the key is still in the page"
    expect(page.locator("#sign-in")).to_be_hidden()


def test_link_with_another_key_asks_before_it_replaces_the_session(
    pages: BrowserPages, botpool: RunningBotpool
) -> None:
    pages.expect_console_error("409")
    page = pages.live(botpool.url, botpool.address)
    session = page.context.cookies()
    page.goto(f"{botpool.url}/docs")
    page.goto(f"{botpool.url}/{botpool.address}")
    expect(page.locator("#live")).to_have_text("Live")
    assert page.context.cookies() == session, "the same key keeps its session"
    other = f"{botpool.url}/#key={botpool.new_key('operator')[1]}"
    asking = page.get_by_role("dialog", name="Sign in with another key?")
    page.goto(f"{botpool.url}/docs")
    page.goto(other)
    expect(asking).to_contain_text("signed in as 'first key' (admin), not as 'a operator'")
    asking.get_by_role("button", name="Stay signed in").click()
    expect(page.locator("#live")).to_have_text("Live")
    assert page.context.cookies() == session
    page.goto(other)  # only the fragment changes: the open page handles it, then it reloads
    with page.expect_event("load"):
        asking.get_by_role("button", name="Stay signed in").click()
    expect(page.locator("#live")).to_have_text("Live")
    assert page.context.cookies() == session
    page.goto(f"{botpool.url}/docs")
    page.goto(other)
    asking.get_by_role("button", name="Use the link's key").click()
    expect(page.locator("#live")).to_have_text("Live")
    assert page.context.cookies() != session


def test_user_key_shows_bots_and_queue_and_explains_the_limit(
    pages: BrowserPages, botpool: RunningBotpool
) -> None:
    page = pages.live(botpool.url, f"#key={botpool.new_key('user')[1]}")
    expect(page.get_by_text("scope “user”")).to_be_visible()
    nav = page.get_by_role("navigation", name="Views")
    expect(nav.get_by_role("link")).to_have_text(["Overview", "Queue", "Bots", "Webhooks"])
    nav.get_by_role("link", name="Bots").click()
    expect(page.get_by_role("heading", name="Bots")).to_be_visible()


def test_api_reference_page_uses_only_its_own_server(
    pages: BrowserPages, botpool: RunningBotpool
) -> None:
    page = pages.new(botpool.url)
    page.goto(f"{botpool.url}/docs")
    call = page.locator("article").filter(has_text="Send a bot into a meeting.")
    expect(call.get_by_role("heading")).to_contain_text(["POST/v1/bots", "Parameters", "Body"])
    expect(call).to_contain_text("meetingUrl")
    page.locator("#contents a[href='#get-v1-pools']").click()
    expect(
        page.locator("article").filter(has_text="List all pools with their figures.")
    ).to_be_in_viewport()


def test_revoked_key_asks_for_another_and_keeps_the_view(
    pages: BrowserPages, botpool: RunningBotpool
) -> None:
    pages.allow_console_error("401")  # a request after the revocation, before the stream ends
    key_id, secret = botpool.new_key("operator")
    page = pages.live(botpool.url, f"#key={secret}")
    page.get_by_role("link", name="Slots").click()
    expect(page.get_by_role("heading", name="Slots")).to_be_visible()
    page.evaluate("window.kept = true")
    botpool.revoke(key_id)
    expect(page.get_by_text("The session has ended. Enter a key to continue.")).to_be_visible()
    expect(page.locator("#live")).to_be_hidden()
    page.get_by_label("API key").fill(botpool.key)
    page.keyboard.press("Enter")
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.get_by_role("heading", name="Slots")).to_be_visible()
    assert page.evaluate("window.kept"), "the page reloaded"


def test_expired_session_can_be_renewed_without_losing_an_open_dialog(
    pages: BrowserPages, botpool: RunningBotpool
) -> None:
    pages.expect_console_error("401")
    key_id, secret = botpool.new_key("operator")
    page = pages.live(botpool.url, f"#key={secret}")
    page.get_by_role("button", name="Send a bot").click()
    sending = page.get_by_role("dialog", name="Send a bot")
    sending.get_by_label("Meeting link").fill("https://teams.microsoft.com/half-written")
    ended = {"name": COOKIE, "value": botpool.expired_session(key_id), "url": botpool.url}
    page.context.add_cookies([ended])
    sending.get_by_role("button", name="Send").click()
    signing_in = page.get_by_role("dialog", name="Sign in")
    expect(signing_in).to_contain_text("The session has ended. Enter a key to continue.")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(secret)
    page.keyboard.press("Enter")
    expect(page.locator("#live")).to_have_text("Live")
    expect(sending.get_by_role("alert")).to_have_text(
        "The session had ended, so nothing changed. Try again."
    )
    sending.get_by_role("button", name="Send").click()
    expect_toast(page, r"Bot \d+: ")
