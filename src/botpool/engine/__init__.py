"""What happens: one concern a file.

Nothing waits in memory. A transition commits what is wanted; the loops here find it in the
database, make one idempotent step towards it at a backend, and commit what they saw, fenced.
"""
