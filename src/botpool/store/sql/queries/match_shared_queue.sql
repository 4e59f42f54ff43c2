-- Assign queued bots of several tenants to the idle slots of a pool. The caller holds the pool's lock.
-- botpool_bots_in_turn chooses the bots, also in a pool with one tenant; botpool_count_served counts them.
-- `reserved` serves only the due bots with a reservation, the earliest join first, whatever their
-- tenant's turn and quota.
-- The statement locks rows in the order queue, quota, slot, bot. It skips quotas and slots that other
-- transactions hold, so it waits for none of them. A release has already locked its own slot and bot;
-- that cannot deadlock, because a transaction that holds a queue row only locks idle slots.
-- include count_assignable_slots.sql
), heads AS MATERIALIZED (
    SELECT r.bot_id, row_number() OVER (ORDER BY r.reserved_join_at, r.arrival) AS n
    FROM (
        SELECT w.bot_id, w.reserved_join_at, w.arrival
        FROM bot_pool_queue w
        WHERE w.pool_name = %(pool_name)s
          AND w.reserved_join_at IS NOT NULL
          AND w.timeout_at > botpool_now()
        ORDER BY w.reserved_join_at, w.arrival
        LIMIT (SELECT coalesce(max(CASE WHEN %(reserved)s THEN n.slots END), 0) FROM wanted n)
        FOR UPDATE
    ) AS r
    UNION ALL
    SELECT t.bot_id, t.n
    FROM wanted n
    CROSS JOIN LATERAL botpool_bots_in_turn(%(pool_name)s, n.slots) AS t
    WHERE NOT %(reserved)s
-- include assign_heads.sql
-- Once for all of them.
AND CASE
    WHEN pair.n = 1
    THEN botpool_count_served(
        %(pool_name)s, ARRAY(SELECT p.bot_id FROM pair p), ARRAY(SELECT p.tenant_id FROM pair p))
    ELSE true
END
