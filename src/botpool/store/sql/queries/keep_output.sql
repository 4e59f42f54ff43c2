-- Keep the end of a run's output with its bot. A repetition writes the same; an earlier run's output
-- that arrives late replaces nothing.
INSERT INTO bot_outputs AS o (bot_id, assignment_id, output, is_whole, at)
SELECT b.id, %(assignment_id)s, %(output)s, %(is_whole)s, botpool_now()
FROM bots b
WHERE b.id = %(bot_id)s
ON CONFLICT (bot_id) DO UPDATE
SET assignment_id = EXCLUDED.assignment_id,
    output = EXCLUDED.output,
    is_whole = EXCLUDED.is_whole,
    at = EXCLUDED.at
WHERE o.assignment_id <= EXCLUDED.assignment_id
