-- Commits the transaction that begin.sql opened.
COMMIT
