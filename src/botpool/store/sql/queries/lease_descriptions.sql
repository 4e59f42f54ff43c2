-- Lease the descriptions that are out of date. A slot has one writer at a time, and none before an
-- earlier write, answered or not, can no longer arrive. A releasing slot is described only if
-- something went wrong. `handed_over`: the slot got its next bot before its release was described.
WITH wanted AS MATERIALIZED (
    SELECT
        s.id, s.backend, s.container_id, s.status, s.assigned_bot_id, s.last_used_at,
        s.last_released_at, s.phase_at, s.error_message, s.error_at, s.created_at,
        d.slot_id IS NOT NULL
            AND s.status IN ('deploying', 'busy')
            AND s.last_released_at IS DISTINCT FROM d.released_at AS handed_over,
        concat_ws('|', s.container_id, s.status, s.assignment_id, s.last_released_at) AS state
    FROM bot_pool_slots s
    LEFT JOIN slot_descriptions d ON d.slot_id = s.id
    WHERE s.backend = ANY(%(backends)s)
      AND s.container_id IS NOT NULL
      AND (s.status IN ('idle', 'deploying', 'busy', 'error')
           OR (s.status = 'releasing' AND s.error_message IS NOT NULL))
      AND (
          d.slot_id IS NULL
          OR (d.hold_until <= botpool_now()
              AND d.state IS DISTINCT FROM
                  concat_ws('|', s.container_id, s.status, s.assignment_id, s.last_released_at)))
    ORDER BY s.phase_at
    LIMIT %(limit)s
), held AS (
    INSERT INTO slot_descriptions AS d (slot_id, hold_until)
    SELECT wanted.id, botpool_now() + make_interval(secs => %(hold_s)s)
    FROM wanted
    ORDER BY wanted.id
    ON CONFLICT (slot_id) DO UPDATE SET hold_until = EXCLUDED.hold_until
    WHERE d.hold_until <= botpool_now()
    RETURNING d.slot_id, d.hold_until
)
SELECT
    wanted.id AS slot_id, wanted.backend, wanted.container_id, wanted.status,
    wanted.assigned_bot_id AS bot_id, wanted.last_used_at, wanted.last_released_at,
    wanted.phase_at, wanted.error_message, wanted.error_at, wanted.created_at, wanted.handed_over,
    wanted.state, held.hold_until, b.correlation_id
FROM wanted
JOIN held ON held.slot_id = wanted.id
LEFT JOIN bots b ON b.id = wanted.assigned_bot_id
ORDER BY wanted.phase_at
