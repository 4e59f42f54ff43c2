-- Write a pool's settings, if they changed. A promoted image, its CPUs and its memory stay as long as the settings
-- keep the value that they had at the promotion.
INSERT INTO pools AS p (
    pool_name, backend, image, max_size, heartbeats, cpus, memory_mb, stalled_after_s, reservable,
    hold_s, outcome, leave,
    finish_timeout_s, stop_grace_s, egress, warm, handover_timeout_s, configured_image,
    configured_cpus, configured_memory_mb)
VALUES (
    %(pool_name)s, %(backend)s, %(image)s, %(max_size)s, %(heartbeats)s, %(cpus)s, %(memory_mb)s,
    %(stalled_after_s)s, %(reservable)s, %(hold_s)s, %(outcome)s, %(leave)s, %(finish_timeout_s)s, %(stop_grace_s)s, %(egress)s,
    %(warm)s::jsonb, %(handover_timeout_s)s, %(image)s, %(cpus)s, %(memory_mb)s)
ON CONFLICT (pool_name) DO UPDATE
SET backend = EXCLUDED.backend,
    image = CASE WHEN p.configured_image = EXCLUDED.image THEN p.image ELSE EXCLUDED.image END,
    configured_image = EXCLUDED.image,
    max_size = EXCLUDED.max_size,
    heartbeats = EXCLUDED.heartbeats,
    cpus = CASE WHEN p.configured_cpus = EXCLUDED.cpus THEN p.cpus ELSE EXCLUDED.cpus END,
    configured_cpus = EXCLUDED.cpus,
    memory_mb = CASE WHEN p.configured_memory_mb = EXCLUDED.memory_mb THEN p.memory_mb ELSE EXCLUDED.memory_mb END,
    configured_memory_mb = EXCLUDED.memory_mb,
    stalled_after_s = EXCLUDED.stalled_after_s,
    reservable = EXCLUDED.reservable,
    hold_s = EXCLUDED.hold_s,
    outcome = EXCLUDED.outcome,
    leave = EXCLUDED.leave,
    finish_timeout_s = EXCLUDED.finish_timeout_s,
    stop_grace_s = EXCLUDED.stop_grace_s,
    egress = EXCLUDED.egress,
    warm = EXCLUDED.warm,
    handover_timeout_s = EXCLUDED.handover_timeout_s,
    updated_at = botpool_now()
WHERE (p.backend, p.configured_image, p.max_size, p.heartbeats, p.configured_cpus, p.configured_memory_mb,
       p.stalled_after_s, p.reservable, p.hold_s,
       p.outcome, p.leave, p.finish_timeout_s, p.stop_grace_s, p.egress, p.warm, p.handover_timeout_s)
    IS DISTINCT FROM (
        EXCLUDED.backend, EXCLUDED.image, EXCLUDED.max_size, EXCLUDED.heartbeats, EXCLUDED.cpus,
        EXCLUDED.memory_mb, EXCLUDED.stalled_after_s, EXCLUDED.reservable, EXCLUDED.hold_s, EXCLUDED.outcome, EXCLUDED.leave,
        EXCLUDED.finish_timeout_s, EXCLUDED.stop_grace_s, EXCLUDED.egress, EXCLUDED.warm,
        EXCLUDED.handover_timeout_s)
RETURNING p.pool_name
