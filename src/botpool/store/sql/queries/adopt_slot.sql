-- Insert a slot for a container that another system created. The slot begins in error, so that the
-- reconciler stops the container before the slot takes a bot. An earlier statement has taken the
-- pool's lock. No row: the number was taken, or the pool has its maximum of slots.
WITH created AS (
    INSERT INTO bot_pool_slots (
        pool_name, number, slot_name, backend, image, image_host, container_id, status, error_message,
        error_at, phase_at, next_step_at)
    SELECT
        p.pool_name, %(number)s::integer, %(slot_name)s, p.backend, %(image)s, %(image_host)s, %(container_id)s,
        'error', %(reason)s, botpool_now(), botpool_now(), botpool_now()
    FROM pools p
    WHERE p.pool_name = %(pool_name)s
      AND (SELECT count(*) FROM slot_identities i WHERE i.pool_name = p.pool_name) < p.max_size
      AND NOT EXISTS (
          SELECT FROM slot_identities i WHERE i.pool_name = p.pool_name AND i.number = %(number)s::integer)
      AND NOT EXISTS (
          SELECT FROM slot_identities i WHERE i.backend = p.backend AND i.container_id = %(container_id)s)
    RETURNING id, slot_name, container_id
), written AS (
    INSERT INTO history (kind, slot_id, slot_name, to_state, reason)
    SELECT 'slot.status', created.id, created.slot_name, 'error', %(reason)s
    FROM created
)
SELECT created.id AS slot_id, created.slot_name, created.container_id FROM created
