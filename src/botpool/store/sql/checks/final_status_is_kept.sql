-- 11. Bots that left a final status in the latest transitions (null: all), and live bots with an end.
-- Meaning: 11. a final status never changes
-- Remedy: Botpool never writes this state. Back up the database, report it, then check that triggers
--   are enabled ('session_replication_role').
-- Kind: always
SELECT latest.bot_id AS bot, latest.from_state AS was, latest.to_state AS became
FROM (
    SELECT h.bot_id, h.from_state, h.to_state
    FROM history h
    WHERE h.kind = 'bot.status'
    ORDER BY h.xid DESC, h.id DESC
    LIMIT %(recent)s::bigint
) AS latest
WHERE latest.from_state IN ('DONE', 'FAILED', 'CANCELLED')
UNION ALL
SELECT b.id, 'ended', b.status
FROM bots b
WHERE b.status IN (
          'PENDING', 'QUEUED', 'DEPLOYING', 'JOINING_CALL', 'IN_WAITING_ROOM', 'IN_CALL', 'LEAVING',
          'CALL_ENDED')
  AND b.ended_at IS NOT NULL
