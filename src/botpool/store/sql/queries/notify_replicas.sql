-- Wake the other replicas. Not part of hot transactions: NOTIFY takes a global lock at commit.
SELECT pg_notify('botpool', %(owner)s)
