-- The applied migrations; also shows that the database answers.
SELECT ARRAY(SELECT m.migration_id::text FROM _yoyo_migration m ORDER BY m.migration_id) AS migrations
