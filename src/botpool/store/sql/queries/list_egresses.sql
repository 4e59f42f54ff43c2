-- The egresses that pools use, with their pace and their circuit breaker now.
SELECT
    e.egress, e.per_minute * botpool_pace(e) AS per_minute, e.per_minute AS configured_per_minute,
    e.breaker, e.probe_at, e.blocks AS blocks_in_a_row
FROM egresses e
WHERE EXISTS (SELECT FROM pools p WHERE p.egress = e.egress)
ORDER BY e.egress
