-- A backend's statuses say nothing now, and may be wrong for a while when they speak again.
UPDATE backends SET status_unreliable_at = botpool_now() WHERE name = %(backend)s
