-- Wake the other replicas. Sent off the hot path: a NOTIFY takes a global lock at its commit.
SELECT pg_notify('botpool', %(owner)s)
