"""Pages and searches of 100,000 bots read about as many rows as they show.

Statements are planned generically, as in production. For a rare status or pool, or a page far down,
a plan that filters would read the whole table.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from botpool.domain.ids import TenantId
from botpool.domain.pages import BotPosition
from botpool.domain.states import BotStatus
from botpool.engine.admission.estimates import Estimates
from botpool.engine.admission.matcher import Matcher
from botpool.engine.observability.metrics import Metrics
from botpool.engine.queries import Queries
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Database
from botpool.store.migrator import migrate
from botpool.store.sessions import SessionTimeouts
from botpool.store.statements import sent_text
from tests.store.query_plans import explain, rows_read, scanned_tables
from tests.support.postgres import TestPostgres

BOTS = 100_000
LIMIT = 51
UNUSED_SLOT = 7
"""A slot without history; other slots have a long one."""
TENANT = 7
POOLS = ("google-meet", "teams", "zoom")

# Two of three bots are done. The oldest bot is the only failed one and the only one of teams. Every
# thousandth bot belongs to another tenant.
FILL = f"""
    SET LOCAL session_replication_role = replica;  -- without checks of foreign keys
    INSERT INTO backends (name) VALUES ('process');
    INSERT INTO pools (pool_name, backend, image, max_size, heartbeats)
    SELECT pool_name, 'process', 'demo', 100, 'required'
    FROM unnest('{{{",".join(POOLS)}}}'::text[]) AS pool_name;
    INSERT INTO tenants (id, name) VALUES ({TENANT}, 'acme');
    INSERT INTO bots (
        tenant_id, pool_name, status, meeting_url, bot_display_name, bot_data, priority,
        queue_timeout_ms, correlation_id, created_at, ended_at, failure_code)
    SELECT
        CASE WHEN n % 1000 = 0 THEN {TENANT} ELSE 1 END,
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
    INSERT INTO history (kind, bot_id, reason)
    SELECT 'agent.chat', 7, 'test' FROM generate_series(1, 20000) AS n;
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
    """A session with the settings of the product."""
    with psycopg.connect(full, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        prepare = SessionTimeouts.of(30.0).statement()
        connection.execute(sent_text(prepare.name), prepare.parameters)
        yield connection


def page_of(**changes: Any) -> dict[str, Any]:
    all_bots = {"statuses": [*BotStatus], "pool_name": None, "tenant_id": None, "search": None}
    return {**all_bots, "before": 2**63 - 1, "since": 0, "limit": LIMIT, **changes}


PAGE_ROWS = LIMIT * (len(POOLS) * len(BotStatus) + 2) + len(POOLS) * len(BotStatus)
"""The rows of one page for each pool and status, and of the merged page."""
PART = {"before": 60_001, "since": 50_001}


@pytest.mark.parametrize(
    ("parameters", "rows"),
    [
        (page_of(), PAGE_ROWS),
        (page_of(before=LIMIT), PAGE_ROWS),
        (page_of(statuses=["FAILED"]), PAGE_ROWS),
        (page_of(statuses=["DONE"], before=LIMIT), PAGE_ROWS),
        (page_of(pool_name="teams"), PAGE_ROWS),
        (page_of(statuses=["DONE"], pool_name="teams"), PAGE_ROWS),
        (page_of(statuses=["CANCELLED"], pool_name="zoom", before=50_000), PAGE_ROWS),
        (page_of(search="nowhere", **PART), 10_000 + PAGE_ROWS),
        (page_of(search="nowhere", statuses=["FAILED"], **PART), PAGE_ROWS),
        (page_of(search="correlation"), PAGE_ROWS),
        (page_of(tenant_id=1), PAGE_ROWS + 2),
        # The page of a tenant without an index of its own, most of whose range belongs to others.
        (page_of(tenant_id=TENANT, **PART), 10_000 + PAGE_ROWS),
    ],
    ids=lambda value: (
        " ".join(f"{k}={v}" for k, v in value.items() if v != page_of()[k])
        if isinstance(value, dict)
        else ""
    ),
)
def test_page_of_bots_reads_few_rows(
    connection: psycopg.Connection, parameters: dict[str, Any], rows: int
) -> None:
    plan = explain(connection, "list_bots", parameters)
    assert not scanned_tables(plan)
    assert rows_read(plan) <= rows


@pytest.mark.parametrize(
    ("parameters", "bots"),
    [
        (page_of(tenant_id=TENANT), 100),
        (page_of(tenant_id=TENANT, statuses=["CANCELLED"]), 33),
        (page_of(tenant_id=TENANT, pool_name="google-meet"), 0),
        (page_of(tenant_id=TENANT, before=50_000), 49),
        (page_of(tenant_id=TENANT, search="nowhere", **PART), 10),
        (page_of(tenant_id=TENANT + 1), 0),
    ],
)
def test_page_of_a_tenant_reads_only_its_own_bots(
    connection: psycopg.Connection, parameters: dict[str, Any], bots: int
) -> None:
    """The ranges of one index hold the tenant's bots, however many others the table has."""
    plan = explain(connection, "list_bots_of_tenant", parameters)
    assert not scanned_tables(plan)
    # For each bot of the page its pool, its tenant and its key.
    details = LIMIT * 3 + len(POOLS) * len(BotStatus)
    assert rows_read(plan) <= bots + details


HISTORY: dict[str, int] = {"limit": 100, "max_bytes": 1_000_000}
NEWEST = {"before": 2**62, "last_assignment": 2**62}
OLDER = {"before": 10_000, "last_assignment": 19_500}
FIRST_QUEUED: dict[str, Any] = {
    "tenant_id": None,
    "after_pool": "",
    "after_priority": 0,
    "after_arrival": 0,
}
QUEUED_AT_10_000 = {
    "tenant_id": None,
    "after_pool": "google-meet",
    "after_priority": 100,
    "after_arrival": 10_000,
}


@pytest.mark.parametrize(
    ("name", "parameters", "rows"),
    [
        ("find_bot_bounds", {}, 2),
        ("list_queue", FIRST_QUEUED | {"pool_name": None, "limit": 501}, 510),
        ("list_queue", FIRST_QUEUED | {"pool_name": "zoom", "limit": 501}, 2 + len(POOLS)),
        # The bots before the page are counted.
        ("list_queue", QUEUED_AT_10_000 | {"pool_name": None, "limit": 51}, 10_000 + 51 + 10),
        ("list_bot_history", {"bot_id": 19_007, "after": 0} | HISTORY, 40),
        ("list_bot_history", {"bot_id": 7, "after": 15_000} | HISTORY, HISTORY["limit"] + 2),
        ("list_newest_bot_history", {"bot_id": 7, "before": 2**62} | HISTORY, HISTORY["limit"] + 2),
        ("list_bot_transitions", {"bot_id": 19_007}, 40),
        # Rows of its assignments, rows without a bot, and the merge of both.
        ("list_slot_history", {"slot_id": 3} | NEWEST | HISTORY, 4 * HISTORY["limit"]),
        ("list_slot_history", {"slot_id": 3} | OLDER | HISTORY, 4 * HISTORY["limit"]),
        ("list_slot_history", {"slot_id": UNUSED_SLOT} | NEWEST | HISTORY, 0),
        ("list_slot_assignments", {"slot_id": 3, "before": 2**62, "limit": 200}, 400),
        ("list_slot_assignments", {"slot_id": 3, "before": 10_000, "limit": 200}, 400),
        ("list_slot_assignments", {"slot_id": UNUSED_SLOT, "before": 2**62, "limit": 200}, 0),
        ("find_oldest_change", {}, 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_details_of_a_page_read_few_rows(
    connection: psycopg.Connection, name: str, parameters: dict[str, Any], rows: int
) -> None:
    plan = explain(connection, name, parameters)
    assert not scanned_tables(plan)
    assert rows_read(plan) <= rows


@pytest.fixture
async def queries(full: str) -> AsyncIterator[Queries]:
    database = Database(full)
    await database.open()
    matcher = Matcher(database, Wakeups(database, owner="test"), Metrics())
    yield Queries(database=database, backends={}, estimates=Estimates(database), matcher=matcher)
    await database.close()


async def all_pages(
    queries: Queries,
    *,
    limit: int = 50,
    search: str | None = None,
    status: str | None = None,
    tenant_id: int | None = None,
) -> list[list[int]]:
    """Return the ids of the bots of every page."""
    pages: list[list[int]] = []
    before: BotPosition | None = None
    while not pages or before is not None:
        page = await queries.bots(
            status=BotStatus(status) if status else None,
            pool_name=None,
            tenant_id=None if tenant_id is None else TenantId(tenant_id),
            search=search,
            before=before,
            limit=limit,
        )
        pages.append([bot.id for bot in page.items])
        before = page.next
    return pages


async def test_pages_show_every_bot_once(queries: Queries) -> None:
    pages = await all_pages(queries, limit=10_000, status="CANCELLED")
    assert [bot for page in pages for bot in page] == [*range(99_999, 0, -3)]
    assert [len(page) for page in pages] == [10_000, 10_000, 10_000, 3_333]
    assert await all_pages(queries, status="FAILED") == [[1]]
    assert await all_pages(queries, search="J/9999") == [[*range(99_999, 99_989, -1), 9_999]]
    assert await all_pages(queries, search="1", status="FAILED") == [[1]]


async def test_search_returns_a_page_after_each_part(
    queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botpool.engine.queries._SEARCHED_IDS", 30_000)
    pages = await all_pages(queries, search="j/9999", limit=6)
    assert pages == [[*range(99_999, 99_993, -1)], [*range(99_993, 99_989, -1)], [], [9_999], []]


async def test_default_tenant_beside_others_gets_a_page_for_each_part(
    queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a page would read the bots of all other tenants to find the next of its own."""
    monkeypatch.setattr("botpool.engine.queries._SEARCHED_IDS", 30_000)
    pages = await all_pages(queries, status="FAILED", tenant_id=1)
    assert pages == [[], [], [], [1]]
    queries.matcher.is_shared = False
    assert await all_pages(queries, status="FAILED", tenant_id=1) == [[1]]
