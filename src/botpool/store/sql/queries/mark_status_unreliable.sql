-- Record that a backend's statuses are unreliable now, and for its status lag after that.
UPDATE backends SET status_unreliable_at = botpool_now() WHERE name = %(backend)s
