-- Record that a bot was not blocked: the count of blocks in a row starts anew, and the probe closes the
-- circuit breaker. The pace stays low and rises with time. Writes nothing if nothing changes.
WITH former AS MATERIALIZED (
    SELECT e AS state
    FROM egresses e
    WHERE e.egress = (SELECT p.egress FROM pools p WHERE p.pool_name = %(pool_name)s)
      AND CASE e.breaker
          WHEN 'closed' THEN e.blocks > 0
          WHEN 'half_open' THEN e.probe_assignment_id = %(assignment_id)s
          ELSE false
      END
    FOR UPDATE
), changed AS (
    UPDATE egresses e
    SET pace = CASE WHEN e.breaker = 'closed' THEN botpool_pace(f.state) ELSE %(lowest_pace)s END,
        permits = CASE WHEN e.breaker = 'closed' THEN botpool_permits(f.state)
                       ELSE least(botpool_permits(f.state), 1) END,
        counted_at = botpool_now(),
        blocks = 0,
        breaker = 'closed',
        probe_at = NULL,
        pauses = 0,
        probe_assignment_id = NULL
    FROM former f
    WHERE e.egress = (f.state).egress
), written AS (
    INSERT INTO history (kind, assignment_id, from_state, to_state, reason, data)
    SELECT
        'egress.breaker', %(assignment_id)s, (f.state).breaker, 'closed', %(reason)s,
        json_build_object('egress', (f.state).egress)
    FROM former f
    WHERE (f.state).breaker <> 'closed'
)
SELECT (f.state).egress, (f.state).breaker <> 'closed' AS closed
FROM former f
