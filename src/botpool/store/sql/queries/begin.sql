-- Begin a transaction whose statements travel together.
BEGIN
