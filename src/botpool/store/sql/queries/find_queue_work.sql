-- What the queue poll has to do: queue rows past their deadline, pools that could serve a queued
-- bot, whether tenants share the pools, pools in which several tenants wait, tenants whose live bots were never counted, and backends
-- with slots that wait at the image gate. The first entries of indexes show
-- whether bots wait and slots are idle.
SELECT
    EXISTS (SELECT FROM bot_pool_queue q WHERE q.timeout_at <= botpool_now()) AS expired,
    ARRAY(
        SELECT p.pool_name
        FROM pools p
        WHERE p.drained_at IS NULL
          AND CASE WHEN p.egress IS NULL THEN true ELSE botpool_assignable_bots(p.egress) > 0 END
          AND (
              SELECT q.id FROM bot_pool_queue q WHERE q.pool_name = p.pool_name
              ORDER BY q.priority, q.arrival LIMIT 1) IS NOT NULL
          AND (
              (
                  SELECT s.id FROM bot_pool_slots s
                  WHERE s.pool_name = p.pool_name AND s.claim_rank IS NOT NULL
                  ORDER BY s.claim_rank, s.last_used_at NULLS FIRST, s.number LIMIT 1) IS NOT NULL
              OR (SELECT count(*) FROM slot_identities i WHERE i.pool_name = p.pool_name) < p.max_size
          )
        ORDER BY p.pool_name
    ) AS servable,
    botpool_tenants_share_pools() AS shared,
    ARRAY(
        SELECT p.pool_name
        FROM pools p
        WHERE (p.turns_counted_at IS NULL OR p.turns_counted_at <= botpool_now() - interval '1 second'
               OR p.turns_counted_at > botpool_now())
          AND (
              (
                  SELECT t.tenant_id FROM tenant_turns t WHERE t.pool_name = p.pool_name AND t.waits
                  ORDER BY t.share, t.pass, t.tenant_id LIMIT 1) IS NOT NULL
              OR (
                  SELECT q.tenant_id FROM bot_pool_queue q WHERE q.pool_name = p.pool_name
                  ORDER BY q.tenant_id LIMIT 1)
                  <> (
                  SELECT q.tenant_id FROM bot_pool_queue q WHERE q.pool_name = p.pool_name
                  ORDER BY q.tenant_id DESC LIMIT 1))
        ORDER BY p.pool_name
    ) AS contended,
    ARRAY(
        SELECT t.id FROM tenants t WHERE t.max_live IS NOT NULL AND t.live IS NULL ORDER BY t.id
    ) AS uncounted,
    ARRAY(
        SELECT DISTINCT s.backend
        FROM bot_pool_slots s
        WHERE s.phase IN ('waiting_for_image', 'waiting_for_start')
        ORDER BY s.backend
    ) AS gates
