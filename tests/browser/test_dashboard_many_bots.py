"""The view of all bots with 100,000 bots in the database: filters, search and pages."""

import time
from pathlib import Path

import httpx
import psycopg
import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser_pages import BrowserPages
from tests.browser.running_botpool import RunningBotpool, running_botpool

BOTS = 100_000
FIGURES = Path(__file__).parents[2] / "artefacts" / "many.txt"

FILL = f"""
    SET LOCAL session_replication_role = replica;
    INSERT INTO bots (
        pool_name, status, meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms,
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
def test_bots_view_finds_and_pages_through_100_000_bots(
    pages: BrowserPages, tmp_path: Path
) -> None:
    with running_botpool(tmp_path) as botpool:
        with psycopg.connect(botpool.database_url, autocommit=True) as connection:
            with connection.transaction():
                connection.execute(FILL)
            connection.execute("VACUUM ANALYZE bots")
        page = pages.live(botpool.url, botpool.address)
        figures = [
            f"{name}: {seconds * 1000:.0f} ms"
            for name, seconds in {
                "first page": open_bots(page),
                "next page": next_page(page),
                "the only failed bot, the oldest": find(page, "1", Status="FAILED"),
                "search by name": find(page, "777", Search="needle"),
                "search without a match": find(page, None, Search="nowhere at all"),
            }.items()
        ]
        began = time.monotonic()
        assert read_all(botpool) == [*range(BOTS, 0, -1)]
        figures.append(f"all pages by the API's cursor: {time.monotonic() - began:.1f} s")
        pages.close()
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.write_text("\n".join(figures) + "\n")


def open_bots(page: Page) -> float:
    began = time.monotonic()
    page.get_by_role("link", name="Bots", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(50)
    return time.monotonic() - began


def next_page(page: Page) -> float:
    began = time.monotonic()
    page.get_by_role("button", name="Older").click()
    expect(page.locator("tbody tr").first).to_contain_text(f"bot {BOTS - 50}")
    return time.monotonic() - began


def find(page: Page, bot: str | None, **wanted: str) -> float:
    """Apply one filter and wait for the only bot that matches; return the seconds."""
    page.get_by_label("Status").select_option(wanted.get("Status", ""))
    began = time.monotonic()
    page.get_by_label("Search").fill(wanted.get("Search", ""))
    if bot is None:
        expect(page.get_by_text("No bot matches.")).to_be_visible()
    else:
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody tr a")).to_have_text(f"bot {bot}")
    return time.monotonic() - began


def read_all(botpool: RunningBotpool) -> list[int]:
    """The ids of all bots, read page by page."""
    headers = {"Authorization": f"Bearer {botpool.key}"}
    ids: list[int] = []
    cursor: str | None = None
    with httpx.Client(base_url=botpool.url, headers=headers, timeout=60) as client:
        while True:
            parameters = {"limit": "500"} | ({"cursor": cursor} if cursor else {})
            response = client.get("/v1/bots", params=parameters).raise_for_status().json()
            ids += [bot["id"] for bot in response["bots"]]
            cursor = response["nextCursor"]
            if cursor is None:
                return ids
