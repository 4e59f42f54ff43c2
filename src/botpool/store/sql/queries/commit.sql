-- End a transaction whose statements travelled together.
COMMIT
