-- Choose the revision of a run that begins, and count it. An earlier statement has locked the rollout. The new
-- revision gets no more than its share of the assignments so far. A bot gets it in its first assignment only, so
-- that a retry has the old one; a standby gets it only if its later bot is within the share. A run that has
-- chosen keeps its choice. No row if the rollout has no canary any more, or the slot has changed.
WITH slot AS MATERIALIZED (
    SELECT s.run_id, s.assignment_id, s.assigned_bot_id
    FROM bot_pool_slots s
    WHERE s.id = %(slot_id)s
      AND s.assignment_id IS NOT DISTINCT FROM %(assignment_id)s
      AND s.version = %(version)s
), choice AS MATERIALIZED (
    SELECT
        slot.run_id, r.id AS rollout_id, slot.assignment_id IS NOT NULL AS has_bot, c.is_new,
        CASE WHEN c.is_new THEN r.new_revision_id ELSE r.old_revision_id END AS revision_id
    FROM slot
    JOIN rollouts r ON r.id = %(rollout_id)s AND r.state = 'canary'
    CROSS JOIN LATERAL (
        SELECT
            r.new_runs + 1 <= r.share * (r.assigned + CASE WHEN slot.assignment_id IS NULL THEN 0 ELSE 1 END)
            AND NOT EXISTS (
                SELECT FROM assignments a
                WHERE a.bot_id = slot.assigned_bot_id AND a.id <> slot.assignment_id) AS is_new
    ) AS c
    WHERE NOT EXISTS (SELECT FROM rollout_runs u WHERE u.run_id = slot.run_id)
), chosen AS (
    INSERT INTO rollout_runs (run_id, rollout_id, revision_id, is_new)
    SELECT choice.run_id, choice.rollout_id, choice.revision_id, choice.is_new FROM choice
), counted AS (
    UPDATE rollouts r
    SET assigned = r.assigned + CASE WHEN choice.has_bot THEN 1 ELSE 0 END,
        new_runs = r.new_runs + CASE WHEN choice.is_new THEN 1 ELSE 0 END
    FROM choice
    WHERE r.id = choice.rollout_id
)
SELECT v.image, v.cpus, v.memory_mb
FROM revisions v
WHERE v.id = coalesce(
    (SELECT choice.revision_id FROM choice),
    (SELECT u.revision_id FROM rollout_runs u JOIN slot ON slot.run_id = u.run_id))
