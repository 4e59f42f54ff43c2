-- Change the columns of a tenant that `changes` names; others keep their values.
UPDATE tenants t
SET weight = CASE WHEN c.changes ? 'weight' THEN (c.changes ->> 'weight')::integer ELSE t.weight END,
    max_live = CASE WHEN c.changes ? 'max_live' THEN (c.changes ->> 'max_live')::integer
                    ELSE t.max_live END,
    max_queued = CASE WHEN c.changes ? 'max_queued' THEN (c.changes ->> 'max_queued')::integer
                      ELSE t.max_queued END,
    max_booked = CASE WHEN c.changes ? 'max_booked' THEN (c.changes ->> 'max_booked')::integer
                      ELSE t.max_booked END,
    posts_per_minute = CASE WHEN c.changes ? 'posts_per_minute'
                            THEN (c.changes ->> 'posts_per_minute')::integer
                            ELSE t.posts_per_minute END
FROM (SELECT %(changes)s::jsonb AS changes) AS c
WHERE t.name = %(name)s
RETURNING t.id
