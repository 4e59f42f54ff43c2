DROP TRIGGER slots_leading ON bot_pool_slots;
DROP FUNCTION botpool_end_leading;
DROP TABLE slot_descriptions, known_images, backend_requests, backends;
ALTER TABLE bot_pool_slots
    DROP COLUMN place, DROP COLUMN limits, DROP COLUMN start_wanted_at, DROP COLUMN deployment_ended_at,
    DROP COLUMN leads_image;
ALTER TABLE assignments DROP COLUMN seen_running_at;
ALTER TABLE pools DROP COLUMN cpus, DROP COLUMN memory_mb;
