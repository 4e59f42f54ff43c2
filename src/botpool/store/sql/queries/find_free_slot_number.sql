-- Find the number for a new slot of a pool: the wanted one if it is free, else the first free one.
-- No row: the pool has its maximum of slots, or does not exist.
SELECT n.number
FROM pools p
CROSS JOIN generate_series(1, p.max_size) AS n (number)
WHERE p.pool_name = %(pool_name)s
  AND NOT EXISTS (
      SELECT FROM slot_identities i WHERE i.pool_name = p.pool_name AND i.number = n.number)
ORDER BY n.number <> %(wanted)s::integer, n.number
LIMIT 1
