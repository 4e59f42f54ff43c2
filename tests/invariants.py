"""What must always hold, asked of a live database. Every scenario ends with it."""

import psycopg

# Each query gives the rows that break the rule in its name.
RULES = {
    "1. a bot is in at most one slot": """
        SELECT assigned_bot_id, count(*) FROM bot_pool_slots
        WHERE assigned_bot_id IS NOT NULL GROUP BY 1 HAVING count(*) > 1""",
    "2. who has a bot follows from the status": """
        SELECT id, status, assigned_bot_id FROM bot_pool_slots
        WHERE (status IN ('deploying', 'busy', 'releasing')) <> (assigned_bot_id IS NOT NULL)""",
    "3. numbers and names are unique in their pool, container ids in a backend": """
        SELECT platform || number::text AS key FROM bot_pool_slots GROUP BY 1 HAVING count(*) > 1
        UNION ALL
        SELECT slot_name FROM bot_pool_slots GROUP BY 1 HAVING count(*) > 1
        UNION ALL
        SELECT backend || container_id FROM bot_pool_slots
        WHERE container_id IS NOT NULL GROUP BY 1 HAVING count(*) > 1""",
    "4. a pool never exceeds its maximum, except by bots that ran when it was lowered": """
        SELECT p.platform, p.max_size, count(*)
        FROM pools p JOIN bot_pool_slots s USING (platform)
        WHERE s.status <> 'deleting'
        GROUP BY p.platform, p.max_size
        HAVING count(*) > p.max_size AND count(*) FILTER (WHERE s.assigned_bot_id IS NULL) > 0""",
    "5. QUEUED exactly while there is a queue row, never also assigned": """
        SELECT b.id, b.status FROM bots b LEFT JOIN bot_pool_queue q ON q.bot_id = b.id
        WHERE (b.status = 'QUEUED') <> (q.bot_id IS NOT NULL)
        UNION ALL
        SELECT q.bot_id, 'queued and assigned' FROM bot_pool_queue q
        JOIN bot_pool_slots s ON s.assigned_bot_id = q.bot_id""",
    "7. a slot with a bot belongs to that bot's last assignment, which has not ended": """
        SELECT s.id, s.assignment_id, b.assignment_id
        FROM bot_pool_slots s
        JOIN bots b ON b.id = s.assigned_bot_id
        LEFT JOIN assignments a ON a.id = s.assignment_id
        WHERE b.assignment_id IS DISTINCT FROM s.assignment_id
           OR a.ended_at IS NOT NULL OR a.bot_id <> b.id""",
    "7. an assignment that has not ended has its slot": """
        SELECT a.id FROM assignments a LEFT JOIN bot_pool_slots s ON s.assignment_id = a.id
        WHERE a.ended_at IS NULL AND s.id IS NULL""",
    "8. a bot's history is a chain of moves from PENDING to its status": """
        WITH moves AS (
            SELECT bot_id, from_state, to_state,
                   lag(to_state) OVER w AS before, lead(id) OVER w AS after
            FROM history WHERE kind = 'bot.status' WINDOW w AS (PARTITION BY bot_id ORDER BY id))
        SELECT bot_id, from_state, to_state, before FROM moves
        WHERE from_state IS DISTINCT FROM before
        UNION ALL
        SELECT b.id, b.status, m.to_state, 'last' FROM bots b
        LEFT JOIN moves m ON m.bot_id = b.id AND m.after IS NULL
        WHERE m.to_state IS DISTINCT FROM b.status""",
    "8. a slot's history is a chain of moves to its status": """
        WITH moves AS (
            SELECT slot_id, from_state, to_state,
                   lag(to_state) OVER w AS before, lead(id) OVER w AS after
            FROM history WHERE kind = 'slot.status' WINDOW w AS (PARTITION BY slot_id ORDER BY id))
        SELECT slot_id, from_state, to_state, before FROM moves
        WHERE from_state IS DISTINCT FROM before
        UNION ALL
        SELECT s.id, s.status, m.to_state, 'last' FROM bot_pool_slots s
        LEFT JOIN moves m ON m.slot_id = s.id AND m.after IS NULL
        WHERE m.to_state IS DISTINCT FROM s.status""",
    "10. a bot that is not final is queued or in a slot": """
        SELECT b.id, b.status FROM bots b
        WHERE b.status NOT IN ('DONE', 'FAILED', 'CANCELLED', 'QUEUED')
          AND NOT EXISTS (SELECT FROM bot_pool_slots s WHERE s.assigned_bot_id = b.id)""",
    "every slot with work to do has its next step": """
        SELECT id, status FROM bot_pool_slots
        WHERE next_step_at IS NULL
          AND status IN ('releasing', 'error', 'deleting', 'deploying')""",
}


def broken_invariants(url: str) -> dict[str, list[tuple[object, ...]]]:
    with psycopg.connect(url) as connection:
        found = {rule: connection.execute(query).fetchall() for rule, query in RULES.items()}
    return {rule: rows for rule, rows in found.items() if rows}


def assert_invariants(url: str) -> None:
    broken = broken_invariants(url)
    assert not broken, f"broken invariants: {broken}"


def assert_settled(url: str) -> None:
    """Everything has come to rest: all bots final, no queue, no slot with a bot."""
    assert_invariants(url)
    with psycopg.connect(url) as connection:
        restless = connection.execute(
            "SELECT id, status FROM bots WHERE status NOT IN ('DONE', 'FAILED', 'CANCELLED')"
        ).fetchall()
        occupied = connection.execute(
            "SELECT slot_name, status FROM bot_pool_slots WHERE assigned_bot_id IS NOT NULL"
        ).fetchall()
    assert not restless, f"bots that never ended: {restless}"
    assert not occupied, f"slots that are still occupied: {occupied}"
