-- The lowest and the highest bot id; null without bots.
SELECT min(b.id) AS oldest, max(b.id) AS newest
FROM bots b
