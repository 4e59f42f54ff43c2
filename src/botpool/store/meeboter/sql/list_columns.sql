-- List the columns of a table in the first schema of the search path that has it.
SELECT a.attname AS name, format_type(a.atttypid, NULL) AS data_type
FROM pg_attribute a
WHERE a.attrelid = to_regclass(quote_ident(%(table)s)) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
