-- Lower the pace of a pool's egress because a bot was blocked, and open the circuit breaker after too
-- many blocks in a row or if the blocked bot was the probe. The pace is halved once for all bots that
-- were assigned before it was last lowered: they were started at the former pace.
WITH former AS MATERIALIZED (
    SELECT e AS state
    FROM egresses e
    WHERE e.egress = (SELECT p.egress FROM pools p WHERE p.pool_name = %(pool_name)s)
    FOR UPDATE
), verdict AS MATERIALIZED (
    SELECT
        f.state, (f.state).egress, (f.state).blocks + 1 AS blocks,
        coalesce(a.assigned_at > (f.state).lowered_at, true) AS lowers,
        CASE (f.state).breaker
            WHEN 'closed' THEN (f.state).blocks + 1 >= (f.state).pause_after_blocks
            WHEN 'half_open' THEN (f.state).probe_assignment_id = a.id
            ELSE false
        END AS opens,
        -- Each pause in a row is twice as long as the one before, up to the longest.
        least(
            (f.state).pause_s * power(2, least((f.state).pauses, 20)),
            greatest(%(longest_pause_s)s, (f.state).pause_s)) AS pause_s
    FROM former f
    JOIN assignments a ON a.id = %(assignment_id)s
), changed AS (
    UPDATE egresses e
    SET pace = CASE WHEN v.lowers THEN greatest(botpool_pace(v.state) / 2, %(lowest_pace)s)
                    ELSE botpool_pace(v.state) END,
        permits = CASE WHEN v.lowers THEN least(botpool_permits(v.state), 1)
                       ELSE botpool_permits(v.state) END,
        counted_at = botpool_now(),
        lowered_at = CASE WHEN v.lowers THEN botpool_now() ELSE e.lowered_at END,
        blocks = v.blocks,
        breaker = CASE WHEN v.opens THEN 'open' ELSE e.breaker END,
        probe_at = CASE WHEN v.opens THEN botpool_now() + make_interval(secs => v.pause_s)
                             ELSE e.probe_at END,
        pauses = e.pauses + CASE WHEN v.opens THEN 1 ELSE 0 END,
        probe_assignment_id = CASE WHEN v.opens THEN NULL ELSE e.probe_assignment_id END
    FROM verdict v
    WHERE e.egress = v.egress
    RETURNING e.egress, e.pace, e.probe_at
), written AS (
    INSERT INTO history (kind, assignment_id, from_state, to_state, reason, data)
    SELECT
        w.kind, %(assignment_id)s, w.from_state, w.to_state, w.reason,
        json_build_object(
            'egress', c.egress, 'perMinute', round(((v.state).per_minute * c.pace)::numeric, 2),
            'blocksInARow', v.blocks, 'until', CASE WHEN w.kind = 'egress.breaker' THEN c.probe_at END)
    FROM verdict v
    CROSS JOIN changed c
    CROSS JOIN LATERAL (
        VALUES
            (1, 'egress.pace', NULL, NULL, %(lowered_reason)s::text, v.lowers),
            (2, 'egress.breaker', (v.state).breaker, 'open', %(opened_reason)s::text, v.opens)
    ) AS w (step, kind, from_state, to_state, reason, applies)
    WHERE w.applies
    ORDER BY w.step
)
SELECT
    c.egress, v.blocks, v.lowers AS lowered, v.opens AS opened, c.probe_at,
    (v.state).per_minute * c.pace AS per_minute
FROM verdict v
CROSS JOIN changed c
