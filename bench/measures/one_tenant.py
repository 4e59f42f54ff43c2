"""What fair share costs an installation with one tenant: the match with and without it.

The statement without fair share is `match_queue.sql` less its condition on shared pools.
"""

import re
import statistics
import time

import psycopg

from bench.figures import Figure
from bench.postgres import Bench, execute, fill_pool
from botpool.domain.ids import PoolName
from botpool.store.queue import match_queue
from botpool.store.sessions import SessionTimeouts
from botpool.store.statements import positional, sent_text

_QUEUED = 1_000
_FILL_QUEUE = f"""
    INSERT INTO bots (
        pool_name, status, meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms,
        correlation_id, created_at, queued_at)
    SELECT 'google-meet', 'QUEUED', 'u', 'n', '{{}}', 100, 1000, 'c', now(), now()
    FROM generate_series(1, {_QUEUED})"""
_QUEUE_ROWS = """
    INSERT INTO bot_pool_queue (bot_id, pool_name, queued_at, timeout_at)
    SELECT id, pool_name, now(), now() + interval '1 hour' FROM bots"""
_FAIR_SHARE = re.compile(r"CASE WHEN NOT n\.shared THEN n\.slots END")


def measure(bench: Bench) -> list[Figure]:
    url = bench.database("one_tenant")
    fill_pool(url, slots=1)
    execute(url, _FILL_QUEUE, _QUEUE_ROWS, "VACUUM ANALYZE")
    fair = sent_text(match_queue.name)
    single, removed = _FAIR_SHARE.subn("n.slots", fair)
    assert removed == 1, f"match_queue.sql has no part like {_FAIR_SHARE.pattern}"
    count = 100 if bench.small else 500
    with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as connection:
        prepare = SessionTimeouts.of(30.0).statement()
        connection.execute(sent_text(prepare.name), prepare.parameters)
        connection.commit()
        matches = [_Match(connection, "single", single), _Match(connection, "fair", fair)]
        _medians(20, matches)
        medians = [_medians(count, matches) for _ in range(bench.rounds)]
    return [
        Figure(
            name="one_tenant_match",
            rounds=[with_tenants / without for without, with_tenants in medians],
            goal=1.02,
            at_most=True,
            tolerance=1.5,
            detail={"single_us": round(statistics.median(each for each, _ in medians) * 1e6)},
        )
    ]


class _Match:
    """A prepared statement that assigns one bot, and is rolled back."""

    def __init__(self, connection: psycopg.Connection, name: str, text: str) -> None:
        self._connection = connection
        self._name = name.encode()
        sent, order = positional(text)
        parameters = match_queue.statement(pool_name=PoolName("google-meet")).parameters
        self._values = [str(parameters[each]).encode() for each in order]
        connection.pgconn.prepare(self._name, sent)

    def run(self) -> float:
        """Return the time of one execution in seconds."""
        self._connection.execute("SELECT 1")
        began = time.perf_counter()
        result = self._connection.pgconn.exec_prepared(self._name, self._values)
        taken = time.perf_counter() - began
        assert result.ntuples == 1, result.error_message
        self._connection.rollback()
        return taken


def _medians(count: int, matches: list[_Match]) -> list[float]:
    """Return the median time of each statement. They alternate call by call."""
    times = [[each.run() for each in matches] for _ in range(count)]
    return [statistics.median(column) for column in zip(*times, strict=True)]
