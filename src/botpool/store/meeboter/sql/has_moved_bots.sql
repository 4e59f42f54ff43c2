-- Tell whether an earlier import has created the table of moved bots.
SELECT to_regclass('botpool_moved_bots') IS NOT NULL AS found
