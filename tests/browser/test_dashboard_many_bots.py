"""A hundred thousand bots in a real database, before a real browser: filtered, searched, paged."""

import time
from pathlib import Path

import httpx
import psycopg
import pytest
from playwright.sync_api import Page, expect
from tests.browser.running_botpool import RunningBotpool, running_botpool
from tests.browser.browser_pages import BrowserPages

BOTS = 100_000
FIGURES = Path(__file__).parents[2] / "artefacts" / "many.txt"

FILL = f"""
    SET LOCAL session_replication_role = replica;
    INSERT INTO bots (
        platform, status, meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms,
        correlation_id, created_at, started_at, ended_at, failure_code)
    SELECT
        CASE WHEN n % 2 = 0 THEN 'zoom' ELSE 'google-meet' END,
        CASE WHEN n = 1 THEN 'FAILED' ELSE 'DONE' END,
        'https://zoom.us/j/' || n, CASE WHEN n = 777 THEN 'Needle' ELSE 'Botpool' END, '{{}}', 100,
        1000, md5(n::text), now() - interval '1 hour', now() - interval '59 minutes',
        now() - interval '9 minutes', CASE WHEN n = 1 THEN 'operator' END
    FROM generate_series(1, {BOTS}) AS n;
"""


@pytest.mark.long
def test_a_hundred_thousand_bots_are_leafed_through(pages: BrowserPages, tmp_path: Path) -> None:
    with running_botpool(tmp_path) as botpool:
        with psycopg.connect(botpool.database_url, autocommit=True) as connection:
            with connection.transaction():
                connection.execute(FILL)
            connection.execute("VACUUM ANALYZE bots")
        page = pages.live(botpool.url, botpool.address)
        told = [
            f"{what}: {seconds * 1000:.0f} ms"
            for what, seconds in {
                "first page": open_bots(page),
                "next page": leaf(page),
                "the one failure, the oldest": find(page, "1", Status="FAILED"),
                "search by name": find(page, "777", Search="needle"),
                "search that finds nothing": find(page, None, Search="nowhere at all"),
            }.items()
        ]
        began = time.monotonic()
        assert walk(botpool) == [*range(BOTS, 0, -1)]
        told.append(f"all of them by the API's cursor: {time.monotonic() - began:.1f} s")
        pages.leave()
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.write_text("\n".join(told) + "\n")


def open_bots(page: Page) -> float:
    began = time.monotonic()
    page.get_by_role("link", name="Bots", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(50)
    return time.monotonic() - began


def leaf(page: Page) -> float:
    began = time.monotonic()
    page.get_by_role("button", name="Older").click()
    expect(page.locator("tbody tr").first).to_contain_text(f"bot {BOTS - 50}")
    return time.monotonic() - began


def find(page: Page, bot: str | None, **wanted: str) -> float:
    """With one choice, and no other; the bot that must be the only one."""
    page.get_by_label("Status").select_option(wanted.get("Status", ""))
    began = time.monotonic()
    page.get_by_label("Search").fill(wanted.get("Search", ""))
    if bot is None:
        expect(page.get_by_text("No bot is like that.")).to_be_visible()
    else:
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody tr a")).to_have_text(f"bot {bot}")
    return time.monotonic() - began


def walk(botpool: RunningBotpool) -> list[int]:
    """Every bot, page after page."""
    headers = {"Authorization": f"Bearer {botpool.key}"}
    seen: list[int] = []
    cursor: str | None = None
    with httpx.Client(base_url=botpool.url, headers=headers, timeout=60) as client:
        while True:
            given = {"limit": "500"} | ({"cursor": cursor} if cursor else {})
            answer = client.get("/v1/bots", params=given).raise_for_status().json()
            seen += [bot["id"] for bot in answer["bots"]]
            cursor = answer["nextCursor"]
            if cursor is None:
                return seen
