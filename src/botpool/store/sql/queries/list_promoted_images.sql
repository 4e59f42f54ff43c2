-- List the pools whose image a promoted rollout gave them, while the settings name another one.
SELECT p.pool_name, p.image, p.configured_image, promoted.id AS rollout_id
FROM pools p
LEFT JOIN LATERAL (
    SELECT r.id FROM rollouts r
    WHERE r.pool_name = p.pool_name AND r.state = 'promoted'
    ORDER BY r.id DESC
    LIMIT 1
) AS promoted ON true
WHERE p.configured_image <> p.image
