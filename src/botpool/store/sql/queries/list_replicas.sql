-- List from where replicas are connected and which replicas hold leases.
SELECT
    ARRAY(
        SELECT coalesce(host(a.client_addr), 'this machine') || ' (' || count(*) || ')'
        FROM pg_stat_activity a
        WHERE a.application_name = 'botpool' AND a.datname = current_database()
        GROUP BY a.client_addr
        ORDER BY a.client_addr
    ) AS connected,
    ARRAY(
        SELECT DISTINCT s.lease_owner
        FROM bot_pool_slots s
        WHERE s.lease_until > botpool_now()
        ORDER BY s.lease_owner
    ) AS lease_owners
