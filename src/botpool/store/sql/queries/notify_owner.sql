-- Tell the replica that holds the polls of standbys that they have bots. Sent after the commit of the claim.
SELECT pg_notify(%(channel)s, %(slots)s)
