-- Opens a transaction that travels with its statements in one pipeline.
BEGIN
