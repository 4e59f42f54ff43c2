-- The oldest and the newest bot that is known; null where there is none.
SELECT min(b.id) AS oldest, max(b.id) AS newest
FROM bots b
