"""Paging and searching through 100,000 bots: each page reads about as many rows as it shows.

As the product asks: planned once, without knowing what is asked for. Where a status or a pool is
rare, or a page is far down, a plan that filters would read all there is.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from botpool.domain.ids import BotId
from botpool.domain.states import BotStatus
from botpool.engine.admission.estimates import Estimates
from botpool.engine.queries import Queries
from botpool.store.database import Database
from botpool.store.migrations import migrate
from botpool.store.statements import sent_text
from tests.store.explained import explained, read_whole, rows_read
from tests.support.postgres import TestPostgres

BOTS = 100_000
LIMIT = 51
QUIET = 7
"""A slot without a past, beside a few with a long one."""
POOLS = ("google-meet", "teams", "zoom")

# Two of three are done; the only failure is the oldest bot, and it alone is of teams.
FILL = f"""
    SET LOCAL session_replication_role = replica;  -- without looking each pool up again
    INSERT INTO backends (name) VALUES ('process');
    INSERT INTO pools (pool_name, backend, image, max_size, heartbeats)
    SELECT pool_name, 'process', 'demo', 100, 'required'
    FROM unnest('{{{",".join(POOLS)}}}'::text[]) AS pool_name;
    INSERT INTO bots (
        pool_name, status, meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms,
        correlation_id, created_at, ended_at, failure_code)
    SELECT
        CASE WHEN n = 1 THEN 'teams' WHEN n % 2 = 0 THEN 'zoom' ELSE 'google-meet' END,
        CASE WHEN n = 1 THEN 'FAILED' WHEN n % 3 = 0 THEN 'CANCELLED' ELSE 'DONE' END,
        'https://zoom.us/j/' || n, 'Botpool', '{{}}', 100, 1000, 'correlation-' || n,
        now(), now(), CASE WHEN n = 1 THEN 'operator' END
    FROM generate_series(1, {BOTS}) AS n;
    INSERT INTO bot_pool_queue (bot_id, pool_name, queued_at, timeout_at)
    SELECT n, CASE WHEN n = 20000 THEN 'zoom' ELSE 'google-meet' END, now(), now()
    FROM generate_series(1, 20000) AS n;
    INSERT INTO bot_heartbeats (bot_id, assignment_id, last_at)
    SELECT n, n, now() FROM generate_series(1, 5000) AS n;
    INSERT INTO history (kind, bot_id, slot_id, assignment_id, reason)
    SELECT 'bot.status', n % 1000 + 19001, n % 5 + 2, n % 1000 + 19001, 'test'
    FROM generate_series(1, 20000) AS n;
    INSERT INTO history (kind, slot_id, reason)
    SELECT 'slot.status', n % 5 + 1, 'test' FROM generate_series(1, 5000) AS n;
    INSERT INTO assignments (id, bot_id, slot_id, slot_name, pool_name, attempt, warm, assigned_at)
    SELECT n, n, (n - 1) % 5 + 2, 's', 'zoom', 1, true, now() FROM generate_series(1, 20000) AS n;
