-- Assign the heads of a pool's queue to its idle slots, in order. The caller holds the pool's lock.
-- Only this statement and match_shared_queue take bots off the queue for a slot. This one is for installations
-- with one tenant, and serves no bot in a pool that tenants share.
-- The statement locks rows in the order queue, slot, bot. It skips slots that other transactions hold, so
-- it waits for none of them. A release has already locked its own slot and bot; that cannot deadlock,
-- because a transaction that holds a queue row only locks idle slots.
-- include count_assignable_slots.sql
), heads AS MATERIALIZED (
    SELECT q.bot_id, row_number() OVER (ORDER BY q.priority, q.arrival) AS n
    FROM (
        SELECT w.bot_id, w.priority, w.arrival
        FROM bot_pool_queue w
        WHERE w.pool_name = %(pool_name)s AND w.timeout_at > botpool_now()
        ORDER BY w.priority, w.arrival
        LIMIT (SELECT coalesce(max(CASE WHEN NOT n.shared THEN n.slots END), 0) FROM wanted n)
        FOR UPDATE
    ) AS q
-- include assign_heads.sql
