-- Read the database's clock.
SELECT botpool_now() AS now