"""


@pytest.fixture(scope="module")
def full(postgres: TestPostgres) -> Iterator[str]:
    url = postgres.create_database()
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        with connection.transaction():
            connection.execute(FILL)
        connection.execute("VACUUM ANALYZE")
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="module")
def connection(full: str) -> Iterator[psycopg.Connection]:
    """As by a session of the product."""
    with psycopg.connect(full, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute(sent_text("prepare_session"))
        yield connection


def asked(**changes: Any) -> dict[str, Any]:
    whole = {"statuses": [*BotStatus], "pool_name": None, "search": None}
    return {**whole, "before": 2**63 - 1, "since": 0, "limit": LIMIT, **changes}


A_PAGE = LIMIT * (len(POOLS) * len(BotStatus) + 2) + len(POOLS) * len(BotStatus)
"""A page of each pool and status, and the page that is made of them."""
PART = {"before": 60_001, "since": 50_001}


@pytest.mark.parametrize(
    ("parameters", "rows"),
    [
        (asked(), A_PAGE),
        (asked(before=LIMIT), A_PAGE),
        (asked(statuses=["FAILED"]), A_PAGE),
        (asked(statuses=["DONE"], before=LIMIT), A_PAGE),
        (asked(pool_name="teams"), A_PAGE),
        (asked(statuses=["DONE"], pool_name="teams"), A_PAGE),
        (asked(statuses=["CANCELLED"], pool_name="zoom", before=50_000), A_PAGE),
        (asked(search="nowhere", **PART), 10_000 + A_PAGE),
        (asked(search="nowhere", statuses=["FAILED"], **PART), A_PAGE),
        (asked(search="correlation"), A_PAGE),
    ],
    ids=lambda value: (
        " ".join(f"{k}={v}" for k, v in value.items() if v != asked()[k])
        if isinstance(value, dict)
        else ""
    ),
)
def test_a_page_of_bots_reads_few_rows(
    connection: psycopg.Connection, parameters: dict[str, Any], rows: int
) -> None:
    plan = explained(connection, "list_bots", parameters)
    assert not read_whole(plan)
    assert rows_read(plan) <= rows


@pytest.mark.parametrize(
    ("name", "parameters", "rows"),
    [
        ("find_bot_bounds", {}, 2),
        ("list_queue", {"pool_name": None, "limit": 1000}, 1010),
        ("list_queue", {"pool_name": "zoom", "limit": 1000}, 1 + len(POOLS)),
        ("list_bot_history", {"bot_id": 19_007}, 40),
        # Those of its stays, those without a bot, and both put together.
        ("list_slot_history", {"slot_id": 3, "limit": 500}, 1_600),
        ("list_slot_history", {"slot_id": QUIET, "limit": 500}, 0),
        ("list_slot_assignments", {"slot_id": 3, "limit": 200}, 400),
        ("list_slot_assignments", {"slot_id": QUIET, "limit": 200}, 0),
        ("find_oldest_change", {}, 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_page_asks_beside_reads_few_rows(
    connection: psycopg.Connection, name: str, parameters: dict[str, Any], rows: int
) -> None:
    plan = explained(connection, name, parameters)
    assert not read_whole(plan)
    assert rows_read(plan) <= rows


@pytest.fixture
async def reading(full: str) -> AsyncIterator[Queries]:
    database = Database(full)
    await database.open()
    yield Queries(database=database, backends={}, estimates=Estimates(database))
    await database.close()


async def walked(
    reading: Queries, *, limit: int = 50, search: str | None = None, status: str | None = None
) -> list[list[int]]:
    """The bots of each page, to the last one."""
    pages: list[list[int]] = []
    before: BotId | None = None
    while not pages or before is not None:
        page = await reading.bots(
            status=BotStatus(status) if status else None,
            pool_name=None,
            search=search,
            before=before,
            limit=limit,
        )
        pages.append([bot.id for bot in page.bots])
        before = page.before
    return pages


async def test_every_page_is_reached_and_no_bot_is_shown_twice(reading: Queries) -> None:
    pages = await walked(reading, limit=10_000, status="CANCELLED")
    assert [bot for page in pages for bot in page] == [*range(99_999, 0, -3)]
    assert [len(page) for page in pages] == [10_000, 10_000, 10_000, 3_333]
    assert await walked(reading, status="FAILED") == [[1]]
    assert await walked(reading, search="J/9999") == [[*range(99_999, 99_989, -1), 9_999]]
    assert await walked(reading, search="1", status="FAILED") == [[1]]


async def test_a_search_answers_after_each_part(
    reading: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botpool.engine.queries._SEARCHED", 30_000)
    pages = await walked(reading, search="j/9999", limit=6)
    assert pages == [[*range(99_999, 99_993, -1)], [*range(99_993, 99_989, -1)], [], [9_999], []]
