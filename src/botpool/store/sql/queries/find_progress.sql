-- The figures that the agent of an assignment last sent, and when they last changed.
SELECT h.progress, h.progress_at
FROM bot_heartbeats h
WHERE h.bot_id = %(bot_id)s AND h.assignment_id = %(assignment_id)s AND h.progress IS NOT NULL
