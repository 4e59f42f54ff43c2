-- Create a tenant; no row if the name is taken.
INSERT INTO tenants (name, weight, max_live, max_queued, max_booked, posts_per_minute)
VALUES (%(name)s, %(weight)s, %(max_live)s, %(max_queued)s, %(max_booked)s, %(posts_per_minute)s)
ON CONFLICT (name) DO NOTHING
RETURNING id, name, weight, max_live, max_queued, max_booked, posts_per_minute, created_at,
          0 AS live, 0 AS queued
