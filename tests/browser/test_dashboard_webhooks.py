"""The dashboard's webhooks: the list, the secret that appears once, deliveries and actions."""

from typing import Any

from playwright.sync_api import expect

from tests.browser.browser_pages import BrowserPages
from tests.browser.fake_server import FakeServer
from tests.browser.sample_responses import ago, delivery, respond_with, webhook


def test_deliveries_show_request_answer_and_next_attempt(
    pages: BrowserPages, server: FakeServer
) -> None:
    respond_with(server)
    failing: dict[str, Any] = {
        "status": "pending",
        "attempts": 3,
        "nextAttemptAt": ago(-1800),
        "response": {"status": 500, "body": "<b>broken</b>"},
        "problem": "answered 500",
    }
    server.responses["webhooks/1"] = {"webhook": webhook(1, status="failing", pending=1)}
    server.responses["webhooks/1/deliveries"] = {
        "deliveries": [delivery(9, "bot.done", 7, **failing)],
        "nextCursor": None,
    }
    page = pages.live(server.url, "#/webhooks/1")
    item = page.locator(".deliveries li")
    expect(item.locator("summary")).to_contain_text("bot.done")
    expect(item.locator("summary")).to_contain_text("3 attempts, last")
    expect(item.locator("summary")).to_contain_text("next")
    expect(item.locator("summary")).to_contain_text("answered 500")
    item.locator("summary b").click()
    request, answer = item.locator("pre").all()
    expect(request).to_contain_text("POST https://crm.example.org/hooks/botpool/1")
    expect(request).to_contain_text("webhook-id: evt_9")
    expect(request).to_contain_text('"botId": 7')
    expect(answer).to_have_text("500\n\n<b>broken</b>")


def test_secret_of_a_new_webhook_appears_once(pages: BrowserPages, server: FakeServer) -> None:
    respond_with(server)
    listed: dict[str, Any] = {"webhooks": [], "webhook": webhook(1), "secret": "whsec_c2VjcmV0"}
    server.responses["webhooks"] = listed
    page = pages.live(server.url, "#/webhooks")
    expect(page.locator(".empty")).to_contain_text("No webhook yet")
    page.get_by_role("button", name="Create a webhook").click()
    page.get_by_label("Address").fill("https://example.org/hook")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("whsec_c2VjcmV0")
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_text("whsec_")).to_have_count(0)
    assert "POST webhooks" in " ".join(server.requests).replace("/v1/", "")


def test_disabled_webhook_shows_its_reason_and_can_be_replayed(
    pages: BrowserPages, server: FakeServer
) -> None:
    respond_with(server)
    reason = "All attempts failed for 5 days."
    disabled = webhook(1, status="disabled", disabledReason=reason, disabledAt=ago(60))
    server.responses["webhooks/1"] = {"webhook": disabled}
    server.responses["webhooks/1/deliveries"] = {"deliveries": [], "nextCursor": None}
    server.responses["webhooks/1/replay"] = {"webhook": webhook(1)}
    page = pages.live(server.url, "#/webhooks/1")
    expect(page.locator(".failure")).to_have_text(reason)
    page.get_by_role("button", name="Replay").click()
    server.responses["webhooks/1"] = {"webhook": webhook(1)}
    page.get_by_role("dialog").get_by_role("button", name="Replay").click()
    expect(page.locator(".heading .pill").first).to_have_text("active")
