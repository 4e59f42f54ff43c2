-- Take a new page of a table, as growing tables do: on a full disk this fails, while an update of an
-- existing page may succeed. The transaction is rolled back, and autovacuum returns the page.
INSERT INTO write_probes (payload) VALUES (repeat('x', 8000))
